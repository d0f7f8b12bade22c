"""Rows of the lists of a program's expressions and calls."""

from __future__ import annotations

from typing import NamedTuple

from stepward.vm.errors import ExpressionError
from stepward.vm.expressions.building import Piece, built, into_fields, pieces
from stepward.vm.expressions.fields import ITEMS
from stepward.vm.expressions.inside import keeps
from stepward.vm.expressions.parser import parse
from stepward.vm.expressions.paths import Paths
from stepward.vm.expressions.syntax import Built, Expression
from stepward.vm.language.steps import AnyCall
from stepward.vm.reading.source import Path, Place


class Clause(NamedTuple):
    """An expression of the program: its location, its text, and its tree, or the error of the parser.

    `name` is that of the variable that it assigns, empty for a condition. A built value of a `set` has no text of its
    own: `pieces` are the texts in it. Where a `set` assigns fields of a variable, `path` is that of the first of them,
    and `text` has all their expressions.
    """

    step: int
    path: Path
    text: str
    is_condition: bool
    tree: Expression | None
    error: ExpressionError | None
    name: str = ""
    pieces: tuple[Piece, ...] = ()
    is_of_fields: bool = False

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

    @classmethod
    def of_fields(cls, step: int, path: Path, paths: Paths, language: int, name: str) -> list[Clause]:
        """Return the clause of the fields of a variable that a `set` assigns; one for each text with an error if there
        are such."""
        parsed = [
            cls.of(step, path, value, language, is_condition=False, name=name)._replace(
                pieces=(Piece(0, (key,)),), is_of_fields=True
            )
            for key, value in paths.items()
            if isinstance(value, str)
        ]
        if any(one.error is not None for one in parsed):
            return [one for one in parsed if one.error is not None]
        tree, whole, found = into_fields(paths, language)
        return [cls(step, path, whole, False, tree, None, name, found, is_of_fields=True)]

    def texts(self) -> set[Path]:
        """Return the paths of the expressions in the clause."""
        if not self.is_of_fields:
            return {self.path} if self.text else set()
        return {(*self.path[:-1], *one.path) for one in self.pieces if len(one.path) == 1}

    def piece(self, start: int) -> Piece | None:
        """Return the piece in which a position of the tree stands; None where the clause has none."""
        return next((piece for piece in reversed(self.pieces) if piece.start <= start), None)

    def is_base(self, start: int) -> bool:
        """Return whether a position of the tree is that of an object of which a field is assigned."""
        piece = self.piece(start)
        return piece is not None and piece.is_key

    def is_from(self, start: int, fields: tuple[str, ...]) -> bool:
        """Return whether the value at some fields of what is assigned may come from what stands at a position."""
        piece = self.piece(start)
        if piece is not None and piece.is_key:  # what is kept of an object is in the outermost one
            return not piece.fields and self.tree is not None and keeps(self.tree, fields)
        own = self.part(start)
        return all(one == other or ITEMS in (one, other) for one, other in zip(own, fields, strict=False))

    def part(self, start: int) -> tuple[str, ...]:
        """Return the fields of the assigned value in which a position of the tree stands; empty for a whole value."""
        piece = self.piece(start)
        if piece is not None:
            return piece.fields
        items = zip(self.tree.names, self.tree.parts, strict=True) if isinstance(self.tree, Built) else ()
        return next(((name,) for name, item in items if item.start <= start < item.end), ())

    def place(self, start: int, end: int) -> Place:
        """Return the place of some positions of the tree in the document."""
        piece = self.piece(start)
        if piece is not None:
            path = (*(self.path[:-1] if self.is_of_fields else self.path), *piece.path)
            within = None if piece.is_key else (start - piece.start, end - piece.start)
            return Place(path, key=piece.is_key, within=within)
        return Place(self.path, within=(start, end))


class CallSite(NamedTuple):
    """A call to a model or a tool: a step, or a sub-step of a parallel one."""

    step: int
    sub: int | None
    call: AnyCall
    path: Path
