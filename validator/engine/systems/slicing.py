"""Slicing: which places of a graph matter, and for every other node the one place that comes next."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

GONE: Final = -2
"""Stands for where a path leads that does not matter any more."""

UNSET: Final = -3
"""The place of a node from which no place can be reached."""


def next_places(
    size: int, kept: set[int], targets: Callable[[int], Sequence[int]], before: Sequence[Sequence[int]]
) -> list[int]:
    """Return for every node the next place, and add to `kept` the nodes whose ways lead to different ones.

    Each node starts without one, takes that of its targets, and becomes a place itself where two meet: this is never
    taken back, so it ends. `targets` are nodes, or GONE; `before` are the nodes that lead to each.
    """
    place = [UNSET] * size
    for number in kept:
        place[number] = number
    queued = bytearray(size)
    pending = sorted({one for number in kept for one in before[number]}, reverse=True)
    for number in pending:
        queued[number] = 1
    while pending:
        number = pending.pop()
        queued[number] = 0
        while place[number] != number:
            ways = targets(number)
            if len(ways) == 1:  # most nodes of a large program
                value = ways[0] if ways[0] == GONE else place[ways[0]]
            else:
                found = {target if target == GONE else place[target] for target in ways} - {UNSET}
                if len(found) > 1:
                    kept.add(number)
                value = number if len(found) > 1 else found.pop() if found else UNSET
            if value < 0 or value == place[number]:
                break
            place[number] = value
            earlier = before[number]
            if len(earlier) == 1 and not queued[earlier[0]]:  # the next to be looked at, as if it were queued
                number = earlier[0]
                continue
            for one in earlier:
                if not queued[one]:
                    queued[one] = 1
                    pending.append(one)
            break
    return place
