"""The names of the errors with which a step or a call can fail (specs/language.md, "Errors by name")."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, assert_never

from stepward.vm.language.manifest import ToolSpec
from stepward.vm.language.order import order_of
from stepward.vm.language.steps import (
    AnyCall,
    AnyStep,
    BaseStep,
    BranchStep,
    ComputeStep,
    ConditionStep,
    FailingStep,
    ForEachStep,
    InvokeStep,
    LlmCall,
    ParallelStep,
    ToolCall,
    WaitStep,
)
from stepward.vm.language.steps.catching import (
    BAD_ARGUMENTS,
    BAD_OUTPUT,
    BAD_VALUE,
    DEADLINE,
    DECLARED,
    DEPENDENCY,
    TIMEOUT,
    TOO_MANY_ITEMS,
    UNCOVERED,
    UNDEFINED_NAME,
    UNEXPECTED,
    UNSTARTED,
    VISITS,
    Retry,
)
from stepward.vm.language.transitions import ANY

Tool = Callable[[str], ToolSpec]
"""Returns the facts about a tool."""

BEFORE_ITEMS: Final = (UNDEFINED_NAME, BAD_VALUE, TOO_MANY_ITEMS)
"""The names with which a for_each step can fail before its first item."""

BEFORE_CALL: Final = (UNDEFINED_NAME, BAD_VALUE, BAD_ARGUMENTS)
"""The names with which a call can fail before the first step of the program."""


def started_names(part: BaseStep, tool: Tool) -> tuple[str, ...]:
    """Return the names with which a call that has started can fail, or a parallel step one of whose calls has; nothing
    for other steps.

    The time-out, the passed deadline and the bad output of a write are no failures: it is in doubt.
    """
    match part:
        case ToolCall():
            spec = tool(part.tool)
            own = (*(spec.errors or ()), UNEXPECTED)
            late = (DEADLINE,) if part.deadline_seconds is not None and spec.suspends else ()
            return own if spec.effect == "write" else (*own, *late, *_unfit(part))
        case LlmCall():
            return (UNEXPECTED, *_unfit(part))
        case ParallelStep():
            calls = [call for call in part.parallel_steps if call.on_error != "skip"]
            names = [name for call in calls for name in started_names(call, tool)]
            return tuple(dict.fromkeys(names)) if calls else ()
        case _:
            return ()


def _unfit(call: AnyCall) -> tuple[str, ...]:
    is_late = call.timeout_seconds is not None and call.on_timeout != "fallback"
    return (TIMEOUT, BAD_OUTPUT) if is_late else (BAD_OUTPUT,)


def unstarted_names(part: BaseStep) -> tuple[str, ...]:
    """Return the names with which a call can fail before it starts, or a parallel step because of such a call.

    A `compute` step makes no call: all its failures are of this kind.
    """
    match part:
        case ToolCall():
            return UNSTARTED
        case LlmCall():
            return tuple(name for name in UNSTARTED if name != "BadArguments")
        case ComputeStep():
            return ("Undefined", "BadValue", UNEXPECTED, BAD_OUTPUT)
        case ParallelStep():
            calls = [call for call in part.parallel_steps if call.on_error != "skip"]
            found = {name for call in calls for name in unstarted_names(call)}
            return tuple(name for name in UNSTARTED if name in found)
        case _:
            return ()


def names_of_items(step: ForEachStep, tool: Tool) -> tuple[str, ...]:
    """Return the names with which an item of a for_each step can fail."""
    return tuple(dict.fromkeys(name for inner in step.body for name in _ending(inner, tool)))


def names_of_branches(step: ParallelStep, tool: Tool) -> tuple[str, ...]:
    """Return the names with which a branch of a parallel step can fail."""
    branches = [BranchStep.of(step.id, name, branch) for name, branch in step.branches.items()]
    return tuple(dict.fromkeys(name for branch in branches for name in names_of_items(branch, tool)))


def _ending(step: AnyStep, tool: Tool) -> Iterator[str]:
    """Yield the names of the errors with which a step can end the body in which it is."""
    match step:
        case FailingStep():
            caught = [exit.errors for exit in step.caught]
            for name in names_of(step, tool) if step.on_error != "skip" else ():
                if not any(errors is None or name in errors or ANY in errors for errors in caught):
                    yield name
        case ConditionStep():
            yield from (UNDEFINED_NAME, BAD_VALUE, UNCOVERED)
        case WaitStep():
            yield from () if step.is_constant else (UNDEFINED_NAME, BAD_VALUE)
        case _:
            yield from (UNDEFINED_NAME, BAD_VALUE, BAD_OUTPUT)
    if getattr(step, "outcome", None) == "failure":
        yield DECLARED
    if step.max_visits is not None:
        yield VISITS  # the first visit too many may be caught, the second one is not


def names_of(part: BaseStep, tool: Tool) -> tuple[str, ...]:
    """Return all names with which a step or sub-step can fail."""
    found = [*started_names(part, tool), *unstarted_names(part)]
    if isinstance(part, ParallelStep) and found and BAD_OUTPUT not in found:
        found.append(BAD_OUTPUT)  # the outputs of its sub-steps together may be too large
    if isinstance(part, ParallelStep) and part.branches:
        found += names_of_branches(part, tool)
        found.append(BAD_OUTPUT)  # their outputs together may be too large
    elif isinstance(part, BranchStep):
        found += [*names_of_items(part, tool), *((DEPENDENCY,) if part.needs else ())]
    elif isinstance(part, InvokeStep):
        found += [*BEFORE_CALL, *names_of_items(part, tool)]
    elif isinstance(part, ForEachStep):
        found += [*BEFORE_ITEMS, *(names_of_items(part, tool) if part.on_item_error == "fail" else ())]
    if _lacks(part):
        found.append(DEPENDENCY)
    if getattr(part, "max_visits", None) is not None:
        found.append(VISITS)
    return tuple(dict.fromkeys(found))


def _lacks(part: BaseStep) -> bool:
    """Return whether a sub-step may lack an output that it depends on, or a parallel step may fail for that alone.

    The step has the error of what failed first. Only a sub-step that is skipped makes others fail, and not the step.
    """
    if isinstance(part, ParallelStep) and (order := order_of(part)) is not None:
        subs = part.parallel_steps
        pairs = ((sub, one) for sub, before in enumerate(order.before) for one in before)
        return any(subs[sub].on_error != "skip" and subs[one].on_error == "skip" for sub, one in pairs)
    return isinstance(part, ToolCall | LlmCall) and bool(part.depends_on)


def retry_of(call: AnyCall, name: str, tool: Tool) -> Retry | None:
    """Return the entry of `retry` that holds for an error of a call; none for a write that must not be repeated."""
    match call:
        case ToolCall():
            return None if tool(call.tool).writes_once else call.retry_after(name)
        case LlmCall():
            return call.retry_after(name)
        case _:
            assert_never(call)


def tries(call: AnyCall, name: str, tool: Tool) -> int:
    """Return the attempts after which a call that always fails with this error has failed."""
    entry = retry_of(call, name, tool)
    if entry is not None:
        return entry.max_attempts
    return call.max_retries if call.on_error == "retry" else 1


def most_tries(call: AnyCall, tool: Tool) -> int:
    """Return the most attempts of a call that fails in the end, an unknown outcome of a write aside."""
    return max((tries(call, name, tool) for name in started_names(call, tool)), default=1)
