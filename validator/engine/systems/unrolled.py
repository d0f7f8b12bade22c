"""Systems without cycles that have the first rounds of the loops of another: a path of theirs is one of the other."""

from __future__ import annotations

from dataclasses import replace

import networkx as nx

from stepward.validator.engine.systems.system import BAD, ENTRY, Edge, System


def unrolled(system: System, rounds: int) -> System:
    """Return a system with `rounds` copies of each node; an edge that leads back enters the next copy.

    Its paths to BAD are those of the system with fewer than `rounds` edges that lead back.
    """
    back = _back(system)
    count = len(system.edges)

    def copied(edge: Edge, node: int, number: int) -> Edge | None:
        later = number + ((node, edge.target) in back)
        if later == rounds:
            return None
        return edge if edge.target == BAD else edge._replace(target=edge.target + later * count)

    edges = tuple(
        tuple(copy for edge in outgoing if (copy := copied(edge, node, number)) is not None)
        for number in range(rounds)
        for node, outgoing in enumerate(system.edges)
    )
    return replace(system, edges=edges)


def _back(system: System) -> set[tuple[int, int]]:
    """Return edges without which there is no cycle: those that lead back in a depth-first search."""
    edges: set[tuple[int, int]] = set()
    open_: set[int] = set()
    for source, target, kind in nx.dfs_labeled_edges(system.digraph, ENTRY):
        if kind == "forward" and source != target:
            open_.add(target)
        elif kind == "forward":
            open_.add(source)
        elif kind == "reverse":
            open_.discard(target)
        elif target in open_:
            edges.add((source, target))
    return edges
