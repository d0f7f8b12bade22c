"""What a run does next by the clock of the machine that drives it: a wait that is over ends before anything else."""

from __future__ import annotations

from typing import Final, Protocol

from stepward.vm.machine.decide import NOBODY, UnderWay, decide
from stepward.vm.machine.due import first_wait
from stepward.vm.machine.events import Action, Event
from stepward.vm.machine.plan import Plan
from stepward.vm.machine.setup import Setup
from stepward.vm.machine.state import State
from stepward.vm.machine.waits import dated, overdue

LONGEST_SLEEP: Final = 30.0
"""Seconds after which a machine that lets time pass looks at its clock, and for a request to cancel."""


class Timed(Protocol):
    """A run on a machine."""

    plan: Plan
    state: State
    setup: Setup


def next_action(run: Timed, under_way: UnderWay = NOBODY) -> Action:
    """Return the next action; `under_way` is that of `decide`."""
    due, clock = first_wait(run.state), run.setup.clock
    if due:
        found = overdue(run.plan, run.state, due if run.plan.one_by_one else clock.now())
        if found is not None:
            return found
    action = decide(run.plan, run.state, under_way)
    return dated(action, clock.now()) if isinstance(action, Event) and action.kind == "waiting" else action


def seconds_left(run: Timed) -> float | None:
    """Return the seconds until the first wait of a run is over, LONGEST_SLEEP at most; None without a wait."""
    due = first_wait(run.state)
    return max(min((due - run.setup.clock.now()) / 1e6, LONGEST_SLEEP), 0.0) if due else None
