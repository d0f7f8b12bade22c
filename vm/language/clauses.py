"""Rows of the lists of a program's expressions and calls."""

from __future__ import annotations

from typing import NamedTuple

from stepward.vm.errors import ExpressionError
from stepward.vm.expressions.parser import parse
from stepward.vm.expressions.syntax import Expression
from stepward.vm.language.steps import AnyCall
from stepward.vm.reading.source import Path


class Clause(NamedTuple):
    """An expression of the program: its location, its text, and its tree, or the error of the parser."""

    step: int
    path: Path
    text: str
    is_condition: bool
    tree: Expression | None
    error: ExpressionError | None

    @classmethod
    def of(cls, step: int, path: Path, text: str, language: int, *, is_condition: bool) -> Clause:
        """Parse a text of a program of a language into a clause."""
        try:
            return cls(step, path, text, is_condition, parse(text, language), None)
        except ExpressionError as error:
            return cls(step, path, text, is_condition, None, error)


class CallSite(NamedTuple):
    """A call to a model or a tool: a step, or a sub-step of a parallel one."""

    step: int
    sub: int | None
    call: AnyCall
    path: Path
