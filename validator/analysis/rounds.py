"""Loops one after another, each of which may take one round more or less: what they do multiplies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from stepward.validator.analysis.reachability import reached

FREE: Final = 3
"""The visits with which a step hinders no round: one on the way into its loop, one in the loop, one on the way out."""


def loops_in_a_row(following: Mapping[int, Sequence[int]] | Sequence[Sequence[int]], bounds: Mapping[int, int]) -> int:
    """Return the most loops on one path from the first step that can each be left after one round more or less.

    `following` are the steps after each step, `bounds` the most visits of the steps that have such a bound. Each of
    the loops has a bounded step, so n of them have 2 ** n different counts of visits behind the last one.
    """
    import networkx

    graph: networkx.DiGraph[int] = networkx.DiGraph()
    graph.add_nodes_from(reached([0], following.__getitem__))
    graph.add_edges_from((step, to) for step in graph for to in following[step])
    most: dict[int, int] = {}
    for component in networkx.strongly_connected_components(graph):  # after all components that it leads to
        ahead = [most[to] for step in component for to in following[step] if to not in component]
        is_loop = any(to in component for step in component for to in following[step])
        counts = [bounds[step] for step in component if step in bounds]
        is_free = is_loop and bool(counts) and min(counts) >= FREE
        most.update(dict.fromkeys(component, max(ahead, default=0) + is_free))
    return most[0]
