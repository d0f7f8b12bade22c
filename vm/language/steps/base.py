"""Base classes of the steps, with the fields that several types share, and the parts of an anatomy."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from stepward.vm.expressions.lexer import NAME
from stepward.vm.language.node import EMPTY
from stepward.vm.language.record import Record
from stepward.vm.language.steps.catching import VISITS, Catch
from stepward.vm.language.transitions import ANY, FAILURE, Exit
from stepward.vm.reading.source import Path
from stepward.vm.values import FrozenMap

Outcome = Literal["success", "failure"]

_is_name = re.compile(NAME).fullmatch


def check_name(text: str) -> str:
    """Return `text` if it is a name; raises PydanticCustomError if not.

    Models and expressions share this rule: pydantic's patterns define `\\w` differently, and so does Python identifiers
    beyond ASCII.
    """
    if not (text.isascii() and text.isidentifier()) and not _is_name(text):
        raise PydanticCustomError("variable_name", "`{text}` is not a name", {"text": text})
    return text


OnError = Literal["fail", "skip", "retry"]
Identifier = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\s$.'\"`]+$")]
VariableName = Annotated[
    str, Field(max_length=200, json_schema_extra={"pattern": r"^[^\W\d]\w*$"}), AfterValidator(check_name)
]
Count = Annotated[int, Field(ge=1)]


class Text(NamedTuple):
    """An expression of a step: its path below the step, its text, and whether it is a condition.

    `name` is that of the variable that it assigns, where the path does not end with it.
    """

    path: Path
    text: str
    is_condition: bool
    name: str = ""


class Template(NamedTuple):
    """A value of a step whose texts may hold references: its path below the step, and the value.

    `sub` is the position of the sub-step to which it belongs.
    """

    sub: int | None
    path: Path
    value: object


class BaseStep(Record):
    """The base of every step and sub-step."""

    id: Identifier


class Routed(BaseStep):
    """A step with a successor: all but conditions and `end`."""

    next_step: str | None = None
    is_terminal: bool = False
    outcome: Outcome | None = None
    max_visits: Count | None = None


class Failing(BaseStep):
    """A step that binds an output and may fail: llm, tool, parallel, and sub-steps."""

    output_key: VariableName | None = None
    on_error: OnError = "fail"
    max_retries: Count = 3

    has_output = True

    @property
    def assigns(self) -> FrozenMap:
        """Nothing: an output is bound by the step's own rules."""
        return EMPTY

    @property
    def expressions(self) -> Iterable[Text]:
        """None."""
        return ()


class FailingStep(Failing, Routed):
    """A step of the program's own list that may fail. `error_step` is a `catch` of any error."""

    error_step: str | None = None
    catch: Annotated[tuple[Catch, ...], Field(strict=False, min_length=1)] | None = None

    @classmethod
    def _of(cls, fields: dict[str, Any]) -> Self:
        if fields.get("catch") is not None:
            if fields.get("error_step") is not None:
                help = "remove `error_step`, and add its step as the last entry: `{errors: [any], then: ID}`"
                raise PydanticCustomError("failing", "`catch` and `error_step` both route failures", {"help": help})
            if fields.get("on_error") == "skip":
                help = "remove `on_error: skip`, or remove `catch`"
                raise PydanticCustomError(
                    "failing", "`on_error: skip` and `catch` contradict each other", {"help": help}
                )
        return super()._of(fields)

    @property
    def targets(self) -> Iterable[str]:
        """The steps to which failures lead."""
        return [exit.target for exit in self.caught if exit.target is not None]

    @property
    def caught(self) -> tuple[Exit, ...]:
        """The exits that `catch` or `error_step` states: a failure takes the first one that takes its name."""
        if self.catch is not None:
            return tuple(
                Exit("failed", entry.then, ("catch", number, "then"), errors=entry.errors)
                for number, entry in enumerate(self.catch)
            )
        return () if self.error_step is None else (Exit("failed", self.error_step, ("error_step",)),)

    @property
    def after_visits(self) -> Exit | None:
        """The exit of the first visit too many, None if it stalls the run."""
        caught = next((exit for exit in self.caught if exit.takes(VISITS)), None)
        return None if caught is None else caught._replace(kind="visits", errors=None)

    def failures(self, *, can_fall_back: bool) -> tuple[Exit, ...]:
        """Return the exits that are taken if the step does not succeed."""
        exits: tuple[Exit, ...] = (Exit("fallback"),) if can_fall_back else ()
        if self.on_error == "skip":
            exits += (Exit("skipped"),)
        exits += self.caught  # with `skip` the program is refused (SW002), and has both exits until then
        catches_all = any(exit.errors is None or ANY in exit.errors for exit in self.caught)
        if not catches_all and self.on_error != "skip":
            exits += (FAILURE,)
        return exits
