"""What a guardrail's selectors match in a program: its steps, sub-steps and branches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from stepward.vm.language.guardrails import AnyGuard, AnySelector, BranchSelector, StepSelector, ToolSelector
from stepward.vm.language.steps import BaseStep, ConditionStep, ParallelStep, ToolCall

if TYPE_CHECKING:
    from stepward.vm.language.meaning import Meaning


class Hit(NamedTuple):
    """A step or sub-step that a selector matches; `sub` is None for the step itself."""

    step: int
    sub: int | None
    part: BaseStep


def matches(selector: AnySelector | AnyGuard, meaning: Meaning) -> list[Hit]:
    """Return the steps and sub-steps that a selector matches."""
    if isinstance(selector, StepSelector | BranchSelector) and selector.step in meaning.flow.position:
        # Ids are asked for most often; a second step of the same id is found by nobody (SW005).
        number = meaning.flow.position[selector.step]
        hit = Hit(number, None, meaning.program.steps[number])
        return [hit] if _is_selected(selector, hit.part, meaning) else []
    return [hit for hit in _all_parts(meaning) if _is_selected(selector, hit.part, meaning)]


def _all_parts(meaning: Meaning) -> Iterator[Hit]:
    for number, step in enumerate(meaning.program.steps):
        yield Hit(number, None, step)
        if isinstance(step, ParallelStep):
            for sub, part in enumerate(step.parallel_steps):
                yield Hit(number, sub, part)


def _is_selected(selector: AnySelector | AnyGuard, part: BaseStep, meaning: Meaning) -> bool:
    if isinstance(selector, BranchSelector):
        return part.id == selector.step and isinstance(part, ConditionStep) and selector.branch in branch_names(part)
    if isinstance(selector, StepSelector):
        return part.id == selector.step
    if not isinstance(part, ToolCall):
        return False
    if isinstance(selector, ToolSelector):
        return part.tool == selector.tool
    return meaning.tool(part.tool).effect == selector.effect


def branch_names(step: ConditionStep) -> dict[str | int, str | int]:
    """Return what a guardrail may call a branch, and the name that control flow gives it."""
    names: dict[str | int, str | int] = {}
    if step.condition is not None and step.then is not None:
        names["then"] = "then"
    for number, case in enumerate(step.cases or (), start=1):
        names[number] = number
        if case.name is not None:
            names[case.name] = number
    if step.otherwise is not None:
        names["otherwise"] = "otherwise"
    return names


def by_step(hits: Iterable[Hit]) -> dict[int, list[Hit]]:
    """Return the hits of each step of the program's list."""
    result: dict[int, list[Hit]] = {}
    for hit in hits:
        result.setdefault(hit.step, []).append(hit)
    return result
