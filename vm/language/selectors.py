"""Finds the steps, sub-steps and branches that the selectors of a guardrail match."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from stepward.vm.language.guardrails import AnyGuard, AnySelector, BranchSelector, StepSelector, ToolSelector
from stepward.vm.language.steps import BaseStep, BranchStep, ConditionStep, ToolCall, parts

if TYPE_CHECKING:
    from stepward.vm.language.meaning import Meaning


class Match(NamedTuple):
    """A step or sub-step that a selector matches; `sub` is None for the step itself."""

    step: int
    sub: int | None
    part: BaseStep


def matches(selector: AnySelector | AnyGuard, meaning: Meaning) -> list[Match]:
    """Return the steps and sub-steps that a selector matches."""
    if isinstance(selector, StepSelector | BranchSelector) and selector.step in meaning.flow.position:
        # The common case without a search; a second step with the same id (SW005) is never matched.
        number = meaning.flow.position[selector.step]
        match = Match(number, None, meaning.flow.steps[number])
        return [match] if _is_selected(selector, match.part, meaning) else []
    if isinstance(selector, StepSelector | BranchSelector):
        steps = enumerate(meaning.flow.steps)
        found: Iterable[Match] = (Match(number, sub, part) for number, step in steps for sub, part in parts(step))
    else:
        found = (Match(site.step, site.sub, site.call) for site in meaning.calls)
    return [match for match in found if _is_selected(selector, match.part, meaning)]


def _is_selected(selector: AnySelector | AnyGuard, part: BaseStep, meaning: Meaning) -> bool:
    if isinstance(selector, BranchSelector):
        return part.id == selector.step and isinstance(part, ConditionStep) and selector.branch in part.branch_names
    if isinstance(selector, StepSelector):
        return part.id == selector.step and not isinstance(part, BranchStep)
    if not isinstance(part, ToolCall):
        return False
    if isinstance(selector, ToolSelector):
        return part.tool == selector.tool
    return meaning.tool(part.tool).effect == selector.effect


def by_step(found: Iterable[Match]) -> dict[int, list[Match]]:
    """Group matches by the position of their step."""
    result: dict[int, list[Match]] = {}
    for match in found:
        result.setdefault(match.step, []).append(match)
    return result
