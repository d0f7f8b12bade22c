"""From when on a machine can go on with a run that nobody drives."""

from __future__ import annotations

from typing import Final

from stepward.vm.machine.state import State

NOW: Final = 0.0
"""Any time is late enough."""


def due_of(state: State) -> float | None:
    """Return the time from which on a machine can go on with a run, in seconds since the epoch; NOW for any time.

    None if nobody can: the run is over, or it waits for a delivery.
    """
    if state.is_over:
        return None
    return NOW if state.status == "RUNNING" or state.is_cancelled else None
