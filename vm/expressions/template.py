"""`$refs` in prompts, arguments and outputs, replaced in one pass so that data is never read as a reference."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final, NamedTuple

from stepward.vm.expressions.evaluator import Lookup
from stepward.vm.expressions.inner_names import names_of
from stepward.vm.expressions.lexer import NAME
from stepward.vm.expressions.syntax import Reference
from stepward.vm.reading.source import Path
from stepward.vm.values import FrozenMap, as_text

_REFERENCE: Final = re.compile(rf"\$(?:\$|({NAME}(?:\.{NAME})*))")


class Embedded(NamedTuple):
    """A reference in a value: the path to the text that holds it, and whether it is that whole text."""

    path: Path
    reference: Reference
    whole: bool


@lru_cache(maxsize=4096)
def parts(text: str) -> tuple[str | Reference, ...]:
    """Split a text into literal parts and references; `$$` is a dollar sign, and so is a lone `$`."""
    result: list[str | Reference] = []
    position = 0
    for match in _REFERENCE.finditer(text):
        literal = text[position : match.start()] + ("$" if match.group(1) is None else "")
        if literal:
            result.append(literal)
        if match.group(1) is not None:
            result.append(Reference(match.start(), match.end(), names_of(match.group(1))))
        position = match.end()
    if text[position:]:
        result.append(text[position:])
    return tuple(result)


def positions(text: str) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Yield the references of a text, each with the offset at which it stands."""
    for match in _REFERENCE.finditer(text):
        if match.group(1) is not None:
            yield match.start(), tuple(match.group(1).split("."))


def embedded(value: Any, path: Path = ()) -> Iterator[Embedded]:
    """Yield the references in the texts of a value, at any depth; keys of objects are not read."""
    for text_path, text in texts(value, path):
        pieces = parts(text)
        for piece in pieces:
            if isinstance(piece, Reference):
                yield Embedded(text_path, piece, whole=len(pieces) == 1)


def texts(value: Any, path: Path = ()) -> Iterator[tuple[Path, str]]:
    """Yield the texts of a value that have a dollar sign, at any depth, each with its path."""
    if isinstance(value, str):
        if "$" in value:
            yield path, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from texts(item, (*path, key))
    elif isinstance(value, (list, tuple)):
        for number, item in enumerate(value):
            yield from texts(item, (*path, number))


def lone_reference(value: object) -> tuple[str, ...] | None:
    """Return the names of the reference of which a text consists, or None for any other value."""
    pieces = parts(value) if isinstance(value, str) else ()
    return pieces[0].names if len(pieces) == 1 and isinstance(pieces[0], Reference) else None


def fill(value: Any, lookup: Lookup) -> Any:
    """Return `value` with its references replaced; a text that is one reference becomes the value of that reference.

    Raises UndefinedReferenceError if a reference is undefined.
    """
    if isinstance(value, str):
        pieces = parts(value)
        if len(pieces) == 1 and isinstance(pieces[0], Reference):
            return lookup(pieces[0].names)
        return "".join(piece if isinstance(piece, str) else as_text(lookup(piece.names)) for piece in pieces)
    if isinstance(value, dict):
        return FrozenMap((key, fill(item, lookup)) for key, item in value.items())
    if isinstance(value, list | tuple):
        return tuple(fill(item, lookup) for item in value)
    return value
