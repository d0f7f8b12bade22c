"""Slicing: the relevant nodes of a graph, and for every other node the next relevant one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

GONE: Final = -2
"""Stands for a target from which nothing relevant follows."""

UNSET: Final = -3
"""The next node of a node that reaches no relevant node."""


def next_places(
    size: int, kept: set[int], targets: Callable[[int], Sequence[int]], before: Sequence[Sequence[int]]
) -> list[int]:
    """Return for every node the next relevant node; adds to `kept` the nodes with several next nodes.

    Each node starts with UNSET, takes the next node of its targets, and becomes relevant itself where these differ.
    That is never undone, so the loop ends. `targets` are nodes, or GONE; `before` are the predecessors of each node.
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
            if len(earlier) == 1 and not queued[earlier[0]]:  # process it next, without the queue
                number = earlier[0]
                continue
            for one in earlier:
                if not queued[one]:
                    queued[one] = 1
                    pending.append(one)
            break
    return place
