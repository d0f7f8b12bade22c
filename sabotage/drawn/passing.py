"""Waits in lockstep: both let time pass together, and agree on what waits until when."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any

from stepward.sabotage.drawn.machine import Machine, equal
from stepward.sabotage.reference import Reference
from stepward.vm import ExecutionVM, Run
from stepward.vm.machine.due import first_wait
from stepward.vm.machine.forks import leaves

Outlived = Callable[[Machine, int, Callable[[ExecutionVM], Awaitable[Run]], Collection[str]], Awaitable[Run]]


async def let_pass(machine: Machine, reference: Reference, outlived: Outlived, answer: Callable[[], None]) -> Run:
    """Let time pass until the first wait is over, or the time of the run; a machine takes the run up again.

    `answer` answers what is asked.
    """
    found, run_id = machine.history(), machine.run
    ends_by = found.state.ends_by
    machine.clock.time = max(machine.clock.time, min(due for due in (first_wait(found.state), ends_by) if due))
    if 0 < ends_by <= machine.clock.time:
        run = await outlived(machine, 0, lambda vm: _recovered(vm, run_id), ("ended",))
        reference.run_out()
        return run
    passed = [one.frame for one in leaves(found.plan, found.state) if 0 < one.due <= machine.clock.time]
    run = await outlived(machine, 0, lambda vm: _recovered(vm, run_id), ("waited",))
    reference.now = machine.clock.time
    for resting in reference.resting:
        if resting.frame in passed and not reference.is_over:
            reference.let_pass(resting)
            answer()
    return run


async def _recovered(vm: ExecutionVM, run: str) -> Run:
    return (await vm.recover(run))[0]


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
        begun = (record for record in reversed(found.records) if record.kind == "waiting")
        note = next(record.note for record in begun if _place(record.body) == place)
        equal("end of a wait", note["due"], note["started"] + one.lasts if one.until is None else one.until)


def _place(body: Mapping[str, Any]) -> tuple[str, int, tuple[Any, ...]]:
    return body["step"], body["visit"], tuple(map(tuple, body.get("frame", ())))
