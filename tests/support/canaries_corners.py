"""Canaries of ends without success, waivers, threads, breakers, old runs and calls; a helper, no tests stand here."""

from __future__ import annotations

import pytest

from canaries import Canary
from canaries_load import READ
from rewriting import rewrite, rewritten
from stepward.vm.journal.memory import MemoryJournal
from stepward.vm.machine import apply, deadlines, items, leaving, moving
from stepward.vm.machine.breakers import Breakers
from stepward.vm.machine.plan import Terms
from stepward.vm.machine.retention import Retention


def takes_a_single_fallback_for_a_success(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, leaving, "_left", ('("success", "branch")', '("success", "branch", "fallback")'))


def takes_a_skipped_step_with_items_for_a_success(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, leaving, "_left", ('("success", "branch")', '("success", "branch", "skipped")'))


def waives_all_rules_of_a_policy(patch: pytest.MonkeyPatch) -> None:
    change = (
        'any(f"{policy.policy}:{name}" in self.waived for name in names)',
        'any(one.startswith(f"{policy.policy}:") for one in self.waived)',
    )
    rewrite(patch, Terms, "waives", change)


def holds_before_the_lock(patch: pytest.MonkeyPatch) -> None:
    rewrite(
        patch,
        MemoryJournal,
        "hold",
        ("    with self._lock:\n", "    is_open = name in self.opened()\n    with self._lock:\n"),
        ("if name not in self._opened():", "if not is_open:"),
    )


def gives_null_for_no_output(patch: pytest.MonkeyPatch) -> None:
    change = ("UNDEFINED if body.is_once and get(each.outputs, 0) is UNDEFINED else output", "output")
    patch.setattr(apply, "joined_items", rewritten(items.joined_items, change))


def passes_no_deadline_of_a_write(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, deadlines, "_passed", ('"doubt" if call.writes else "failed"', '"failed"'))


def counts_all_failures(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, Breakers, "count", ("self._failures.pop(tool, None)\n        return None", "return None"))


def prunes_what_ends_then(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, Retention, "_judge", ("if ended >= before:", "if ended > before:"))


def grants_every_budget_anew(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(moving, "bounded", lambda program, allowed: program)


CANARIES = (
    Canary(
        "grants-every-budget-anew",
        "a run that moves leaves what is left of its budgets",
        "moved-run",
        READ,
        grants_every_budget_anew,
    ),
    Canary(
        "counts-all-failures",
        "a breaker opens after failures in a row",
        "breakers-switched",
        READ,
        counts_all_failures,
    ),
    Canary(
        "prunes-what-ends-then",
        "what is pruned ended before the time",
        "pruned-too-early",
        READ,
        prunes_what_ends_then,
    ),
    Canary(
        "takes-a-single-fallback-for-a-success",
        "a call that ended by its fallback did not succeed",
        "end-without-success",
        READ,
        takes_a_single_fallback_for_a_success,
    ),
    Canary(
        "takes-a-skipped-step-with-items-for-a-success",
        "a step is skipped of which an item has failed",
        "end-without-success",
        READ,
        takes_a_skipped_step_with_items_for_a_success,
    ),
    Canary(
        "waives-all-rules-of-a-policy",
        "a waiver is for one rule",
        "waiver-for-one-rule",
        READ,
        waives_all_rules_of_a_policy,
    ),
    Canary(
        "holds-before-the-lock",
        "a run is held under the lock under which the breaker is looked at",
        "threads-at-once",
        READ,
        holds_before_the_lock,
    ),
    Canary(
        "gives-null-for-no-output",
        "a called program that ends without an output leaves none",
        "drawn-calls",
        READ,
        gives_null_for_no_output,
    ),
    Canary(
        "passes-no-deadline-of-a-write",
        "a suspended write whose deadline passes is in doubt",
        "drawn-time",
        READ,
        passes_no_deadline_of_a_write,
    ),
)
