"""Writes values as Lisp text, as `pr-str` and `str` do. What is written is counted before it is made."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any, Final

from stepward.vm.lisp.limits import Meter
from stepward.vm.lisp.streams import Endless, refused
from stepward.vm.lisp.values import Items, Keyword, Map, Regex, Set, Var, Vector, unwrapped

_ESCAPES: Final = str.maketrans(
    {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r", "\b": "\\b", "\f": "\\f"}
)
_CHUNK: Final = 4_096
"""Characters of a text that are written at once, so that the text is never longer than what was counted."""


class Writer:
    """Writes values into one text; with `most` characters it stops there.

    With `hides`, the entries of maps whose keys begin with it are left out.
    """

    def __init__(self, meter: Meter, most: int | None = None, hides: str = "") -> None:
        self._meter = meter
        self._most = most
        self._hides = hides
        self._parts: list[str] = []
        self._length = 0

    def add(self, part: str) -> None:
        """Add text; raises a Fault when there is no room for it."""
        self._length += len(part)
        if self._most is None:
            self._meter.step()
            # Twice: the parts, and the text that is made of them.
            self._meter.expect(2 * self._length, f"a text of {self._length} characters")
        self._parts.append(part)

    def text(self) -> str:
        """Return what was written."""
        return "".join(self._parts)

    def shortened(self, value: Any) -> str:
        """Return the beginning of a value, with `…` where the rest is left out."""
        assert self._most is not None, "only a text with a limit is shortened"
        for part in parts(value, readable=True, hides=self._hides):
            self.add(part)
            if self._length > self._most:
                return self.text()[: self._most] + "…"
        return self.text()

    def write(self, value: Any, *, readable: bool) -> None:
        """Write a value: `readable` as it stands in a program, else a text without quotes and nil as nothing."""
        for part in parts(value, readable=readable, hides=self._hides):
            self.add(part)


def parts(value: Any, *, readable: bool, hides: str = "") -> Iterator[str]:
    """Return the parts of a value's text, as a Writer writes them. Values are at most MAX_DEPTH levels deep."""
    if not readable and (value is None or isinstance(value, str)):
        yield value or ""
    elif not readable and isinstance(value, Regex):
        yield value.source
    elif isinstance(value, str) and len(value) > _CHUNK:
        yield '"'
        for start in range(0, len(value), _CHUNK):
            yield value[start : start + _CHUNK].translate(_ESCAPES)
        yield '"'
    elif isinstance(value, Endless):
        raise refused("str")
    elif isinstance(value, Items):
        yield from _sequence("[]" if isinstance(value, Vector) else "()", value, hides)
    elif isinstance(value, Map):
        yield from _entries(value, hides)
    elif isinstance(value, Set):
        yield from _sequence("#{}", (unwrapped(member) for member in value.members), hides)
    else:
        yield scalar(value)


def scalar(value: Any) -> str:
    """Return the text of a value without parts, as it stands in a program."""
    if value is None:
        return "nil"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f'"{value.translate(_ESCAPES)}"'
    if isinstance(value, int | Decimal):
        return digits(value)
    if isinstance(value, Keyword):
        return f":{value.name}"
    if isinstance(value, Regex):
        return f'#"{value.source}"'
    if isinstance(value, Var):
        return f"#'user/{value.name}"
    return f"#<{getattr(value, 'name', '') or 'function'}>"


def digits(number: int | Decimal) -> str:
    """Return a number in plain digits."""
    return format(number if isinstance(number, Decimal) else Decimal(number), "f")


def _sequence(signs: str, items: Any, hides: str) -> Iterator[str]:
    yield signs[:-1]
    separator = ""
    for item in items:
        if separator:
            yield separator
        separator = " "
        yield from parts(item, readable=True, hides=hides)
    yield signs[-1]


def _entries(value: Map, hides: str) -> Iterator[str]:
    yield "{"
    separator = ""
    for key, item in value.items():
        if (
            hides
            and isinstance(key, str | Keyword)
            and (key.name if isinstance(key, Keyword) else key).startswith(hides)
        ):
            continue
        if separator:
            yield separator
        separator = ", "
        yield from parts(key, readable=True, hides=hides)
        yield " "
        yield from parts(item, readable=True, hides=hides)
    yield "}"
