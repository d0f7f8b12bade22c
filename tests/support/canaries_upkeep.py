"""Canaries of lists of runs, pruning, and calls beside breakers; a helper, no tests stand here."""

from __future__ import annotations

import pytest

from canaries import Canary
from canaries_load import READ
from rewriting import rewrite
from stepward.vm.journal.memory import MemoryJournal
from stepward.vm.journal.sqlite import SQLiteJournal
from stepward.vm.machine.driver import Driver
from stepward.vm.machine.execution import ExecutionVM
from stepward.vm.machine.retention import Retention


def takes_no_second_look(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, Retention, "_prune_one", ("why = self._needed(history, ())", "why = None"))


def lists_what_starts_after(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, MemoryJournal, "rows", ("stored.started >= since", "stored.started > since"))


def lists_the_oldest_in_files(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, SQLiteJournal, "rows", ("started DESC, number DESC", "started DESC, number"))


def starts_under_any_policies(patch: pytest.MonkeyPatch) -> None:
    change = ('if body["policies"] != list(plan.policy_documents):', "if False:")
    rewrite(patch, ExecutionVM, "_existing", change)


def looks_behind_the_decision(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, Driver, "attempt", ("if is_held(self, plan):", "await look(self)\n    if is_held(self, plan):"))


CANARIES = (
    Canary("takes-no-second-look", "a run that was continued meanwhile is not pruned", "pruned-too-early", READ,
           takes_no_second_look),
    Canary("lists-what-starts-after", "a list has the runs that started at its time", "operations-in-any-order", READ,
           lists_what_starts_after),
    Canary("lists-the-oldest-in-files", "a list in a file has the newest runs", "operations-in-any-order", READ,
           lists_the_oldest_in_files),
    Canary("starts-under-any-policies", "a run id belongs to a program under its policies", "operations-in-any-order",
           READ, starts_under_any_policies),
    Canary("looks-behind-the-decision", "a call is decided on once, however long the store takes",
           "breakers-at-once", READ, looks_behind_the_decision),
)  # fmt: skip
