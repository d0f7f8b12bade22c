"""What the selectors of guardrails match, read from the language's page (specs/language.md, "Guardrails")."""

from __future__ import annotations

from stepward.validator.recheck.parsed import Parsed
from stepward.validator.recheck.parts import Match
from stepward.vm.language.guardrails import (
    AllOf,
    AnyGuard,
    AnyOf,
    AnyRequirement,
    AnySelector,
    BranchSelector,
    EffectSelector,
    StepSelector,
    ToolSelector,
)
from stepward.vm.language.steps import BranchStep, ConditionStep, ToolCall


def matches(selector: AnySelector | AnyGuard, reading: Parsed) -> list[Match]:
    """Return the steps and sub-steps that a selector matches; the first of two with one id."""
    match selector:
        case ToolSelector(tool=tool):
            return [hit for hit in reading.tool_calls if isinstance(hit.part, ToolCall) and hit.part.tool == tool]
        case EffectSelector():
            calls = reading.tool_calls
            return [
                hit for hit in calls if isinstance(hit.part, ToolCall) and reading.tool(hit.part.tool).effect == "write"
            ]
        case StepSelector(step=name):
            position = reading.position.get(name)
            if position is not None:
                is_branch = isinstance(reading.steps[position], BranchStep)
                return [] if is_branch else [Match(position, None, reading.steps[position])]
            return [hit for hit in reading.parts if hit.part.id == name]
        case BranchSelector(step=name, branch=branch):
            number = reading.position.get(name)
            step = None if number is None else reading.steps[number]
            if number is None or not isinstance(step, ConditionStep) or branch_of(step, branch) is None:
                return []
            return [Match(number, None, step)]


def branch_of(step: ConditionStep, name: str | int) -> str | int | None:
    """Return the branch of control flow that a guardrail names; None where there is no such branch."""
    cases = step.cases or ()
    branch: str | int | None = None
    if step.cases is None:
        branch = name if name == "then" and step.then is not None else None
    elif isinstance(name, int):
        branch = name if 1 <= name <= len(cases) else None
    else:
        named = [number for number, case in enumerate(cases, start=1) if case.name == name]
        branch = named[-1] if named else None
    # This decides last: a case with the name `otherwise` is identified by its number.
    return "otherwise" if name == "otherwise" and step.otherwise is not None else branch


def guards(requirement: AnyRequirement) -> tuple[AnyGuard, ...]:
    """Return the single guards of a requirement, each once, in order."""
    if isinstance(requirement, AllOf | AnyOf):
        parts = requirement.all_of if isinstance(requirement, AllOf) else requirement.any_of
        return tuple(dict.fromkeys(guard for part in parts for guard in guards(part)))
    return (requirement,)
