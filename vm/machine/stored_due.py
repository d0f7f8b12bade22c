"""From when on a machine can go on with the runs of a store, by their records: a copy of the store has to know it."""

from __future__ import annotations

from collections.abc import Callable

from stepward.vm.errors import StepwardError
from stepward.vm.journal.store import Journal
from stepward.vm.machine.due import NOW, due_of
from stepward.vm.machine.events import UNFINISHED
from stepward.vm.machine.history import load
from stepward.vm.machine.replay import cached_plans


def stored_due(source: Journal) -> Callable[[Journal, str], float | None]:
    """Return a function of a snapshot of `source` and a run: when a machine can go on with it, as `due_of` says.

    It reads no sensitive values. A run that can't be read is due at any time, so that a worker says why.
    """
    plans = cached_plans(source)

    def due(still: Journal, run: str) -> float | None:
        row = still.row(run)
        if row is None or row.status not in UNFINISHED:
            return None
        try:
            found = load(still, run, plans, is_blind=True)
        except StepwardError:
            return NOW
        return None if found is None else due_of(found.state)

    return due
