"""Locations: places in the data of a document, and spans in its text."""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import NamedTuple

Path = tuple[str | int, ...]
"""The path from the root of a document to a value: keys and list positions."""


class Span(NamedTuple):
    """A range of text; lines and columns are 1-based and count code points; `end_column` is just past the end."""

    line: int
    column: int
    end_line: int
    end_column: int


class Place(NamedTuple):
    """A location in a document: a value, its key, or a part of a text value.

    `within` are a start and an exclusive end, in code points of the text value.
    """

    path: Path = ()
    key: bool = False
    within: tuple[int, int] | None = None

    def text(self) -> str:
        """Return the path in words: `steps[2].condition`."""
        parts = [f"[{part}]" if isinstance(part, int) else f".{part}" for part in self.path]
        return "".join(parts).lstrip(".") or "document"

    def child(self, *parts: str | int) -> Place:
        """Return the location of a value inside this one."""
        return Place(self.path + parts)


class Correction(NamedTuple):
    """A safe fix of a document: `text` replaces the value, the key or the part of a text at `place`.

    With `field`, the mapping at `place` gets this field instead, with `text` as its value, or true if `text` is empty;
    `is_number` says that the text is that of a whole number. `also` is a second fix, without which the first is wrong.
    """

    place: Place
    text: str
    field: str = ""
    also: Correction | None = None
    is_number: bool = False


class LineIndex:
    """Turns offsets into a text into 1-based lines and columns, and back."""

    def __init__(self, text: str) -> None:
        self._length = len(text)
        self._starts = [0, *(match.end() for match in re.finditer("\n", text))]

    def span(self, start: int, end: int) -> Span:
        """Return the span of `text[start:end]`."""
        return Span(*self.position(start), *self.position(max(start, end)))

    def position(self, offset: int) -> tuple[int, int]:
        """Return the 1-based line and column of an offset."""
        offset = min(offset, self._length)
        line = bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1] + 1

    def offset(self, line: int, column: int) -> int:
        """Return the offset of a line and column."""
        return self._starts[line - 1] + column - 1
