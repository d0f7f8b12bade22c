"""The compute step: calculates a value with an expression of PTC-Lisp, without effects."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from stepward.vm.language.node import EMPTY, ObjectValue
from stepward.vm.language.steps.base import Template
from stepward.vm.language.steps.call import CallStep
from stepward.vm.language.types import TypeSpec

_OF_CALLS = frozenset(["timeout_seconds", "on_timeout", "fallback", "max_retries", "retry"])
"""The fields of a call that mean nothing here: an expression fails again with the same arguments, and never waits."""


def _readable(text: str) -> str:
    from stepward.vm.lisp.checked import problem_of

    error = problem_of(text)
    if error is not None:
        where = "" if error.span is None else f" (line {error.span.line}, column {error.span.column})"
        help = error.hint or "write an expression of PTC-Lisp: specs/lisp.md"
        raise PydanticCustomError("lisp", "{why}", {"why": f"{error.message}{where}", "help": help})
    return text


class ComputeStep(CallStep):
    """Evaluates an expression of PTC-Lisp over its arguments, which it reads as `data/NAME`.

    It has no effect. The value has to be of the type `returns`, else the step fails, as it does where the expression
    has no value.
    """

    type: Literal["compute"]
    lisp: Annotated[str, Field(min_length=1), AfterValidator(_readable)]
    args: ObjectValue = EMPTY
    returns: TypeSpec | None = None
    on_error: Literal["fail", "skip"] = "fail"

    calls = ()

    @classmethod
    def fields(cls) -> dict[str, Any]:
        """Return the annotation of every field: those of a step that may fail, and its own."""
        return {name: annotation for name, annotation in super().fields().items() if name not in _OF_CALLS}

    @classmethod
    def _of(cls, fields: dict[str, Any]) -> Self:
        from stepward.vm.lisp.checked import data_read

        missing = sorted(data_read(fields["lisp"]) - set(fields.get("args", EMPTY)))
        if missing:
            name = missing[0]
            help = f"add `{name}` to `args`: `args: {{{name}: $REFERENCE}}`"
            message = "it reads `data/{name}`, and has no such argument"
            raise PydanticCustomError("lisp", message, {"name": name, "help": help})
        return super()._of(fields)

    @property
    def templates(self) -> Iterable[Template]:
        """The arguments."""
        return (Template(None, ("args",), self.args),) if self.args else ()
