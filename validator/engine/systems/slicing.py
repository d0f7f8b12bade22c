"""Slicing: the relevant nodes of a graph, and for every other node the next relevant one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

GONE: Final = -2
"""Stands for a target from which nothing relevant follows."""

UNSET: Final = -3
"""The next node of a node that reaches no relevant node."""


def next_nodes(
    size: int, relevant: set[int], targets: Callable[[int], Sequence[int]], before: Sequence[Sequence[int]]
) -> list[int]:
    """Return for every node the next relevant node; adds to `relevant` the nodes with several next nodes.

    Each node starts with UNSET, takes the next node of its targets, and becomes relevant itself where these differ.
    That is never undone, so the loop ends. `targets` are nodes, or GONE; `before` are the predecessors of each node.
    """
    next_node = [UNSET] * size
    for number in relevant:
        next_node[number] = number
    queued = bytearray(size)
    pending = sorted({predecessor for number in relevant for predecessor in before[number]}, reverse=True)
    for number in pending:
        queued[number] = 1
    while pending:
        number = pending.pop()
        queued[number] = 0
        if next_node[number] == number:
            continue
        ahead = targets(number)
        if len(ahead) == 1 and ahead[0] != GONE:
            value = next_node[ahead[0]]
        else:
            following = {target if target == GONE else next_node[target] for target in ahead} - {UNSET}
            if len(following) > 1:
                relevant.add(number)
            value = number if len(following) > 1 else following.pop() if following else UNSET
        if value < 0 or value == next_node[number]:
            continue
        next_node[number] = value
        for predecessor in before[number]:
            if not queued[predecessor]:
                queued[predecessor] = 1
                pending.append(predecessor)
    return next_node
