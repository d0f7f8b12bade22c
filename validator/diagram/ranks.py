"""The ranks of a picture: how far each node stands from the start, about as the layout of Graphviz will have it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from stepward.validator.diagram.picture import Box, Edge, Node, holders

if TYPE_CHECKING:
    import networkx

BOX_RANKS: Final = 3
"""Ranks of a box: the bar where its sub-steps start, the sub-steps, the bar where they join."""


def ranks_of(nodes: Sequence[Node | Box], edges: Iterable[Edge]) -> dict[str, int]:
    """Return the rank of each node or box by its name: 0 at the start, then behind the farthest node that leads there.

    A label takes a rank of its own. Edges that go back in a loop do not count. A node that no edge leads to stands
    just before what follows it.
    """
    import networkx as nx

    holder = holders(nodes)
    graph = nx.DiGraph()
    graph.add_nodes_from(node.name for node in nodes)
    boxes = {node.name for node in nodes if isinstance(node, Box)}
    for edge in edges:
        start, end = holder[edge.start], holder[edge.end]
        needed = (BOX_RANKS if start in boxes else 1) + bool(edge.lines)
        graph.add_edge(start, end, length=max(needed, graph.get_edge_data(start, end, {}).get("length", 0)))
    order = _without_loops(graph)
    ranks = dict.fromkeys(order, 0)
    for name in order:
        for target, found in graph[name].items():
            ranks[target] = max(ranks[target], ranks[name] + found["length"])
    for name in reversed(order):
        if name != nodes[0].name and not graph.in_degree(name):
            below = [ranks[target] - found["length"] for target, found in graph[name].items()]
            ranks[name] = max(min(below, default=max(ranks.values())), 0)
    return ranks


def _without_loops(graph: networkx.DiGraph) -> list[str]:
    """Remove the edges that go back in a loop, and return the nodes, each before those that follow it."""
    import networkx as nx

    done: dict[str, None] = {}
    back = []
    for start, end, kind in nx.dfs_labeled_edges(graph):
        if kind == "reverse":
            done[end] = None
        elif kind == "nontree" and end not in done:
            back.append((start, end))
    graph.remove_edges_from(back)
    return list(reversed(done))
