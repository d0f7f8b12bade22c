"""Errors of the Lisp: values with a reason, a message, details, a hint and a place, and what carries one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from stepward.vm.reading.source import Span

Reason = Literal[
    "parse_error",
    "invalid_form",
    "refused",
    "unbound_var",
    "arity_error",
    "type_error",
    "arithmetic_error",
    "bounds_error",
    "not_callable",
    "no_match",
    "steps_exceeded",
    "memory_exceeded",
    "depth_exceeded",
    "timeout",
    "failed",
]


@dataclass(frozen=True, slots=True)
class LispError:
    """Why a program has no value.

    `message` says what is wrong, `hint` what to do; `details` are the parts that a program may want to read, all of
    them values of the language. `span` is the innermost form concerned, None if the error is not that of one form.
    """

    reason: Reason
    message: str
    hint: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)
    span: Span | None = None

    def as_value(self) -> dict[str, Any]:
        """Return the error as the object that a model gets: `reason`, `message`, `details` with the place, `hint`."""
        details = dict(self.details)
        if self.span is not None:
            details |= {"line": self.span.line, "column": self.span.column}
        return {"reason": self.reason, "message": self.message, "details": details, "hint": self.hint}


class Fault(Exception):  # noqa: N818 - it never leaves the package: what the caller gets is the error in it
    """Ends an evaluation; the nearest call adds its span on the way out."""

    def __init__(self, reason: Reason, message: str, hint: str = "", span: Span | None = None, **details: Any) -> None:
        super().__init__(message)
        self.reason: Reason = reason
        self.message = message
        self.hint = hint
        self.span = span
        self.details = details

    def error(self) -> LispError:
        """Return the error as a value."""
        return LispError(self.reason, self.message, self.hint, self.details, self.span)


def type_fault(function: str, needed: str, kind: str, hint: str = "") -> Fault:
    """Return the fault of a function that was given a value of another kind than it needs."""
    return Fault("type_error", f"`{function}` needs {needed}, not {kind}", hint, function=function)
