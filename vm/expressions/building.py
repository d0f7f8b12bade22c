"""The values of `set` as expressions: in language 2, a text in a list or an object is a template.

Nothing in a list or an object is computed. A text that is one reference is the value of that reference, a longer one
with references is text, and `$$` is a dollar sign, as in arguments.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from stepward.vm.expressions.parser import parse
from stepward.vm.expressions.syntax import Built, Constant, Expression, Reference, Template
from stepward.vm.expressions.template import parts, texts
from stepward.vm.reading.source import Path
from stepward.vm.values import FrozenMap


class Piece(NamedTuple):
    """A text in a built value: its first position in the positions of the tree, and its path below the value."""

    start: int
    path: Path


def is_computed(value: object, language: int) -> bool:
    """Return whether a value of a `set` is an expression, or holds templates; any other stands for itself."""
    return isinstance(value, str) or (language > 1 and any("$$" in text or _reads(text) for _, text in texts(value)))


def expression(value: object, language: int) -> Expression:
    """Return the tree of a value of a `set`; raises ExpressionError for a text that is no expression."""
    if isinstance(value, str):
        return parse(value, language)
    return built(value) if is_computed(value, language) else Constant(0, 0, value)


def built(value: object) -> Expression:
    """Return the tree of a list or an object with templates.

    Each text with a dollar sign has positions of its own, in the order of `pieces`, so that no two nodes share one.
    """
    starts = {piece.path: piece.start for piece in pieces(value)}
    return _built(value, (), starts)


def pieces(value: object) -> Iterator[Piece]:
    """Yield the texts with a dollar sign of a built value, in order."""
    start = 0
    for path, text in texts(value):
        yield Piece(start, path)
        start += len(text) + 1


def _reads(text: str) -> bool:
    return any(isinstance(piece, Reference) for piece in parts(text))


def _built(value: Any, path: Path, starts: dict[Path, int]) -> Expression:
    if isinstance(value, str):
        return _template(value, starts[path]) if path in starts else Constant(0, 0, value)
    if isinstance(value, dict):
        fields = tuple(_built(item, (*path, name), starts) for name, item in value.items())
        values = _constants(fields)
        if values is not None:
            return Constant(0, 0, FrozenMap(zip(value, values, strict=True)))
        return Built(0, 0, tuple(value), fields, is_list=False)
    if isinstance(value, tuple):
        items = tuple(_built(item, (*path, number), starts) for number, item in enumerate(value))
        values = _constants(items)
        if values is not None:
            return Constant(0, 0, values)
        return Built(0, 0, tuple(f"[{number}]" for number in range(len(items))), items, is_list=True)
    return Constant(0, 0, value)


def _constants(parts: tuple[Expression, ...]) -> tuple[Any, ...] | None:
    """Return the values of parts that all are constants, None where one is not."""
    values = tuple(part.value for part in parts if isinstance(part, Constant))
    return values if len(values) == len(parts) else None


def _template(text: str, start: int) -> Expression:
    found: list[Constant | Reference] = []
    for piece in parts(text):
        if isinstance(piece, str):
            found.append(Constant(start, start, piece))
        else:
            found.append(Reference(start + piece.start, start + piece.end, piece.names))
    if all(isinstance(piece, Constant) for piece in found):
        return Constant(start, start, "".join(piece.value for piece in found if isinstance(piece, Constant)))
    return found[0] if len(found) == 1 else Template(start, start + len(text), tuple(found))
