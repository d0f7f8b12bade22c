"""Makes edits of a text."""

from __future__ import annotations

from collections.abc import Sequence

from stepward.validator.findings import Edit
from stepward.vm.reading.source import LineIndex

Change = tuple[int, int, str]
"""The offsets of a part of a text, and its replacement."""


def apply_edits(text: str, edits: Sequence[Edit]) -> str:
    """Return a text with edits made; they must not overlap."""
    lines = LineIndex(text)
    changes = sorted(
        (lines.offset(e.span.line, e.span.column), lines.offset(e.span.end_line, e.span.end_column), e.text)
        for e in edits
    )
    return apply_changes(text, changes)


def apply_changes(text: str, changes: Sequence[Change]) -> str:
    """Return a text with changes made; they are in the order of the text, and must not overlap."""
    parts, done = [], 0
    for start, end, new in changes:
        assert done <= start, "edits overlap"
        parts += [text[done:start], new]
        done = end
    return "".join([*parts, text[done:]])
