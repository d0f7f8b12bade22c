"""From when on a machine can go on with a run that nobody drives."""

from __future__ import annotations

from typing import Final

from stepward.vm.machine.state import OPEN, READY, State

NOW: Final = 0.0
"""Any time is late enough."""


def due_of(state: State) -> float | None:
    """Return the time from which on a machine can go on with a run, in seconds since the epoch; NOW for any time.

    None if nobody can: the run is over, or it waits for a delivery. Where all that is left of a step are calls whose
    next attempt is delayed, it is the time of the first.
    """
    if state.is_over:
        return None
    if state.is_cancelled:
        return NOW
    if state.status != "RUNNING":
        return None
    left = [call for call in state.calls or () if call.phase in (READY, OPEN)]
    if state.fork is None and left and all(call.phase == READY and call.due for call in left):
        return min(call.due for call in left) / 1e6
    return NOW
