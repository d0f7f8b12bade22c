"""The names of errors, written from the language's page (specs/language.md, "Errors by name")."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from stepward.validator.recheck.flow import Transition, takes
from stepward.validator.recheck.orders import earlier
from stepward.vm.expressions.template import embedded
from stepward.vm.language.manifest import ToolSpec
from stepward.vm.language.steps import (
    AnyPart,
    AnyStep,
    BranchStep,
    Call,
    ComputeStep,
    ConditionStep,
    Failing,
    ForEachStep,
    InvokeStep,
    LlmCall,
    ParallelStep,
    Stage,
    ToolCall,
    WaitStep,
)

Tool = Callable[[str], ToolSpec]
"""Returns the facts about a tool."""

_FAILURES: Final = ("failed", "skipped")
"""The kinds of transitions that a failure takes."""

_EARLY = ("Undefined", "BadArguments", "BadValue", "Refused")


def late_errors(part: AnyPart, tool: Tool) -> list[str]:
    """Return the names of the errors of a call that has started; of a parallel step, those of its calls."""
    if isinstance(part, ParallelStep):
        return _of_calls(part, lambda call: late_errors(call, tool))
    if not isinstance(part, Call) or isinstance(part, ComputeStep):
        return []
    names = ["Unexpected"]
    if isinstance(part, ToolCall):
        names += tool(part.tool).errors or ()
        if tool(part.tool).effect == "write":
            return names  # late or of a wrong type, it is in doubt
        if part.deadline_seconds is not None and tool(part.tool).suspends:
            names.append("Deadline")
    names.append("BadOutput")
    if part.timeout_seconds is not None and part.on_timeout != "fallback":
        names.append("Timeout")
    return names


def early_errors(part: AnyPart) -> list[str]:
    """Return the names of the errors of a call that does not start; of a parallel step, those of its calls."""
    if isinstance(part, ParallelStep):
        return _of_calls(part, early_errors)
    if isinstance(part, ComputeStep):
        return ["Undefined", "BadValue", "Unexpected", "BadOutput"]
    if isinstance(part, LlmCall):
        return [name for name in _EARLY if name != "BadArguments"]
    return list(_EARLY) if isinstance(part, ToolCall) else []


def errors_before_items(step: AnyPart) -> tuple[str, ...]:
    """Return the names of the errors of a for_each step or a call that does not start."""
    return ("Undefined", "BadValue", "BadArguments" if isinstance(step, InvokeStep) else "TooManyItems")


def errors_of_items(step: ForEachStep, tool: Tool) -> tuple[str, ...]:
    """Return the names of the errors with which an item of a for_each step can fail."""
    return tuple(dict.fromkeys(name for inner in step.body for name in _ending(inner, tool)))


def errors_of_branches(step: ParallelStep, tool: Tool) -> tuple[str, ...]:
    """Return the names of the errors with which a branch of a parallel step can fail."""
    steps = (inner for branch in step.branches.values() for inner in branch.steps)
    return tuple(dict.fromkeys(name for inner in steps for name in _ending(inner, tool)))


def errors_at(step: ForEachStep, stage: Stage, tool: Tool) -> tuple[str, ...]:
    """Return the names of the errors with which a for_each step can fail at one of its stages."""
    return errors_of_items(step, tool) if stage.role == "failed" else ()


def _ending(step: AnyStep, tool: Tool) -> Iterator[str]:
    """Yield the names of the errors with which a step of a body can end it."""
    if isinstance(step, Failing):
        caught = [entry.errors for entry in getattr(step, "catch", None) or ()]
        is_caught = step.on_error == "skip" or getattr(step, "error_step", None) is not None
        for name in () if is_caught else all_errors(step, step, tool):
            if not any(takes(errors, name) for errors in caught):
                yield name
    elif isinstance(step, WaitStep):
        yield from ("Undefined", "BadValue") if any(True for one in step.templates for _ in embedded(one.value)) else ()
    else:
        yield from ("Undefined", "BadValue", "BadOutput")  # its expressions, or its output
    if isinstance(step, ConditionStep):
        yield "Uncovered"
    if getattr(step, "outcome", None) == "failure":
        yield "Declared"
    if step.max_visits is not None:
        yield "Visits"  # the second one too many ends the body, whatever catches the first


def _of_calls(step: ParallelStep, names: Callable[[AnyPart], list[str]]) -> list[str]:
    errors = [name for call in step.parallel_steps if call.on_error != "skip" for name in names(call)]
    return list(dict.fromkeys(errors))


def all_errors(part: AnyPart, whole: AnyPart, tool: Tool) -> tuple[str, ...]:
    """Return every name that `error_name` of a step, or of a sub-step of `whole`, can have."""
    errors = late_errors(part, tool) + early_errors(part)
    if isinstance(part, BranchStep):
        errors += [*errors_of_items(part, tool), *(["Dependency"] if part.needs else [])]
    elif isinstance(part, ParallelStep) and part.branches:
        errors += [*errors_of_branches(part, tool), "BadOutput"]
    elif isinstance(part, ForEachStep):
        errors += errors_before_items(part)
        errors += errors_of_items(part, tool) if part.on_item_error == "fail" else ()
    if isinstance(part, ParallelStep) and errors:
        errors.append("BadOutput")  # all outputs together are too large
    if _may_lack(part):
        errors.append("Dependency")
    if getattr(whole, "max_visits", None) is not None:
        errors.append("Visits")
    return tuple(dict.fromkeys(errors))


def _may_lack(part: AnyPart) -> bool:
    """Return whether a sub-step may lack an output on which it depends; of a parallel step, whether only that makes it
    fail.

    That happens only if no other sub-step has failed: the one without an output was skipped.
    """
    if not isinstance(part, ParallelStep):
        return bool(getattr(part, "depends_on", ()))
    calls = part.parallel_steps
    return any(
        call.on_error != "skip" and any(calls[one].on_error == "skip" for one in earlier(part, sub))
        for sub, call in enumerate(calls)
    )


def attempts(call: Call, name: str, tool: Tool) -> int:
    """Return how many attempts a call makes that fails with this error each time."""
    if isinstance(call, ToolCall):
        spec = tool(call.tool)
        is_once = spec.effect == "write" and not spec.idempotent
    else:
        is_once = False
    for entry in () if is_once else call.retry or ():
        if takes(entry.errors, name):
            return entry.max_attempts
    return call.max_retries if call.on_error == "retry" else 1


def most_attempts(call: Call, tool: Tool) -> int:
    """Return the most attempts of a call that fails in the end."""
    assert isinstance(call, LlmCall | ToolCall)
    return max(attempts(call, name, tool) for name in late_errors(call, tool))


def least_attempts(call: Call, tool: Tool) -> int:
    """Return the least attempts of a call that fails in the end."""
    assert isinstance(call, LlmCall | ToolCall)
    return min(attempts(call, name, tool) for name in late_errors(call, tool))


def representatives(transitions: Iterable[Transition], names: Iterable[str], cost: Callable[[str], int]) -> list[str]:
    """Return one of each group of errors that take the same transition, and cost the same attempts."""
    failures = [one for one in transitions if one.kind in _FAILURES]
    groups: dict[object, str] = {}
    for name in names:
        groups.setdefault((leaving(failures, name), cost(name)), name)
    return list(groups.values())


def leaving(transitions: Iterable[Transition], name: str) -> Transition | None:
    """Return the transition of a failure with this name: the first that takes it."""
    return next((one for one in transitions if one.kind in _FAILURES and takes(one.errors, name)), None)
