"""From when on a machine can go on with a run that nobody drives."""

from __future__ import annotations

from typing import Final

from stepward.vm.machine.state import AWAITED, OPEN, READY, Fork, State

NOW: Final = 0.0
"""Any time is late enough."""


def due_of(state: State) -> float | None:
    """Return the time from which on a machine can go on with a run, in seconds since the epoch; NOW for any time.

    None if nobody can: the run is over, or it waits for a delivery without a deadline. Otherwise it is the time at
    which the first wait is over, the first deadline passes, or the time of the run is over. Where all that is left
    besides are calls whose next attempt is delayed, it is the time of the first of all.
    """
    if state.is_over:
        return None
    if state.is_cancelled:
        return NOW
    found = [_due_of_calls(state)] if state.status == "RUNNING" else []
    if found == [NOW]:
        return NOW
    return min([*found, *(due / 1e6 for due in (first_wait(state), state.ends_by) if due)], default=None)


def first_wait(state: State) -> int:
    """Return the time at which the first wait of a run is over, or its first deadline passes, in microseconds since the
    epoch; 0 without either."""
    if state.fork is None:
        if state.calls is None:
            return state.due
        deadlines = [call.due for call in state.calls if call.due and call.phase == AWAITED]
        return state.due or (min(deadlines) if deadlines else 0)
    inner = [first_wait(own) for own in _going_on(state.fork)]
    return min((due for due in inner if due), default=0)


def _going_on(fork: Fork) -> list[State]:
    """Return the states of the branches that go on."""
    return [own for number in fork.running if (own := fork.branches[number].state) is not None]


def _due_of_calls(state: State) -> float:
    """Return the time of the next attempt if all that can go on are delayed calls, else NOW."""
    if state.fork is not None:
        if state.fork.begun < len(state.fork.branches) and not state.fork.has_stopped:
            return NOW  # one that may start, perhaps
        running = [own for own in _going_on(state.fork) if own.status == "RUNNING"]
        return min(map(_due_of_calls, running), default=NOW)
    if state.calls is None:
        return NOW
    for call in state.calls:
        if call.phase == OPEN or (call.phase == READY and not call.due):
            return NOW
    return min([call.due for call in state.calls if call.phase == READY], default=0) / 1e6
