"""The texts of a diagram: steps and guardrails in words, wrapped and cut."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final, Literal, assert_never

from stepward.validator.diagram.picture import Line, Tone
from stepward.validator.report.text import columns_of, safe, width
from stepward.vm.expressions.inner_names import legible
from stepward.vm.language.guardrails import (
    AllOf,
    AnyOf,
    AnyRequirement,
    AnyRule,
    AtMostOnce,
    Exclusive,
    FollowedBy,
    Never,
    Requires,
)
from stepward.vm.language.manifest import ToolSpec
from stepward.vm.language.steps import (
    AnyPart,
    AnyStep,
    BranchStep,
    Call,
    ComputeStep,
    ConditionStep,
    EndStep,
    Failing,
    ForEachStep,
    InvokeStep,
    LlmCall,
    ParallelStep,
    SetStep,
    Stage,
    ToolCall,
    WaitStep,
)
from stepward.vm.language.transitions import ANY
from stepward.vm.values import to_json

COLUMNS: Final = 34
"""Columns of a line in a node."""

_SLACK: Final = 6

LINES: Final = 6
"""Lines of one text of a node; a longer text ends in an ellipsis."""

ASSIGNMENTS: Final = 8
"""Assignments of a `set` step that are shown."""

_CLAUSE: Final = re.compile(r" (?=(?:and|or) )")


# -- wrapping ----------------------------------------------------------------------------------------------------------


def wrapped(text: str, limit: int = COLUMNS, most: int = LINES, *, by_clause: bool = True) -> list[str]:
    """Return at most `most` lines of a text; an ellipsis replaces the rest.

    A line may exceed the limit a little where that saves a line; `by_clause` breaks before each `and` and `or`.
    """
    text = legible(text)
    shown = safe(text[: limit * most * 2].replace("\n", " ")).strip()
    clauses = _CLAUSE.split(shown) if by_clause and columns_of(shown) > limit + _SLACK else [shown]
    lines = [line for clause in clauses for line in _folded(clause, limit)]
    if len(lines) > most or len(text) > limit * most * 2:
        lines = lines[:most]
        lines[-1] = f"{_fitting(lines[-1], limit - 1)}…"
    return lines or [""]


def _folded(text: str, limit: int) -> list[str]:
    """Return a text in lines: within the limit, or a little over it where that gives fewer lines."""
    within, over = list(_filled(text, limit)), list(_filled(text, limit + _SLACK))
    return over if len(over) < len(within) else within


def _filled(text: str, limit: int) -> Iterator[str]:
    """Yield a text in lines that fit; a word is only split if it does not fit on a line."""
    line = ""
    for word in text.split():
        if line and columns_of(line) + 1 + columns_of(word) <= limit:
            line = f"{line} {word}"
            continue
        if line:
            yield line
        line = word
        while columns_of(line) > limit + _SLACK:
            head = _fitting(line, limit)
            yield head
            line = line[len(head) :]
    if line:
        yield line


def _fitting(text: str, limit: int) -> str:
    """Return the longest start of a text that fits."""
    if columns_of(text) <= limit:
        return text
    columns = 0
    for number, character in enumerate(text):
        columns += width(character, 0)
        if columns > limit:
            return text[:number]
    return text


def shortened(text: str, limit: int) -> str:
    """Return a text on one line; an ellipsis replaces what does not fit."""
    shown = safe(legible(text[: limit * 2]).replace("\n", " "))
    return shown if columns_of(shown) <= limit else f"{_fitting(shown, limit - 1).rstrip()}…"


# -- steps -------------------------------------------------------------------------------------------------------------


Body = Literal["item", "branch", "call"]
"""What a body is: an item of a `for_each` step, a branch, or a called program."""


def lines_of(
    step: AnyPart, spec: ToolSpec | None, *, is_declared: bool = True, body: Body | None = None
) -> Iterator[Line]:
    """Yield the lines of a step's node: its id, then what it does; `spec` are the facts about its tool.

    `body` says of what belongs to a body what kind it is.
    """
    yield from _lines(step.id, "name")
    if isinstance(step, Stage):
        yield Line("all branches have ended" if body is None else _STAGES[body][step.role])
    elif isinstance(step, EndStep) and body is not None:
        yield from _lines(f"end of the {body}: {step.outcome}")
    else:
        yield from _action_lines(step, spec, is_declared=is_declared)
    if isinstance(step, Failing) and step.on_error == "retry":
        yield Line(f"retried: {step.max_retries} attempts in all", "retry")
    for entry in (step.retry or ()) if isinstance(step, Call) else ():
        when = "any error" if ANY in entry.errors else ", ".join(entry.errors)
        yield from _lines(f"retried after {when}: {entry.max_attempts} attempts in all", "retry")
    if isinstance(step, AnyStep) and (visits := step.max_visits) is not None:
        yield Line(f"at most {visits_words(visits)}", "retry")


def visits_words(count: int) -> str:
    """Return a number of visits in words."""
    return f"{count} visit{'' if count == 1 else 's'}"


def _action_lines(step: AnyPart, spec: ToolSpec | None, *, is_declared: bool) -> Iterator[Line]:
    match step:
        case LlmCall():
            yield from _lines(f"llm → ${step.output_key}" if step.output_key else "llm")
            yield from _lines(" | ".join(step.allowed_outputs or ()))
        case ToolCall():
            assert spec is not None, "a tool has facts"
            yield from _lines(f"{step.tool} → ${step.output_key}" if step.output_key else step.tool)
            yield _effect(spec, is_declared=is_declared)
        case ConditionStep():
            yield from _lines(step.condition or "")
        case SetStep():
            for name, value in list(step.set.items())[:ASSIGNMENTS]:
                yield from _lines(_assignment(name, value), most=2)
            if len(step.set) > ASSIGNMENTS:
                yield Line(f"… and {len(step.set) - ASSIGNMENTS} more", "faint")
        case ComputeStep():
            yield from _lines(f"compute → ${step.output_key}" if step.output_key else "compute")
            yield from _lines(step.lisp)
        case WaitStep() | EndStep():
            yield from _lines(_words_of(step))
        case ParallelStep():
            yield Line("branches" if step.branches else "parallel")
        case ForEachStep():
            yield from _each_lines(step)
        case Stage():
            raise AssertionError(f"`{step.id}` does nothing")
        case _:
            assert_never(step)


def _body_words(step: ForEachStep) -> str:
    if isinstance(step, InvokeStep):
        return f"call {step.program}"
    return "branch" if isinstance(step, BranchStep) else f"for each {step.item_name} in {step.items}"


def _each_lines(step: ForEachStep) -> Iterator[Line]:
    yield from _lines(_body_words(step))
    if step.is_beside:
        yield Line(f"up to {step.max_concurrency} at once", "faint")


_STAGES: Final[dict[Body, dict[str, str]]] = {
    "item": {"next": "next item", "failed": "an item failed"},
    "branch": {"next": "the branch has ended", "failed": "the branch failed"},
    "call": {"next": "the call has ended", "failed": "the call failed"},
}
"""The words for what comes behind a body, by its kind."""


def body_word(step: AnyStep) -> Body:
    """Return what kind of body a step with a body has."""
    return "call" if isinstance(step, InvokeStep) else "branch" if isinstance(step, BranchStep) else "item"


def _words_of(step: WaitStep | EndStep) -> str:
    if isinstance(step, EndStep):
        return f"end: {step.outcome}"
    return f"wait until {step.until}" if step.field == "until" else f"wait {step.seconds} seconds"


def _assignment(name: str, value: Any) -> str:
    # A text is an expression, anything else is a constant.
    return f"{name} = {value if isinstance(value, str) else to_json(value)}"


def sub_step_lines(part: Call) -> Iterator[Line]:
    """Yield the lines of a sub-step for what would be an edge of a step."""
    if part.on_error == "skip":
        yield Line("goes on when it fails", "faint")
    if part.on_timeout == "fallback":
        yield Line("goes on after a time-out", "faint")


def _effect(spec: ToolSpec, *, is_declared: bool) -> Line:
    words = {"write": "WRITES", "read": "reads", "none": "no effect"}[spec.effect]
    if not is_declared:
        words += " (not declared)"
    elif spec.effect == "write":
        words += ", idempotent" if spec.idempotent else ", not idempotent"
    return Line(words + (", suspends" if spec.suspends else ""), "write" if spec.effect == "write" else "text")


def _lines(text: str, tone: Tone = "text", most: int = LINES) -> Iterator[Line]:
    if text:
        yield from (Line(line, tone) for line in wrapped(text, most=most))


def whole_of(step: AnyPart) -> str:
    """Return the text of a step that its node may have cut."""
    match step:
        case ConditionStep():
            return legible("\n".join(one.text for one in step.expressions).strip())
        case SetStep():
            return legible("\n".join(_assignment(name, value) for name, value in step.set.items()))
        case LlmCall():
            return " | ".join(step.allowed_outputs or ())
        case ComputeStep():
            return step.lisp
        case ToolCall() | ParallelStep() | EndStep() | ForEachStep() | Stage():
            return ""
        case WaitStep():
            return legible(str(step.stated_time))
        case _:
            assert_never(step)


# -- guardrails --------------------------------------------------------------------------------------------------------


def rule_words(rule: AnyRule) -> str:
    """Return the demand of a guardrail in words."""
    match rule:
        case Requires():
            return f"{rule.protects.text()} only after {_required(rule.requires)}"
        case Never():
            return f"never {rule.never.text()}" + (f" when {rule.when}" if rule.when else "")
        case AtMostOnce():
            return f"{rule.at_most_once.text()} at most once"
        case FollowedBy():
            return f"{rule.followed_by.first.text()} is followed by {rule.followed_by.then.text()}"
        case Exclusive():
            return f"not both {rule.exclusive[0].text()} and {rule.exclusive[1].text()}"
        case _:
            assert_never(rule)


def _required(requirement: AnyRequirement) -> str:
    if isinstance(requirement, AllOf | AnyOf):
        parts, word = (requirement.all_of, " and ") if isinstance(requirement, AllOf) else (requirement.any_of, " or ")
        return "(" + word.join(map(_required, parts)) + ")"
    return requirement.text()
