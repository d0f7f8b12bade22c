"""The fields of the objects of a certificate, each read once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

from stepward.validator.recheck.refusals import Refused

T = TypeVar("T")


class Fields:
    """One object of a certificate; `close` refuses the fields that were not read."""

    def __init__(self, data: Any, what: str) -> None:
        if not isinstance(data, dict):
            raise Refused(f"{what} is no object")
        self.data = data
        self.label = what
        self.names_read: set[str] = set()

    def any(self, name: str) -> Any:
        """Return a field that may hold any value."""
        if name not in self.data:
            raise Refused(f"{self.label} has no `{name}`")
        self.names_read.add(name)
        return self.data[name]

    def _of(self, kind: type[T], name: str, is_not: str) -> T:
        value = self.any(name)
        if type(value) is not kind:
            raise Refused(f"`{name}` of {self.label} is {is_not}")
        return value

    def text(self, name: str) -> str:
        """Return a field that holds text."""
        return self._of(str, name, "no text")

    def maybe(self, name: str) -> str | None:
        """Return a field that holds text, or None if it is absent."""
        return None if self.data.get(name) is None else self.text(name)

    def flag(self, name: str) -> bool:
        """Return a field that holds true or false; false if it is absent."""
        return self.data.get(name) is not None and self._of(bool, name, "neither true nor false")

    def whole(self, name: str) -> int:
        """Return a field that holds a whole number."""
        return self._of(int, name, "no whole number")

    def list(self, name: str) -> list[Any]:
        """Return a field that holds a list; an empty list if it is absent."""
        return [] if self.data.get(name) is None else self._of(list, name, "no list")

    def objects(self, name: str) -> Iterator[Fields]:
        """Yield the objects of a list."""
        return (Fields(one, f"`{name}[{number}]` of {self.label}") for number, one in enumerate(self.list(name)))

    def numbers(self, name: str) -> Iterator[int]:
        """Yield the whole numbers of a list."""
        for value in self.list(name):
            if type(value) is not int:
                raise Refused(f"`{name}` of {self.label} holds what is no whole number")
            yield value

    def costs(self, name: str) -> Iterator[tuple[int, Any]]:
        """Yield pairs of a cost and the states with that cost."""
        for entry in self.list(name):
            if not (isinstance(entry, list) and len(entry) == 2 and type(entry[0]) is int and entry[0] >= 0):
                raise Refused(f"`{name}` of {self.label} holds what is no cost with states")
            yield entry[0], entry[1]

    def close(self) -> None:
        """Refuse the fields that were not read."""
        left = sorted(name for name in self.data if name not in self.names_read and self.data[name] is not None)
        if left:
            raise Refused(f"{self.label} has a field `{left[0]}` that no certificate has")
