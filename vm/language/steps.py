"""The six step types, each with the fields that it has and no others."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from stepward.vm.expressions.lexer import NAME
from stepward.vm.language.node import EMPTY, ExactNumber, ObjectValue, Value
from stepward.vm.language.record import Record
from stepward.vm.language.types import TypeSpec
from stepward.vm.values import FrozenMap

Outcome = Literal["success", "failure"]


_is_name = re.compile(NAME).fullmatch


def _name(text: str) -> str:
    # One rule for models and expressions: pydantic's own patterns mean something else by `\w`, and so does Python by
    # an identifier beyond ASCII.
    if not (text.isascii() and text.isidentifier()) and not _is_name(text):
        raise PydanticCustomError("variable_name", "`{text}` is not a name", {"text": text})
    return text


def _names(assigned: FrozenMap) -> FrozenMap:
    for name in assigned:
        _name(name)
    return assigned


OnError = Literal["fail", "skip", "retry"]
Identifier = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\s$.'\"`]+$")]
VariableName = Annotated[
    str, Field(max_length=200, json_schema_extra={"pattern": r"^[^\W\d]\w*$"}), AfterValidator(_name)
]
Count = Annotated[int, Field(ge=1)]


class BaseStep(Record):
    """What every step and sub-step has."""

    id: Identifier


class Failing(BaseStep):
    """A step that may fail and binds an output: llm, tool, parallel, and sub-steps."""

    output_key: VariableName | None = None
    on_error: OnError = "fail"
    max_retries: Count = 3


class Call(Failing):
    """A step or sub-step that asks somebody outside."""

    timeout_seconds: Annotated[ExactNumber, Field(gt=0)] | None = None
    on_timeout: Literal["fail", "fallback"] = "fail"
    fallback: Value = None


class LlmCall(Call):
    """Asks a model; its reply is data. As such a sub-step, as LlmStep a step."""

    type: Literal["llm"]
    prompt: str
    system: str | None = None
    allowed_outputs: Annotated[tuple[str, ...], Field(strict=False, min_length=1)] | None = None
    returns: TypeSpec | None = None


class ToolCall(Call):
    """Calls a tool of the manifest. As such a sub-step, as ToolStep a step."""

    type: Literal["tool"]
    tool: Annotated[str, Field(min_length=1)]
    args: ObjectValue = EMPTY


class Routed(BaseStep):
    """A step that control passes through: all but conditions and `end`."""

    next_step: str | None = None
    is_terminal: bool = False
    outcome: Outcome | None = None
    max_visits: Count | None = None


class ErrorRouted(Routed):
    """A step that may send control elsewhere when it fails."""

    error_step: str | None = None


class LlmStep(LlmCall, ErrorRouted):
    """An llm step of the program's own list."""


class ToolStep(ToolCall, ErrorRouted):
    """A tool step of the program's own list."""


class ParallelStep(Failing, ErrorRouted):
    """Runs its sub-steps side by side and joins them."""

    type: Literal["parallel"]
    parallel_steps: Annotated[
        tuple[Annotated[LlmCall | ToolCall, Field(discriminator="type")], ...], Field(strict=False, min_length=1)
    ]
    max_concurrency: Count | None = None


class SetStep(Routed):
    """Assigns variables, all at once."""

    type: Literal["set"]
    set: Annotated[ObjectValue, AfterValidator(_names)]


class Case(Record):
    """One case of a many-way condition."""

    when: str
    then: str
    name: Annotated[str, Field(min_length=1)] | None = None


class ConditionStep(BaseStep):
    """Takes one branch; two-way by `condition`, many-way by `cases`."""

    type: Literal["condition"]
    condition: str | None = None
    then: str | None = None
    otherwise: str | None = None
    cases: Annotated[tuple[Case, ...], Field(strict=False, min_length=1)] | None = None
    exclusive: bool = False
    max_visits: Count | None = None

    @classmethod
    def _of(cls, given: dict[str, Any]) -> Self:
        if given.get("condition") is None or given.get("then") is None or "cases" in given or "exclusive" in given:
            _check_form(given.get)
        return super()._of(given)


def _check_form(get: Callable[[str], Any]) -> None:
    is_two_way, is_many_way, has_then = get("condition") is not None, get("cases") is not None, get("then") is not None
    if is_two_way == is_many_way:
        raise PydanticCustomError("condition_form", "a condition step has either `condition` or `cases`")
    if is_many_way and has_then:
        raise PydanticCustomError("condition_form", "`then` belongs to each case when a condition has `cases`")
    if is_two_way and not has_then and get("otherwise") is None:
        raise PydanticCustomError("condition_form", "a condition needs `then`, `otherwise` or both")
    if is_two_way and get("exclusive"):
        raise PydanticCustomError("condition_form", "`exclusive` belongs to a condition with `cases`")


class EndStep(BaseStep):
    """Ends the run."""

    type: Literal["end"]
    outcome: Outcome = "success"
    output: Value = None


AnyStep = LlmStep | ToolStep | ConditionStep | ParallelStep | SetStep | EndStep
Step = Annotated[AnyStep, Field(discriminator="type")]

STEP_MODELS: dict[str, type[BaseStep]] = {
    "llm": LlmStep,
    "tool": ToolStep,
    "condition": ConditionStep,
    "parallel": ParallelStep,
    "set": SetStep,
    "end": EndStep,
}
SUB_STEP_MODELS: dict[str, type[BaseStep]] = {"llm": LlmCall, "tool": ToolCall}
