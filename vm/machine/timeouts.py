"""The time that a run may take: when it is over, and the event that ends the run then.

The time is in the notes of records, and enters no trace hash. Whether it is over is asked of a clock by whoever drives
the run; a replay reads it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from stepward.vm.journal.canonical import LARGEST
from stepward.vm.machine.calls import ended
from stepward.vm.machine.events import Event
from stepward.vm.machine.plan import Plan
from stepward.vm.machine.state import State

TIME: Final = "time"
"""The reason with which a run ends whose time is over."""


def end_of_time(plan: Plan, start: int) -> int | None:
    """Return when the time of a run is over that starts at `start`, both in microseconds; None without a limit."""
    return None if plan.lasts is None else min(start + plan.lasts, LARGEST)


def limit_note(plan: Plan, start: int) -> dict[str, int]:
    """Return what the note of the first record says of the time of a run that starts at `start`, in microseconds."""
    due = end_of_time(plan, start)
    return {} if due is None else {"due": due}


def is_late(state: State, now: int) -> bool:
    """Return whether a run has to end because its time is over at `now`, in microseconds.

    A run that is being cancelled ends for that, and one that moves to another version leaves the rest to the next run.
    """
    return 0 < state.ends_by <= now and not (state.is_over or state.is_cancelled or state.is_leaving)


def run_out(plan: Plan, state: State, now: int) -> Event:
    """Return the event that ends a run whose time is over at `now`; it names effects that may have happened."""
    return ended(plan, state, "BUDGET_EXCEEDED", TIME)._replace(note={"time": now})


def start_misfit(plan: Plan, note: Mapping[str, Any], at: int) -> str | None:
    """Return why the first record of a run does not say when its time is over, or None; `at` is the record's time."""
    is_so = note.get("due") == end_of_time(plan, at)
    return None if is_so else "its time is not over when its program says"


def ending_misfit(plan: Plan, state: State, event: Event) -> str | None:
    """Return why a run did not end because its time was over, or None."""
    time = event.note.get("time")
    is_so = type(time) is int and is_late(state._replace(is_cancelled=False), time)
    due = run_out(plan, state, time) if is_so else None  # type: ignore[arg-type]
    is_so = due is not None and (due.text, due.note) == (event.text, event.note)
    return None if is_so else "the time of the run was not over"
