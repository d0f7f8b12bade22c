"""Waits in lockstep: both let time pass together, and agree on what waits until when."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any, Final

from stepward.sabotage.drawn.machine import Machine, equal
from stepward.sabotage.reference import Reference
from stepward.vm import ExecutionVM, Run
from stepward.vm.machine.forks import leaves
from stepward.vm.machine.keys import FrameName
from stepward.vm.machine.plan import Plan
from stepward.vm.machine.state import AWAITED, State

A_SECOND: Final = 1_000_000

TOGETHER: Final = 7200 * A_SECOND
"""Within how much time after another one a wait or a deadline is over together with it: the leaps of a clock, time-outs
and leases of the dead could come to it in the same request."""

Outlived = Callable[[Machine, int, Callable[[ExecutionVM], Awaitable[Run]], Collection[str]], Awaitable[Run]]


async def let_pass(machine: Machine, reference: Reference, outlived: Outlived, answer: Callable[[], None]) -> Run:
    """Let time pass until the first wait is over, or the time of the run; a machine takes the run up again.

    `answer` answers what is asked.
    """
    found, run_id = machine.history(), machine.run
    ends_by = found.state.ends_by
    over = list(leaves(found.plan, found.state))
    machine.clock.time = _end_of_the_first([*_times(over), *([ends_by] if ends_by else [])], machine.clock.time)
    if 0 < ends_by <= machine.clock.time:
        run = await outlived(machine, 0, lambda vm: _recovered(vm, run_id), ("ended",))
        reference.run_out()
        return run
    passed = [one.frame for one in over if 0 < one.due <= machine.clock.time]
    late = [call for one in over for call in _late(found.plan, one, machine.clock.time)]
    run = await outlived(machine, 0, lambda vm: _recovered(vm, run_id), ("waited", "expired"))
    reference.now = machine.clock.time
    if late:
        reference.pass_deadlines(late)
        answer()
    for resting in reference.resting:
        if resting.frame in passed and not reference.is_over:
            reference.let_pass(resting)
            answer()
    return run


def _times(over: Sequence[State]) -> list[int]:
    """Return when waits are over, and deadlines pass, in the states of branches."""
    calls = [state.due for one in over for state in one.calls or () if state.phase == AWAITED and state.due]
    return [*(one.due for one in over if one.due), *calls]


def _end_of_the_first(times: Sequence[int], now: int) -> int:
    """Return a time at which the first of these is over, and all that follow it within TOGETHER."""
    now = max(now, min(times))
    for due in sorted(times):
        now = max(now, due) if due <= now + TOGETHER else now
    return now + A_SECOND


async def _recovered(vm: ExecutionVM, run: str) -> Run:
    return (await vm.recover(run))[0]


def catch_up(machine: Machine, reference: Reference, answer: Callable[[], None]) -> None:
    """Let pass what was over by itself while the machine drove the run: a short wait, after the lease of a dead one."""
    ended = {_place(record.body) for record in machine.history().records if record.kind == "waited"}
    while over := [one for one in reference.resting if (one.step, one.visit, one.frame) in ended]:
        reference.let_pass(over[0])
        answer()


def _late(plan: Plan, here: State, now: int) -> list[tuple[str, FrameName]]:
    """Return the calls whose deadlines have passed, of a step as its frame sees it."""
    calls = zip(plan.steps[here.at].calls, here.calls or (), strict=False)
    return [(call.id, here.frame) for call, state in calls if state.phase == AWAITED and 0 < state.due <= now]


def may_pass(reference: Reference) -> bool:
    """Return whether a run waits for a time, or for something that has a deadline."""
    return bool(reference.resting or reference.deadlines)


def compare_waits(machine: Machine, reference: Reference) -> None:
    """Compare the waits that go on, with the times at which they are over, and that of the run. Raises Parted."""
    found = machine.history()
    lasts = reference.program.timeout_seconds
    due = None if lasts is None else found.records[0].at + lasts * 1_000_000
    equal("end of the time of the run", found.records[0].note.get("due"), due)
    ours = {(one.frame, found.plan.steps[one.at].id) for one in leaves(found.plan, found.state) if one.due}
    equal("waits", ours, {(one.frame, one.step) for one in reference.resting})
    for one in reference.resting:
        place = (one.step, one.visit, one.frame)
        waits = (record for record in reversed(found.records) if record.kind == "waiting")
        note = next(record.note for record in waits if _place(record.body) == place)
        equal("end of a wait", note["due"], note["started"] + one.lasts if one.until is None else one.until)
    calls = {
        (call.id, one.frame): state.due
        for one in leaves(found.plan, found.state)
        for call, state in zip(found.plan.steps[one.at].calls, one.calls or (), strict=False)
        if state.phase == AWAITED and state.due
    }
    equal("deadlines", set(calls), set(reference.deadlines))
    for waiting, lasts in reference.deadlines.items():
        suspensions = (one for one in reversed(found.records) if one.body.get("kind") == "suspended")
        note = next(one.note for one in suspensions if (_place(one.body)[0], _place(one.body)[2]) == waiting)
        equal("a deadline", (note["due"], calls[waiting]), (note["started"] + note["took"] + lasts,) * 2)


def _place(body: Mapping[str, Any]) -> tuple[str, int, tuple[Any, ...]]:
    return body["step"], body["visit"], tuple(map(tuple, body.get("frame", ())))
