"""Sets of characters in patterns: ranges of code points, named classes, and upper and lower case."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

LAST: Final = 0x10FFFF
SURROGATES: Final = (0xD800, 0xDFFF)
"""Code points that no text may contain."""

Ranges = tuple[tuple[int, int], ...]
"""Pairs of a first and a last code point, both included: ascending, not adjacent, without surrogates."""


def ranges_of(spans: Iterable[tuple[int, int]]) -> Ranges:
    """Return the union of spans of code points: ascending, not adjacent, without surrogates."""
    found: list[tuple[int, int]] = []
    for low, high in sorted(_without_surrogates(spans)):
        if found and low <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(found[-1][1], high))
        else:
            found.append((low, high))
    return tuple(found)


def _without_surrogates(spans: Iterable[tuple[int, int]]) -> Iterable[tuple[int, int]]:
    first, last = SURROGATES
    for low, high in spans:
        yield from (part for part in ((low, min(high, first - 1)), (max(low, last + 1), high)) if part[0] <= part[1])


def complement(ranges: Ranges) -> Ranges:
    """Return the characters that are not in a set."""
    starts = [0, *(high + 1 for _, high in ranges)]
    ends = [*(low - 1 for low, _ in ranges), LAST]
    return ranges_of((low, high) for low, high in zip(starts, ends, strict=True) if low <= high)


def _set_of(signs: str) -> Ranges:
    """Return the set that is written as pairs of first and last characters."""
    return ranges_of((ord(first), ord(last)) for first, last in zip(signs[::2], signs[1::2], strict=True))


CLASSES: Final = {"d": _set_of("09"), "s": _set_of("\t\n\f\r  "), "w": _set_of("09AZ__az")}
POSIX: Final = {
    "alnum": _set_of("09AZaz"),
    "alpha": _set_of("AZaz"),
    "ascii": ((0, 0x7F),),
    "blank": _set_of("\t\t  "),
    "cntrl": ((0, 0x1F), (0x7F, 0x7F)),
    "digit": _set_of("09"),
    "graph": _set_of("!~"),
    "lower": _set_of("az"),
    "print": _set_of(" ~"),
    "punct": _set_of("!/:@[`{~"),
    "space": _set_of("\t\r  "),
    "upper": _set_of("AZ"),
    "word": _set_of("09AZ__az"),
    "xdigit": _set_of("09AFaf"),
}
SIGNS: Final = {"a": "\a", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_OTHER_CASES: Final = {"k": "\u212a", "s": "\u017f"}
"""The characters beyond ASCII whose other case is an ASCII letter: the Kelvin sign and the long s."""


def folded(ranges: Ranges) -> Ranges | None:
    """Return a set with the other case of its letters added; None if it has characters beyond ASCII."""
    if any(high > 0x7F for _, high in ranges):
        return None
    found = list(ranges)
    for small in range(ord("a"), ord("z") + 1):
        forms = {small, small - 32}
        if chr(small) in _OTHER_CASES:
            forms.add(ord(_OTHER_CASES[chr(small)]))
        if any(low <= form <= high for form in forms for low, high in ranges):
            found += [(form, form) for form in forms]
    return ranges_of(found)
