"""Rows of the lists of a program's expressions and calls."""

from __future__ import annotations

from typing import NamedTuple

from stepward.vm.errors import ExpressionError
from stepward.vm.expressions.building import Piece, built, pieces
from stepward.vm.expressions.parser import parse
from stepward.vm.expressions.syntax import Built, Expression
from stepward.vm.language.steps import AnyCall
from stepward.vm.reading.source import Path, Place


class Clause(NamedTuple):
    """An expression of the program: its location, its text, and its tree, or the error of the parser.

    `name` is that of the variable that it assigns, empty for a condition. A built value of a `set` has no text of its
    own: `pieces` are the texts in it.
    """

    step: int
    path: Path
    text: str
    is_condition: bool
    tree: Expression | None
    error: ExpressionError | None
    name: str = ""
    pieces: tuple[Piece, ...] = ()

    @classmethod
    def of(cls, step: int, path: Path, text: str, language: int, *, is_condition: bool, name: str = "") -> Clause:
        """Parse a text of a program of a language into a clause."""
        name = name or ("" if is_condition else str(path[-1]))
        try:
            return cls(step, path, text, is_condition, parse(text, language), None, name)
        except ExpressionError as error:
            return cls(step, path, text, is_condition, None, error, name)

    @classmethod
    def of_built(cls, step: int, path: Path, value: object, name: str) -> Clause:
        """Return the clause of a list or an object with templates that a `set` assigns."""
        return cls(step, path, "", False, built(value), None, name, tuple(pieces(value)))

    def part(self, start: int) -> tuple[str, ...]:
        """Return the fields of the assigned value in which a position of the tree stands; empty for a whole value."""
        for piece in reversed(self.pieces):
            if piece.start <= start:
                return tuple(f"[{key}]" if isinstance(key, int) else key for key in piece.path)
        items = zip(self.tree.names, self.tree.parts, strict=True) if isinstance(self.tree, Built) else ()
        return next(((name,) for name, item in items if item.start <= start < item.end), ())

    def place(self, start: int, end: int) -> Place:
        """Return the place of some positions of the tree in the document."""
        for piece in reversed(self.pieces):
            if piece.start <= start:
                return Place((*self.path, *piece.path), within=(start - piece.start, end - piece.start))
        return Place(self.path, within=(start, end))


class CallSite(NamedTuple):
    """A call to a model or a tool: a step, or a sub-step of a parallel one."""

    step: int
    sub: int | None
    call: AnyCall
    path: Path
