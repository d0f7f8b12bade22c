"""Where a run was meant to go on: an arm that ends the run above a step that nothing reaches."""

from __future__ import annotations

from collections.abc import Sequence

from stepward.validator.context import Context
from stepward.vm.language.flow import Flow
from stepward.vm.language.steps import EndStep, Routed
from stepward.vm.language.transitions import DECLARED_FAILURE
from stepward.vm.reading.source import Correction, Place


def falls_into_failure(flow: Flow, dead: Sequence[int]) -> int | None:
    """Return the dead step that falls into a live failure ending, by its number; None if there is no such step.

    Once the dead steps are reached, that would turn each success into a failure.
    """
    for number in _last_ones(flow, dead):
        if any(one.kind == "end" and one.ending == DECLARED_FAILURE for one in flow.transitions[number + 1]):
            return number
    return None


def _last_ones(flow: Flow, dead: Sequence[int]) -> list[int]:
    """Return the dead steps that fall into a live one."""
    after = flow.layout.after
    return [one for one in dead if flow.falls_through(one) and after(one) is not None and after(one) not in dead]


def continuation(context: Context, number: int, behind: Sequence[int]) -> Correction | None:
    """Return the edit that lets the arm above a dead step go on to it, if only that can be meant.

    It is not the only meaning where another arm above could go on there too, or where the dead steps fall into an arm
    or lead back to this one. A dead step above a failure ending gets `is_terminal`.
    """
    flow, arm = context.facts.flow, number - 1
    if flow.layout.bodies or arm not in context.facts.graph.reachable or not flow.is_arm_without_successor(arm):
        return None
    step = flow.steps[arm]
    if not isinstance(step, Routed) or step.outcome is not None:
        return None
    following = [flow.steps[one + 1] for one in _last_ones(flow, (number, *behind))]  # without bodies it is the next
    falls_into_arm = any(one.id in flow.arms and not isinstance(one, EndStep) for one in following)
    if falls_into_arm or any(flow.is_arm_without_successor(one) for one in range(arm)):
        return None
    last = falls_into_failure(flow, (number, *behind))
    steps = list(flow.steps)
    steps[arm] = step.replace(next_step=steps[number].id)
    if last is not None:
        steps[last] = steps[last].replace(is_terminal=True)
    changed = Context(context.facts.program.model_copy(update={"steps": tuple(steps)})).facts
    is_looped = any(arm in members and number in members for members in changed.graph.components(range(len(steps))))
    if is_looped or len(changed.flow.ambiguous_arms) > len(flow.ambiguous_arms):
        return None
    also = None if last is None else Correction(Place(context.facts.flow.layout.path(last)), "", "is_terminal")
    return Correction(Place(context.facts.flow.layout.path(arm)), steps[number].id, "next_step", also)
