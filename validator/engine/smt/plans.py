"""Plans: a graph without cycles with a representative for every path of a system to BAD.

A node is entered by edges of the system. Where a loop can be entered, the plan forgets: the roots that the loop assigns
may have any value there, and no edge leads back. A loop with several entry nodes (an irreducible one) is entered at
each of them by every edge that comes into the loop. What a run did between two entries is forgotten as well; a rule
that considers only the edges into one entry would lose the paths through the others.

Every path has a representative. If it enters a loop, take its last visit to an entry of that loop: roots that the loop
does not assign have their values from before the loop, the other roots may have any value, and from there on the path
takes no edge that was cut. Inner loops are cut in the same manner, until none is left.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple

import networkx as nx

from stepward.validator.engine.systems.system import BAD, ENTRY, System
from stepward.validator.engine.values.domains import Names, is_saved, real


class EdgeId(NamedTuple):
    """An edge, by its source node and its position there; START is where paths begin."""

    node: int
    position: int


START: Final = EdgeId(-1_000_000_000, 0)


@dataclass
class Plan:
    """Nodes in topological order, the edges into each, and the roots that each forgets.

    `back` has the edges by which a round of a loop ends; a loop with several entries has none there.
    """

    order: list[int]
    incoming: dict[int, list[EdgeId]]
    forgotten: dict[int, frozenset[Names]]
    back: dict[int, list[EdgeId]]


def plan(system: System) -> Plan:
    """Return the plan of a system; it forgets nothing iff no cycle is on a path to BAD."""
    nodes = useful(system)
    incoming: dict[int, list[EdgeId]] = {node: [] for node in sorted(nodes)}
    if ENTRY in nodes:
        incoming[ENTRY].append(START)
    for node in sorted(nodes - {BAD}):
        for position, edge in enumerate(system.edges[node]):
            if edge.target in nodes:
                incoming[edge.target].append(EdgeId(node, position))
    forgotten: dict[int, frozenset[Names]] = {}
    back: dict[int, list[EdgeId]] = {}
    regions = [sorted(nodes - {BAD})]
    while regions:
        for loop in loops(regions.pop(), incoming):
            every = {node: incoming[node] for node in loop}
            heads = _cut(system, loop, incoming, forgotten)
            if len(heads) == 1:
                (head,) = heads
                back[head] = [edge_id for edge_id in every[head] if edge_id.node in every]
            regions.append([node for node in loop if node not in heads])
    return Plan(ordered(incoming), incoming, forgotten, back)


def _cut(
    system: System, loop: list[int], incoming: dict[int, list[EdgeId]], forgotten: dict[int, frozenset[Names]]
) -> set[int]:
    """Cut a loop at its entry nodes, and return them."""
    inside = set(loop)
    entering = {node: [edge_id for edge_id in incoming[node] if edge_id.node not in inside] for node in loop}
    entering = {node: edges for node, edges in entering.items() if edges}
    written = _written(system, inside, incoming)
    for node, into in _redirected(entering).items():
        incoming[node] = into
        forgotten[node] = written
    return set(entering)


def _written(system: System, loop: set[int], incoming: dict[int, list[EdgeId]]) -> frozenset[Names]:
    """Return the roots that the edges of a loop assign, without primed names."""
    return frozenset(
        assign.root
        for node in loop
        for edge_id in incoming[node]
        if edge_id.node in loop
        for assign in system.edges[edge_id.node][edge_id.position].assigns
        if real(assign.root) == assign.root or is_saved(assign.root)
    )


def _redirected(entering: dict[int, list[EdgeId]]) -> dict[int, list[EdgeId]]:
    """Return the edges into each entry node of a loop: every edge from outside leads into each."""
    every = list(dict.fromkeys(edge_id for found in entering.values() for edge_id in found))
    return {node: list(every) for node in entering}


def useful(system: System) -> set[int]:
    """Return the nodes on paths from the entry to BAD, BAD included."""
    graph = system.digraph
    nodes = nx.ancestors(graph, BAD) & ({ENTRY} | nx.descendants(graph, ENTRY)) | {BAD}
    return nodes if ENTRY in nodes else {BAD}


def loops(region: Iterable[int], incoming: dict[int, list[EdgeId]]) -> list[list[int]]:
    """Return the strongly connected components of a region that contain a cycle, each in the order of its nodes."""
    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_nodes_from(region)
    graph.add_edges_from(
        (edge_id.node, node) for node in list(graph) for edge_id in incoming[node] if edge_id.node in graph
    )
    parts = nx.strongly_connected_components(graph)
    return [sorted(part) for part in parts if len(part) > 1 or graph.has_edge(*part, *part)]


def ordered(incoming: dict[int, list[EdgeId]]) -> list[int]:
    """Return the nodes of a graph without cycles in topological order."""
    after: dict[int, list[int]] = {}
    missing: dict[int, int] = {}
    for node, entering in incoming.items():
        missing[node] = sum(edge_id != START for edge_id in entering)
        for edge_id in entering:
            if edge_id != START:
                after.setdefault(edge_id.node, []).append(node)
    ready = [node for node, count in missing.items() if not count]
    order: list[int] = []
    while ready:
        node = ready.pop()
        order.append(node)
        for target in after.get(node, ()):
            missing[target] -= 1
            if not missing[target]:
                ready.append(target)
    assert len(order) == len(incoming), "a cycle was left in a plan"
    return order
