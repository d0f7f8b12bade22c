"""Canaries of operations on stored runs in any order; a helper, no tests stand here."""

from __future__ import annotations

import pytest

from canaries import Canary
from canaries_load import READ
from rewriting import rewrite, rewritten
from stepward.vm.journal import copying
from stepward.vm.machine import continuing, deadlines, deliveries, timely
from stepward.vm.machine.claims import Claims
from stepward.vm.machine.deliveries import Deliveries
from stepward.vm.machine.runs import Runs


def lets_one_deadline_pass(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, Deliveries, "_in_time", ("while (event :=", "if (event :="))


def passes_behind_the_edge(patch: pytest.MonkeyPatch) -> None:
    late = rewritten(deadlines.overdue, ("0 < first <= now", "0 < first < now"))
    for module in (deliveries, timely):
        patch.setattr(module, "overdue", late)


def forgets_the_first_writes(patch: pytest.MonkeyPatch) -> None:
    interrupted = continuing._interrupted
    patch.setattr(continuing, "_interrupted", lambda chain: interrupted(chain)[-1:])


def learns_nothing_of_what_it_claims(patch: pytest.MonkeyPatch) -> None:
    begins = "return await self._go_on(*await self._begin(lease, require))"
    lines = (
        "driver, found = await self._begin(lease, require)",
        "driver.known = type(driver.known)(driver.plan)",
        "return await self._go_on(driver, found)",
    )
    rewrite(patch, Claims, "go_on", (begins, "\n    ".join(lines)))


def compares_lengths(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, copying, "_copy_run", ("known[:3] == head[:3]", "known[:2] == head[:2]"))


def spares_later_runs(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, Runs, "_others_of_chain", ("chain_after(found, earlier,", "chain_after(found, (),"))


def copies_no_later_policies(patch: pytest.MonkeyPatch) -> None:
    kinds = ('("started", "governed", "moved")', '("started", "moved")')
    named = rewritten(copying._named, kinds)
    patch.setattr(copying, "_named", named)


_NAME = "operations-in-any-order"

CANARIES = (
    Canary("lets-one-deadline-pass", "each deadline passes before an answer counts", _NAME, READ,
           lets_one_deadline_pass),
    Canary("passes-behind-the-edge", "what is due at a time is over at that time", _NAME, READ, passes_behind_the_edge),
    Canary("forgets-the-first-writes", "no run of a chain repeats a write of any before it", _NAME, READ,
           forgets_the_first_writes),
    Canary("learns-nothing-of-what-it-claims", "whoever goes on with a run knows its sensitive values", _NAME, READ,
           learns_nothing_of_what_it_claims),
    Canary("copies-no-later-policies", "a copy has the policies under which a run came later", _NAME, READ,
           copies_no_later_policies),
    Canary("compares-lengths", "a run that differs from its copy is not overwritten, and told of", _NAME, READ,
           compares_lengths),
    Canary("spares-later-runs", "all runs of a chain are erased as one", _NAME, READ, spares_later_runs),
)  # fmt: skip
