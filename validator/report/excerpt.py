"""A part of a source with line numbers, and marks under the characters that a finding is about."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from stepward.validator.report.text import safe, width
from stepward.vm.reading.source import Span

MAX_WIDTH: Final = 120
"""Columns of a source line that are shown; a longer line is cut around the mark."""

_LONG: Final = 1_000
"""Characters of the longest line that is measured as a whole."""

_NEAR: Final = 4 * MAX_WIDTH
"""Characters around a mark that are measured in a longer line."""

MAX_GAP: Final = 2
"""Lines between two marks that are shown; more are left out."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A part of a source to underline, and the text beside the line."""

    span: Span
    text: str = ""
    is_primary: bool = False


@dataclass(frozen=True, slots=True)
class ExcerptRow:
    """One row of an excerpt: the number of the line, or empty, and the text beside it.

    `kind` is for its color: source, primary or secondary mark, or gap.
    """

    number: str
    text: str
    kind: str


def excerpt(lines: Sequence[str], marks: list[Mark]) -> Iterator[ExcerptRow]:
    """Yield the lines of a source that have marks, each mark below its line, and the few lines between them."""
    shown = sorted({mark.span.line for mark in marks if mark.span.line <= len(lines)})
    before: int | None = None
    for line in shown:
        if before is not None:
            yield from _between(lines, before, line)
        here = sorted((mark for mark in marks if mark.span.line == line), key=lambda mark: mark.span.column)
        text = lines[line - 1].rstrip("\r")
        if len(text) <= _LONG:
            yield from _marked(text, line, here)
        for mark in here if len(text) > _LONG else ():
            yield from _marked(*_neighbourhood(text, mark))
        before = line


def _between(lines: Sequence[str], before: int, line: int) -> Iterator[ExcerptRow]:
    if line - before - 1 > MAX_GAP:
        yield ExcerptRow("...", "", "gap")
        return
    for number in range(before + 1, line):
        cells = _Cells(lines[number - 1][:_LONG].rstrip("\r"))
        yield ExcerptRow(str(number), _shown(cells, 0, min(cells.total, MAX_WIDTH)), "source")


def _marked(text: str, number: int, marks: list[Mark]) -> Iterator[ExcerptRow]:
    cells = _Cells(text)
    right = -1
    for position, mark in enumerate(marks):
        start, end = _columns(cells, mark)
        if end > right:
            # The shown part of the line includes as many of the following marks as fit.
            ends = [_columns(cells, other)[1] for other in marks[position:]]
            left, right = _part(
                cells.total, start, max(other for other in ends if other <= max(end, start + MAX_WIDTH // 2))
            )
            yield ExcerptRow(str(number), _shown(cells, left, right), "source")
        sign, kind = ("^", "primary") if mark.is_primary else ("-", "secondary")
        words = f" {safe(mark.text)}" if mark.text else ""
        yield ExcerptRow("", " " * (start - left) + sign * (min(end, right) - start) + words, kind)


def _neighbourhood(text: str, mark: Mark) -> tuple[str, int, list[Mark]]:
    """Return a part of a very long line around a mark: a whole program may be one line, with every finding on it."""
    span = mark.span
    left = max(0, span.column - 1 - MAX_WIDTH)
    end = span.end_column - left if span.end_line == span.line else _NEAR
    near = Span(span.line, span.column - left, span.line, end)
    return text[left : left + _NEAR], span.line, [replace(mark, span=near)]


def _columns(cells: _Cells, mark: Mark) -> tuple[int, int]:
    """Return where a mark starts and ends on its first line; it is never empty."""
    start = cells.column(mark.span.column - 1)
    end = cells.column(mark.span.end_column - 1) if mark.span.end_line == mark.span.line else cells.total
    return start, max(end, start + 1)


def _part(total: int, start: int, end: int) -> tuple[int, int]:
    """Return the columns to show of a line: all of them, or a part with the marks from `start` to `end` in it."""
    if total <= MAX_WIDTH:
        return 0, max(total, end)
    left = max(0, min(start - MAX_WIDTH // 3, total - MAX_WIDTH))
    return left, max(left + MAX_WIDTH, min(end, start + MAX_WIDTH))


def _shown(cells: _Cells, left: int, right: int) -> str:
    head, tail = "…" * (left > 0), "…" * (right < cells.total)
    return head + cells.part(left + len(head), right - len(tail)) + tail


class _Cells:
    """A line in the cells of a terminal: tabs widened, unsafe characters replaced; `starts` has their columns."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.starts: list[int] = []
        column = 0
        for character in text:
            self.starts.append(column)
            column += width(character, column)
        self.total = column

    def column(self, position: int) -> int:
        """Return the column of the character at a position; after the last character, the end."""
        return self.starts[position] if position < len(self.starts) else self.total

    def part(self, left: int, right: int) -> str:
        """Return the characters between two columns, with spaces in place of characters that are cut."""
        shown: list[str] = []
        column = left
        for character, start in zip(self.text, self.starts, strict=True):
            if start < left or start + (size := width(character, start)) > right:
                continue
            shown.append(" " * (start - column))
            shown.append(" " * size if character == "\t" else safe(character))
            column = start + size
        return "".join(shown)
