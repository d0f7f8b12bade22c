"""Questions about `lower`, `upper` and `trim` of a text: which texts give them which answer.

Written from the language's page: a change of case gives one code point for each, and leaves white space as it is. So
only the question whether `trim` is called matters, and not when.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Final

from stepward.vm.expressions.letters import WHITE_SPACE, lower, upper

CHANGES: Final[dict[str, Callable[[str], str]]] = {
    "lower": lower,
    "upper": upper,
    "trim": lambda text: text.strip(WHITE_SPACE),
}
"""The functions that change a text."""

BEYOND: Final = 0x20000
"""No code point from here on has another case."""

Span = tuple[int, int]


def applied(calls: Iterable[str], text: str) -> str:
    """Return a text after some calls; the last call is the first of the list."""
    for call in reversed(list(calls)):
        text = CHANGES[call](text)
    return text


@lru_cache(maxsize=4096)
def sources(spans: tuple[Span, ...], calls: tuple[str, ...]) -> tuple[Span, ...]:
    """Return the code points that become one of these, as spans."""
    spans_before = list(spans)
    for call in calls:
        if call != "trim":
            moved = _moved(call)
            inside = [code for code, to in moved if any(low <= to <= high for low, high in spans_before)]
            spans_before = [*_without(spans_before, [code for code, _ in moved]), *((code, code) for code in inside)]
    return tuple(_merged(spans_before))


@lru_cache(maxsize=2)
def _moved(call: str) -> list[tuple[int, int]]:
    """Return the code points that a call changes, in order, with what they become."""
    codes = [code for code in range(BEYOND) if not 0xD800 <= code <= 0xDFFF]
    after = CHANGES[call]("".join(map(chr, codes)))
    return [(code, ord(char)) for code, char in zip(codes, after, strict=True) if code != ord(char)]


def _without(spans: Iterable[Span], codes: Sequence[int]) -> Iterator[Span]:
    """Yield the spans without some code points, which are in order."""
    for low, high in spans:
        start = low
        for code in codes:
            if start <= code <= high:
                if start < code:
                    yield start, code - 1
                start = code + 1
        if start <= high:
            yield start, high


def _merged(spans: Iterable[Span]) -> Iterator[Span]:
    """Yield spans in order, those that touch as one."""
    last: Span | None = None
    for low, high in sorted(spans):
        if last is not None and low <= last[1] + 1:
            last = last[0], max(last[1], high)
            continue
        if last is not None:
            yield last
        last = low, high
    if last is not None:
        yield last
