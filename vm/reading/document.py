"""A document: the data of one program or policy, and the mapping from locations in the data to the text."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from stepward.vm.errors import Problem
from stepward.vm.reading.quoting import Style, offsets_in_text, width
from stepward.vm.reading.source import LineIndex, Path, Place, Span

Format = Literal["yaml", "json", "python", "lisp"]


@dataclass(frozen=True, slots=True)
class Extent:
    """The offsets of a value and its key in the text; `style` says how a text value is written."""

    start: int
    end: int
    key: tuple[int, int] | None = None
    style: Style | None = None


class PathTree(dict[str | int, "PathTree"]):
    """A tree of the paths that are looked for, so that a locator can skip everything else."""

    @classmethod
    def of(cls, paths: Iterable[Path]) -> PathTree:
        """Build the tree of `paths`."""
        root = cls()
        for path in paths:
            node = root
            for part in path:
                node = node.setdefault(part, cls())
        return root


Locator = Callable[[PathTree], dict[Path, Extent]]
"""Finds the extents of the wanted paths. It parses the text again, so it is called only if something is reported."""


@dataclass(frozen=True, eq=False)
class Document:
    """One document of a file: its data as plain values, and the problems that its reader found."""

    name: str
    text: str
    format: Format
    data: Any
    locator: Locator = field(repr=False)
    problems: tuple[Problem, ...] = ()
    file: str | None = None
    """The path of the file from which it was read; None for a text, which can name no other files."""

    def locate(self, places: Iterable[Place]) -> dict[Place, Span]:
        """Return the span of each location; for one without a text of its own, the span of the nearest parent."""
        places = list(dict.fromkeys(places))
        if not places:
            return {}
        extents = self.locator(PathTree.of(place.path for place in places))
        lines = LineIndex(self.text)
        written: dict[Path, list[int] | None] = {}  # offsets are computed once for all locations in a text
        return {place: lines.span(*self._offsets(place, extents, written)) for place in places}

    def _offsets(
        self, place: Place, extents: dict[Path, Extent], written: dict[Path, list[int] | None]
    ) -> tuple[int, int]:
        path = place.path
        while path and path not in extents:
            path = path[:-1]
        extent = extents.get(path, Extent(0, 0))
        if place.key or path != place.path:
            return extent.key or self._first_line(extent)
        if place.within is not None and extent.style is not None:
            if place.path not in written:
                written[place.path] = self._written(place.path, extent)
            inner = self._inner(place, extent, written[place.path])
            if inner is not None:
                return inner
        return self._first_line(extent)

    def _written(self, path: Path, extent: Extent) -> list[int] | None:
        """Return the offset of each code point of a text value, and of its end; None if they can't be determined."""
        value = self.data
        for part in path:
            value = value[part]
        assert extent.style is not None
        if not isinstance(value, str):
            return None
        return offsets_in_text(self.text, extent.start, extent.end, extent.style, value)

    def _inner(self, place: Place, extent: Extent, offsets: list[int] | None) -> tuple[int, int] | None:
        assert place.within is not None
        assert extent.style is not None
        if offsets is None:
            return None
        start, end = (min(point, len(offsets) - 1) for point in place.within)
        if start == end:
            return offsets[start], offsets[start]
        return offsets[start], offsets[end - 1] + width(self.text, offsets[end - 1], extent.style)

    def _first_line(self, extent: Extent) -> tuple[int, int]:
        """Cut an extent to its first line, because a finding should not mark a whole screen."""
        stretch = self.text[extent.start : extent.end]
        return extent.start, extent.start + len(stretch.split("\n", 1)[0].rstrip())
