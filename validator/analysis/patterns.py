"""Whether a text can be held against a `pattern` without waiting for ever.

Python's search goes back and tries again: `^(a+)+$` has two ways on at each letter, and forty of them take days.
Nothing stops it on its way. So the ways that it might try are counted before, all of them at once: a part of the
pattern is passed from every place in the text that some way leads to.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from importlib import import_module
from typing import Any, Final

from stepward.vm.language.types import TypeSpec, refusal

MAX_TRIES: Final = 1_000_000
"""Places at which a search may try a part of a pattern: a fraction of a second."""

MAX_LENGTH: Final = 2_000
"""Code points of a text that is held against a pattern."""

Ways = Mapping[int, int]
"""How many ways lead to each place in a text."""


def is_quick(pattern: str, text: str) -> bool:
    """Return whether a search for a pattern in a text is over soon."""
    if len(text) > MAX_LENGTH:
        return False
    tree = import_module("re._parser").parse(pattern)
    try:
        _Search(text).sequence(tree, dict.fromkeys(range(len(text) + 1), 1))
    except _TooMany:
        return False
    return True


def can_be_asked(value: Any, spec: TypeSpec | None) -> bool:
    """Return whether it is soon known whether a value is of a type."""
    if spec is None:
        return True
    if isinstance(value, str):
        return spec.pattern is None or is_quick(spec.pattern, value)
    if isinstance(value, Mapping):
        known, rest = spec.properties or {}, spec.additional_properties
        other = rest if isinstance(rest, TypeSpec) else None
        return all(can_be_asked(item, known.get(name, other)) for name, item in value.items())
    return not isinstance(value, tuple | list) or all(can_be_asked(item, spec.items) for item in value)


def patterns_of(spec: TypeSpec | None) -> Iterator[str]:
    """Yield the patterns of a type and of its parts."""
    if spec is None:
        return
    if spec.pattern is not None:
        yield spec.pattern
    rest = spec.additional_properties
    parts = [spec.items, *(spec.properties or {}).values(), rest if isinstance(rest, TypeSpec) else None]
    for part in parts:
        yield from patterns_of(part)


def is_seen_to_fit(value: Any, spec: TypeSpec | None) -> bool:
    """Return whether a value is of a type, and that is soon known."""
    return spec is None or (can_be_asked(value, spec) and refusal(value, spec) is None)


class _TooMany(Exception):  # noqa: N818 - never seen outside this file
    pass


class _Search:
    """Counts the tries of a search: of what is no literal, as if every character would do."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tries = 0

    def sequence(self, parts: Iterable[tuple[Any, Any]], ways: Ways) -> Ways:
        """Return the ways past parts of a pattern; raises _TooMany."""
        for operator, argument in parts:
            self.tries += sum(ways.values())
            if self.tries > MAX_TRIES:
                raise _TooMany
            ways = self._part(str(operator), argument, ways)
        return ways

    def _part(self, operator: str, argument: Any, ways: Ways) -> Ways:
        match operator:
            case "AT":
                return {at: count for at, count in ways.items() if self._may_be_at(str(argument), at)}
            case "LITERAL":
                return self._taken(ways, chr(argument))
            case "MAX_REPEAT" | "MIN_REPEAT" | "POSSESSIVE_REPEAT":
                low, high, inner = argument
                return self._repeated(low, high, inner, ways)
            case "SUBPATTERN":
                return self.sequence(argument[-1], ways)
            case "ATOMIC_GROUP":
                return self.sequence(argument, ways)
            case "ASSERT" | "ASSERT_NOT":
                self.sequence(argument[1], ways)
                return ways
            case "BRANCH":
                return _together(self.sequence(branch, ways) for branch in argument[1])
            case "GROUPREF_EXISTS":
                return _together(self.sequence(branch or (), ways) for branch in argument[1:])
            case "GROUPREF" | "GROUPREF_IGNORE":
                return _together({to: count} for at, count in ways.items() for to in range(at, len(self.text) + 1))
        return self._taken(ways)

    def _taken(self, ways: Ways, sign: str | None = None) -> Ways:
        """Return the ways past one character; upper and lower case are the same here."""
        wanted = sign.casefold() if sign is not None else None
        return {
            at + 1: count
            for at, count in ways.items()
            if at < len(self.text) and wanted in (None, self.text[at].casefold())
        }

    def _may_be_at(self, where: str, at: int) -> bool:
        return "BEGINNING" not in where or at == 0 or self.text[at - 1] == "\n"

    def _repeated(self, low: int, high: int, inner: Any, ways: Ways) -> Ways:
        found: Counter[int] = Counter()
        for number in range(min(high, low + len(self.text)) + 1):
            if number >= low:
                found.update(ways)
            if not ways:
                break
            ways = self.sequence(inner, ways)
        return found


def _together(branches: Iterable[Ways]) -> Ways:
    found: Counter[int] = Counter()
    for branch in branches:
        found.update(branch)
    return found
