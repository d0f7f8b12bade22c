"""Where a run was meant to go on: an arm that ends the run above a step that nothing reaches."""

from __future__ import annotations

from collections.abc import Sequence

from stepward.validator.context import Context
from stepward.validator.rules.changed_steps import with_fields, written_id
from stepward.vm.language.flow import Flow
from stepward.vm.language.steps import EndStep, Routed
from stepward.vm.language.transitions import DECLARED_FAILURE
from stepward.vm.reading.source import Correction, Place


def falls_into_failure(flow: Flow, dead: Sequence[int]) -> int | None:
    """Return the dead step that falls into a live failure ending, by its number; None if there is no such step.

    Once the dead steps are reached, that would turn each success into a failure.
    """
    for number in _last_ones(flow, dead):
        following = flow.layout.after(number)
        assert following is not None, "it falls into a step"
        if any(one.kind == "end" and one.ending == DECLARED_FAILURE for one in flow.transitions[following]):
            return number
    return None


def _last_ones(flow: Flow, dead: Sequence[int]) -> list[int]:
    """Return the dead steps that fall into a live one."""
    after = flow.layout.after
    return [one for one in dead if flow.falls_through(one) and after(one) is not None and after(one) not in dead]


def continuation(context: Context, number: int, behind: Sequence[int]) -> Correction | None:
    """Return the edit that lets the arm above a dead step go on to it, if only that can be meant.

    It is not the only meaning where another arm above in the same list could go on there too, or where the dead steps
    fall into an arm or lead back to this one. A dead step above a failure ending gets `is_terminal`.
    """
    flow, arm = context.facts.flow, context.facts.flow.before(number)
    layout = flow.layout
    if arm is None or arm not in context.facts.graph.reachable or not flow.is_arm_without_successor(arm):
        return None
    step = flow.steps[arm]
    if not isinstance(step, Routed) or step.outcome is not None:
        return None
    following = [flow.steps[after] for one in _last_ones(flow, (number, *behind)) if (after := layout.after(one))]
    falls_into_arm = any(one.id in flow.arms and not isinstance(one, EndStep) for one in following)
    of_list = (one for one in range(arm) if layout.owner(one) == layout.owner(arm))
    if falls_into_arm or any(map(flow.is_arm_without_successor, of_list)):
        return None
    last, target = falls_into_failure(flow, (number, *behind)), written_id(layout, number)
    changes: dict[int, dict[str, object]] = {arm: {"next_step": target}}
    if last is not None:
        changes[last] = {"is_terminal": True}
    changed = Context(with_fields(context.facts.program, layout, changes)).facts
    is_looped = any(arm in members and number in members for members in changed.graph.written_loops)
    if is_looped or len(changed.flow.ambiguous_arms) > len(flow.ambiguous_arms):
        return None
    also = None if last is None else Correction(Place(layout.path(last)), "", "is_terminal")
    return Correction(Place(layout.path(arm)), target, "next_step", also)
