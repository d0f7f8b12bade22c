"""Where something stands: places in a document, and spans in its text."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
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


@dataclass(frozen=True, slots=True)
class LineIndex:
    """Turns offsets into a text into lines and columns."""

    text: str
    _starts: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._starts.append(0)
        position = self.text.find("\n")
        while position >= 0:
            self._starts.append(position + 1)
            position = self.text.find("\n", position + 1)

    def span(self, start: int, end: int) -> Span:
        """Return the span of `text[start:end]`."""
        return Span(*self.position(start), *self.position(max(start, end)))

    def position(self, offset: int) -> tuple[int, int]:
        """Return the 1-based line and column of an offset."""
        offset = min(offset, len(self.text))
        line = bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1] + 1
