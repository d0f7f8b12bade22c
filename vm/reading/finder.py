"""Collects the locations of values while a reader of any format goes through a text."""

from __future__ import annotations

from dataclasses import dataclass

from stepward.vm.reading.document import Extent, PathTree
from stepward.vm.reading.quoting import Style
from stepward.vm.reading.source import Path


@dataclass(slots=True)
class _Level:
    """An open mapping or list; `next` is the key or position of its next value, None before a key."""

    paths: PathTree | None
    path: Path
    start: int
    key: tuple[int, int] | None
    next: str | int | None
    next_key: tuple[int, int] | None = None


class Finder:
    """Collects the extents of wanted paths in `found`. The reader calls it for keys and values in the order of text."""

    def __init__(self, paths: PathTree) -> None:
        self.found: dict[Path, Extent] = {}
        self._paths = paths
        self._levels: list[_Level] = []

    @property
    def expects_key(self) -> bool:
        """Whether the next token is a key or the end of a mapping."""
        return bool(self._levels) and self._levels[-1].next is None

    def wants(self, key: str) -> bool:
        """Return whether anything under a key is wanted; a reader may pass over it otherwise."""
        paths = self._levels[-1].paths
        return paths is not None and key in paths

    def key(self, key: str, start: int, end: int) -> None:
        """Note the key of the next value."""
        self._levels[-1].next, self._levels[-1].next_key = key, (start, end)

    def scalar(self, start: int, end: int, style: Style | None) -> None:
        """Note a value that holds no other."""
        paths, path, key = self._value()
        if paths is not None:
            self.found[path] = Extent(start, end, key, style)

    def begin(self, start: int, *, is_mapping: bool) -> bool:
        """Note the start of a mapping or list; return whether anything in it is wanted."""
        paths, path, key = self._value()
        self._levels.append(_Level(paths, path, start, key, None if is_mapping else 0))
        return paths is not None

    def end(self, end: int) -> None:
        """Note the end of the mapping or list that was begun last."""
        level = self._levels.pop()
        if level.paths is not None:
            self.found[level.path] = Extent(level.start, end, level.key)

    def _value(self) -> tuple[PathTree | None, Path, tuple[int, int] | None]:
        """Return the wanted paths in the next value, its path, and the extent of its key."""
        if not self._levels:
            return self._paths, (), None
        top = self._levels[-1]
        at = top.next
        assert at is not None, "a key comes before a value"
        top.next = at + 1 if isinstance(at, int) else None
        if top.paths is None or at not in top.paths:
            return None, (), None
        return top.paths[at], (*top.path, at), top.next_key
