"""What steps have in common: the fields of their roles, and the parts of an anatomy."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated, Literal, NamedTuple

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from stepward.vm.expressions.lexer import NAME
from stepward.vm.language.node import EMPTY
from stepward.vm.language.record import Record
from stepward.vm.language.transitions import FAILURE, Exit
from stepward.vm.reading.source import Path

Outcome = Literal["success", "failure"]

_is_name = re.compile(NAME).fullmatch


def check_name(text: str) -> str:
    """Return a text that is a name; raises PydanticCustomError for what is none.

    One rule for models and expressions: pydantic's own patterns mean something else by `\\w`, and so does Python by
    an identifier beyond ASCII.
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
    """An expression of a step: its path below the step, its text, and whether it is a condition."""

    path: Path
    text: str
    is_condition: bool


class Template(NamedTuple):
    """A value of a step in whose texts references are filled in: its path below the step, and the value.

    `sub` is the position of the sub-step that has it.
    """

    sub: int | None
    path: Path
    value: object


class BaseStep(Record):
    """What every step and sub-step has."""

    id: Identifier


class Routed(BaseStep):
    """A step that control passes through: all but conditions and `end`."""

    next_step: str | None = None
    is_terminal: bool = False
    outcome: Outcome | None = None
    max_visits: Count | None = None


class Failing(BaseStep):
    """A step that may fail and binds an output: llm, tool, parallel, and sub-steps."""

    output_key: VariableName | None = None
    on_error: OnError = "fail"
    max_retries: Count = 3

    has_output = True
    assigns = EMPTY
    expressions = ()


class ErrorRouted(Routed):
    """A step that may send control elsewhere when it fails."""

    error_step: str | None = None


class FailingStep(Failing, ErrorRouted):
    """A step of the program's own list that may fail."""

    @property
    def targets(self) -> Iterable[str]:
        """The error step."""
        return () if self.error_step is None else (self.error_step,)

    def failures(self, *, can_fall_back: bool) -> tuple[Exit, ...]:
        """Return the ways out that are taken when the step did not succeed."""
        exits: tuple[Exit, ...] = (Exit("fallback"),) if can_fall_back else ()
        if self.on_error == "skip":
            exits += (Exit("skipped"),)
        if self.error_step is not None:  # beside `skip` it is SW002: both ways are given, and the program is refused
            exits += (Exit("failed", self.error_step, ("error_step",)),)
        elif self.on_error != "skip":
            exits += (FAILURE,)
        return exits
