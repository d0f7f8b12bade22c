"""Where something stands: places in a document, and spans in its text."""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import NamedTuple

Path = tuple[str | int, ...]
"""The way from the root of a document to a value: keys and list positions."""


class Span(NamedTuple):
    """A stretch of text; lines and columns are 1-based and count code points, `end_column` is just past the end."""

    line: int
    column: int
    end_line: int
    end_column: int


class Place(NamedTuple):
    """A spot in a document: a value, or its key, or a stretch of a text value.

    `within` counts code points of the text value, from `start` up to and without `end`.
    """

    path: Path = ()
    key: bool = False
    within: tuple[int, int] | None = None

    def text(self) -> str:
        """Return the path as people write it: `steps[2].condition`."""
        parts = [f"[{part}]" if isinstance(part, int) else f".{part}" for part in self.path]
        return "".join(parts).lstrip(".") or "document"

    def child(self, *parts: str | int) -> Place:
        """Return the place of a value inside this one."""
        return Place(self.path + parts)


class Mend(NamedTuple):
    """A change of a document that is safe to make: `text` in place of the value, the key or the stretch at `place`.

    With `field`, the mapping at `place` gets that field instead, with `text` as its value.
    """

    place: Place
    text: str
    field: str = ""


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
