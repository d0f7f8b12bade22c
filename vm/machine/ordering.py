"""The order between the sub-steps of a parallel step with `depends_on`, in one state of a run.

Who may start next follows from the records alone: from the phases of the calls of the present step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from stepward.vm.machine.keys import FrameName
from stepward.vm.machine.monitors import Before
from stepward.vm.machine.plan import NOWHERE, CallPlan, StepPlan
from stepward.vm.machine.slots import UNDEFINED, Slots, put
from stepward.vm.machine.state import OPEN, READY, CallState, State

GIVES: Final = ("success", "fallback")
"""The phases of a call that has an output."""

GIVES_NOTHING: Final = ("failed", "skipped")
"""The phases of a call that ended without an output."""


def output_changes(call: CallPlan | StepPlan, value: Any) -> list[tuple[int, Any]]:
    """Return the changes of slots by the output of a call or a parallel step."""
    slots = [(call.output, value), (call.error, UNDEFINED)]
    if call.error_name != NOWHERE:
        slots.append((call.error_name, UNDEFINED))
    return slots if call.variable == NOWHERE else [*slots, (call.variable, value)]


def lacks(step: StepPlan, sub: int, calls: Sequence[CallState]) -> bool:
    """Return whether something that a sub-step depends on ended without an output."""
    return step.order is not None and any(calls[one].phase in GIVES_NOTHING for one in step.order.needs[sub])


def is_due(step: StepPlan, sub: int, calls: Sequence[CallState]) -> bool:
    """Return whether all dependencies of a sub-step have an output."""
    return step.order is None or all(calls[one].phase in GIVES for one in step.order.needs[sub])


def waits(step: StepPlan, sub: int, calls: Sequence[CallState]) -> bool:
    """Return whether a sub-step can neither start nor fail now, because one that it depends on has not come out."""
    return calls[sub].phase == READY and not is_due(step, sub, calls) and not lacks(step, sub, calls)


def open_calls(state: State) -> frozenset[tuple[FrameName, int]]:
    """Return the calls of the present step that have started and not come back, by frame and position."""
    return frozenset((state.frame, sub) for sub, call in enumerate(state.calls or ()) if call.phase == OPEN)


def slots_before(state: State, step: StepPlan, sub: int) -> Slots:
    """Return what a call reads: the state before the step, and the outputs of the sub-steps that it depends on."""
    if step.order is None or state.calls is None or not step.order.before[sub]:
        return state.slots
    earlier = [one for one in sorted(step.order.before[sub]) if state.calls[one].phase in GIVES]
    changes = [change for one in earlier for change in output_changes(step.calls[one], state.calls[one].value)]
    return put(state.slots, changes)


def come_before(state: State, step: StepPlan, sub: int) -> Before | None:
    """Return what guardrails count as before a sub-step, beside what came before its step; None if nothing."""
    if step.order is None or state.calls is None or not step.order.before[sub]:
        return None
    earlier = step.order.before[sub]
    good = frozenset(one for one in earlier if state.calls[one].phase == "success")
    return Before(step.position, good, earlier)
