"""What a run does next by the clock of the machine that drives it.

A run whose time is over ends before anything else; waits that are over and deadlines that have passed come next.
"""

from __future__ import annotations

from math import inf
from typing import Final, Protocol

from stepward.vm.machine.deadlines import overdue
from stepward.vm.machine.decide import NOBODY, decide
from stepward.vm.machine.due import first_wait
from stepward.vm.machine.events import Action, Event
from stepward.vm.machine.memory import Memory, UnderWay
from stepward.vm.machine.plan import Plan
from stepward.vm.machine.setup import Setup
from stepward.vm.machine.state import State
from stepward.vm.machine.timeouts import is_late, run_out
from stepward.vm.machine.waits import dated

LONGEST_SLEEP: Final = 30.0
"""Seconds after which a machine that lets time pass looks at its clock, and for a request to cancel."""


class Timed(Protocol):
    """A run on a machine."""

    plan: Plan
    state: State
    setup: Setup
    memory: Memory | None


def next_action(run: Timed, under_way: UnderWay = NOBODY) -> Action:
    """Return the next action; `under_way` is that of `decide`."""
    if run.state.ends_by and is_out_of_time(run):
        return run_out(run.plan, run.state, run.setup.clock.now())
    if not run.plan.waits:
        return decide(run.plan, run.state, under_way, run.memory)
    due, clock = first_wait(run.state), run.setup.clock
    if due:
        found = overdue(run.plan, run.state, due if run.plan.one_by_one else clock.now())
        if found is not None:
            return found
    action = decide(run.plan, run.state, under_way, run.memory)
    return dated(action, clock.now()) if isinstance(action, Event) and action.kind == "waiting" else action


def is_out_of_time(run: Timed) -> bool:
    """Return whether the time of a run is over, so that no call starts any more; never in the replay of a witness."""
    return run.state.ends_by > 0 and not run.plan.one_by_one and is_late(run.state, run.setup.clock.now())


def time_left(run: Timed) -> float:
    """Return the seconds until the time of a run is over; infinity without a limit."""
    return max(run.state.ends_by - run.setup.clock.now(), 0) / 1e6 if run.state.ends_by else inf


def seconds_left(run: Timed) -> float | None:
    """Return the seconds until a wait, a deadline or the time of a run is over, LONGEST_SLEEP at most, None without."""
    due = min((one for one in (first_wait(run.state), run.state.ends_by) if one), default=0)
    return max(min((due - run.setup.clock.now()) / 1e6, LONGEST_SLEEP), 0.0) if due else None
