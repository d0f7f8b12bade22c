"""A persistent vector: a change makes a new version and leaves the old ones intact."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

WIDTH: Final = 32
"""Slots per chunk. A change copies one chunk and the tuple of chunks, which is cheap up to some ten thousand slots."""


class _Undefined:
    """The content of a slot without a value."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "UNDEFINED"

    def __bool__(self) -> bool:
        return False

    def __reduce__(self) -> str:
        return "UNDEFINED"


UNDEFINED: Final = _Undefined()

Slots = tuple[tuple[Any, ...], ...]
"""Chunks of slots."""


def empty(size: int) -> Slots:
    """Return `size` undefined slots."""
    chunk = (UNDEFINED,) * WIDTH
    return (chunk,) * ((size + WIDTH - 1) // WIDTH)


def get(slots: Slots, index: int) -> Any:
    """Return the content of a slot."""
    return slots[index // WIDTH][index % WIDTH]


def put(slots: Slots, changes: Iterable[tuple[int, Any]]) -> Slots:
    """Return the slots with some contents replaced."""
    if len(slots) == 1:  # most programs
        chunk = list(slots[0])
        for index, value in changes:
            chunk[index] = value
        return (tuple(chunk),)
    result = list(slots)
    edited, chunk = -1, []
    for index, value in changes:
        number = index // WIDTH
        if number != edited:  # most changes are those of one step, whose slots are beside each other
            if chunk:
                result[edited] = tuple(chunk)
            edited, chunk = number, list(result[number])
        chunk[index % WIDTH] = value
    if chunk:
        result[edited] = tuple(chunk)
    return tuple(result)
