"""Canaries of waits; a helper, no tests stand here."""

from __future__ import annotations

import pytest

from canaries import Canary
from rewriting import rewrite
from stepward.sabotage.campaigns.specimen_programs import specimen
from stepward.vm.machine import apply, deliveries, replay, timely, waits
from stepward.vm.machine.deadlines import overdue

DUNNING, ESCALATION = specimen("dunning"), specimen("escalation")


def goes_on_a_day_early(patch: pytest.MonkeyPatch) -> None:
    """End a wait by a clock that is a day ahead."""
    patch.setattr(timely, "overdue", lambda plan, state, now: overdue(plan, state, now + 86_400_000_000))


def any_end(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, waits, "waited", ('if event.note["time"] < state.due', "if False"))
    patch.setitem(apply._HANDLERS, "waited", waits.waited)
    rewrite(patch, replay, "_misfit", ("return None if is_so else _undecided(event)", "return None"))


def any_due(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, replay, "_matches", ('decided.kind == "waiting"', "False"))


def any_deadline(patch: pytest.MonkeyPatch) -> None:
    rewrite(patch, replay, "_due_misfit", ('return None if note.get("due") == due', "return None if True"))


def late_answers_count(patch: pytest.MonkeyPatch) -> None:
    """Take an answer without a look at the clock."""
    patch.setattr(deliveries, "overdue", lambda plan, state, now: None)


CANARIES = (
    Canary(
        "goes-on-a-day-early",
        "a wait is over at its time by the clock",
        "taken-up-before-its-time",
        DUNNING,
        goes_on_a_day_early,
    ),
    Canary("any-end", "a replay holds the end of a wait against its time", "wait-cut-short", DUNNING, any_end),
    Canary(
        "a-day-before-the-deadline",
        "a deadline passes at its time by the clock",
        "taken-up-before-its-time",
        ESCALATION,
        goes_on_a_day_early,
    ),
    Canary("any-deadline", "a replay computes when a deadline passes", "wait-cut-short", ESCALATION, any_deadline),
    Canary(
        "late-answers-count",
        "whoever takes an answer first records which deadlines have passed",
        "answer-after-the-deadline",
        ESCALATION,
        late_answers_count,
    ),
    Canary("any-due", "a replay computes when a wait is over", "wait-cut-short", DUNNING, any_due),
)
