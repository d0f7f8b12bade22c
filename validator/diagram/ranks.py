"""The ranks of a picture: how far each node stands from the start, about as the layout of Graphviz will have it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from stepward.validator.diagram.picture import Box, Edge, Node, holders

BOX_RANKS: Final = 3
"""Ranks of a box: the bar where its sub-steps start, the sub-steps, the bar where they join."""


def ranks_of(nodes: Sequence[Node | Box], edges: Iterable[Edge]) -> dict[str, int]:
    """Return the rank of each node or box by its name: 0 at the start, then behind the farthest node that leads there.

    A label takes a rank of its own. Edges that go back in a loop do not count. A node that no edge leads to stands
    just before what follows it.
    """
    holder = holders(nodes)
    after: dict[str, list[str]] = {node.name: [] for node in nodes}
    length: dict[tuple[str, str], int] = {}
    boxes = {node.name for node in nodes if isinstance(node, Box)}
    for edge in edges:
        start, end = holder[edge.start], holder[edge.end]
        after[start].append(end)
        needed = (BOX_RANKS if start in boxes else 1) + bool(edge.lines)
        length[start, end] = max(needed, length.get((start, end), 0))
    order, forward = _ordered(after)
    ranks = dict.fromkeys(order, 0)
    entered = {nodes[0].name}
    for name in order:
        for target in forward[name]:
            ranks[target] = max(ranks[target], ranks[name] + length[name, target])
            entered.add(target)
    for name in reversed(order):
        if name not in entered:
            below = [ranks[target] - length[name, target] for target in forward[name]]
            ranks[name] = max(min(below, default=max(ranks.values())), 0)
    return ranks


def _ordered(after: dict[str, list[str]]) -> tuple[list[str], dict[str, list[str]]]:
    """Return the nodes, each before those that follow it, and what follows each without the edges that go back."""
    done: list[str] = []
    forward: dict[str, list[str]] = {name: [] for name in after}
    state: dict[str, bool] = {}
    for root, following in after.items():
        if root in state:
            continue
        state[root] = True
        stack: list[tuple[str, Iterator[str]]] = [(root, iter(following))]
        while stack:
            name, rest = stack[-1]
            target = next(rest, None)
            if target is None:
                state[name] = False
                done.append(name)
                stack.pop()
            elif target not in state:
                forward[name].append(target)
                state[target] = True
                stack.append((target, iter(after[target])))
            elif not state[target]:
                forward[name].append(target)
    return done[::-1], forward
