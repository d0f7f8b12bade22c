"""The paths into values that expressions read: what the machine asks of a value of which nothing is declared."""

from __future__ import annotations

from stepward.vm.expressions.fields import ITEMS
from stepward.vm.language.names import Source

Location = tuple[Source, tuple[str, ...]]


class ReadPaths:
    """The locations that expressions read, or test by `defined`."""

    def __init__(self) -> None:
        self._below: dict[Source, set[tuple[str, ...]]] = {}
        self._only_asked: set[Location] = set()

    def note(self, location: Location, *, asked_only: bool) -> None:
        """Note that a location is read, with all that has it, or only tested by `defined`."""
        source, path = location
        self._below.setdefault(source, set()).update(path[: depth + 1] for depth in range(len(path)))
        if asked_only and path:
            self._only_asked.add(location)

    def has(self, location: Location) -> bool:
        """Return whether a location is read, or tested by `defined`."""
        return location[1] in self._below.get(location[0], ())

    def is_only_asked(self, location: Location) -> bool:
        """Return whether some test by `defined` says that a field may be absent."""
        return location in self._only_asked

    def fields(self, location: Location) -> list[str]:
        """Return the names below a location that are read or tested, in order; `[]` stands for all items."""
        source, path = location
        depth = len(path)
        return sorted({one[depth] for one in self._below.get(source, ()) if len(one) > depth and one[:depth] == path})

    def asked_of(self, location: Location) -> tuple[str, ...]:
        """Return the fields that the machine asks of an object from outside, in order."""
        source, path = location
        names = (name for name in self.fields(location) if name != ITEMS)
        return tuple(name for name in names if (source, (*path, name)) not in self._only_asked)
