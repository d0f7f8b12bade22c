"""Deadlines of suspended calls: the event with which one passes, and what is over first in a run.

A deadline that has passed settles a call as a failed attempt does: a call without effect fails with `Deadline`, a write
is repeated under its key or is in doubt. Whichever is in the journal first counts, the delivery or the deadline.
"""

from __future__ import annotations

from typing import Any

from stepward.vm.language.steps.catching import DEADLINE
from stepward.vm.machine.calls import after, due_after, is_unknown_after, named, outcome_of, place_of
from stepward.vm.machine.due import first_wait
from stepward.vm.machine.events import Event, Result, make_event
from stepward.vm.machine.forks import leaves
from stepward.vm.machine.plan import CallPlan, Plan
from stepward.vm.machine.state import AWAITED, SETTLED, State, visits_of
from stepward.vm.machine.waits import wait_over


def overdue(plan: Plan, state: State, now: int) -> Event | None:
    """Return the event of the wait that was over first, or of the deadline that passed first.

    None if nothing is over at `now`, in microseconds since the epoch.
    """
    first = first_wait(state)
    if not 0 < first <= now or state.is_over or state.is_cancelled:
        return None
    local = next(one for one in leaves(plan, state) if first_wait(one) == first)
    if local.due == first:
        return wait_over(plan, local, now)
    sub = next(sub for sub, call in enumerate(local.calls or ()) if call.phase == AWAITED and call.due == first)
    return _passed(plan, local, plan.steps[local.at].calls[sub], now)


def _passed(plan: Plan, local: State, call: CallPlan, now: int) -> Event:
    """Return the event of a deadline that has passed; `local` is the state as the frame of the call sees it."""
    step = plan.steps[local.at]
    assert local.calls is not None, "a suspended call is one of the present step"
    before = local.calls[call.sub]
    why = f"`{call.id}` had no answer within {as_seconds(call.deadline or 0)} seconds"
    result = Result("doubt" if call.writes else "failed", error=why, name=DEADLINE)
    tried = before.attempt - before.base
    kind = outcome_of(call, tried, result)
    body: dict[str, Any] = {"kind": kind, **place_of(local, call.id, visits_of(local, step)), "error": why}
    note: dict[str, Any] = {"time": now}
    if kind != "doubt":
        body |= named(plan, DEADLINE)
    if kind == "again":
        if is_unknown_after(call, result):
            body["unknown"] = True
        entry = call.retry_of(DEADLINE)
        if entry is not None:
            note["due"] = due_after(entry, tried, now)
    if kind in SETTLED and not step.is_parallel:
        body |= after(plan, step, kind, DEADLINE)
    return make_event("expired", body, note)


def as_seconds(microseconds: int) -> str:
    """Return a time as a number of seconds, without zeros at its end."""
    whole, rest = divmod(microseconds, 1_000_000)
    return f"{whole}.{rest:06}".rstrip("0").rstrip(".")
