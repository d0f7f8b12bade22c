"""The cheapest path to a declared ending: through all branches, and as many items as lists have at least.

A step with items or branches succeeds after each of them has. So a transition of its success begins at the step and
costs what the cheapest ways through them cost. A path on which one fails goes through that one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from stepward.vm.language.transitions import END, Transition

if TYPE_CHECKING:
    import networkx

    from stepward.validator.analysis.graph import StepGraph

Visits = Mapping[int, int]
"""How often a path comes to each step on it."""


class _Way(NamedTuple):
    """A path: its cost, and how often it comes to each step."""

    cost: int
    visits: Counter[int]


class ShortestPaths:
    """The cheapest paths through one program.

    `cost` gives the cost of a step, and `least` how many items a for_each step has at least.
    """

    def __init__(self, graph: StepGraph, cost: Callable[[int], int], least: Callable[[int], int]) -> None:
        import networkx

        self._flow, self._cost, self._least = graph.flow, cost, least
        self._graph: networkx.DiGraph[int] = networkx.DiGraph()
        self._graph.add_nodes_from(graph.digraph)
        self._graph.add_edges_from((a, b, {"weight": cost(b), "way": None}) for a, b in graph.digraph.edges)
        self._inside: dict[int, _Way | None] = {}
        """The cheapest way through all items or branches of each step that has some; None if there is none."""
        self._stages: set[int] = set()
        """The stages at which these steps succeed."""
        layout = graph.flow.layout
        for owner in sorted({*layout.bodies, *layout.forks}, reverse=True):  # a body is behind those around it
            self._join(owner)

    def to_an_ending(self) -> Visits | None:
        """Return the cheapest path from the entry to a declared ending, or None when there is none.

        Among several paths, the one whose steps come first in the list wins.
        """
        found = self._lengths(self._graph, 0)
        ends = [(length + way.cost, number, way) for number, length in found.items() for way in self._endings(number)]
        if not ends:
            return None
        _, last, way = min(ends, key=lambda one: one[:2])
        return self._visits(self._graph, found, 0, last) + way.visits

    def _endings(self, number: int) -> Iterable[_Way]:
        """Return what a run does from the start of a step to its ending there, for each way to end there."""
        for one in self._flow.transitions[number]:
            if one.to == END and one.is_drawn and not (one.kind == "success" and number in self._stages):
                yield _Way(0, Counter())
        way = self._inside.get(number)
        if way is not None and any(one.to == END for one in self._successes(number)):
            yield way

    def _join(self, owner: int) -> None:
        """Let the success of a step with items or branches begin at the step, if it has some at least."""
        fork = self._flow.layout.forks.get(owner)
        count = self._least(owner) if fork is None else 1
        if not count:
            return
        ways = [self._through(one) for one in (fork.branches if fork is not None else (owner,))]
        known = [way for way in ways if way is not None]
        way = None
        if len(known) == len(ways):
            visits = sum((one.visits for one in known), Counter[int]())
            way = _Way(sum(one.cost for one in known) * count, Counter({one: visits[one] * count for one in visits}))
        self._inside[owner] = way
        stage = self._last_stage(owner)
        self._stages.add(stage)
        others = {one.to for one in self._flow.transitions[stage] if one.kind != "success"}
        for to in {one.to for one in self._successes(owner) if one.to >= 0}:
            if to not in others:
                self._graph.remove_edge(stage, to)
            weight = None if way is None else way.cost + self._cost(to)
            before = self._graph.get_edge_data(owner, to)
            if weight is not None and (before is None or weight < before["weight"]):
                self._graph.add_edge(owner, to, weight=weight, way=way)

    def _through(self, owner: int) -> _Way | None:
        """Return the cheapest way through a body, to its success."""
        body = self._flow.layout.bodies[owner]
        inside = self._graph.subgraph([*self._flow.layout.inside(owner), body.next])
        found = self._lengths(inside, body.first)
        if body.next not in found:
            return None
        return _Way(self._cost(body.first) + found[body.next], self._visits(inside, found, body.first, body.next))

    def _last_stage(self, owner: int) -> int:
        fork = self._flow.layout.forks.get(owner)
        return self._flow.layout.bodies[owner].next if fork is None else fork.join

    def _successes(self, owner: int) -> list[Transition]:
        """Return the transitions that a step with items or branches takes when it succeeds."""
        return [one for one in self._flow.transitions[self._last_stage(owner)] if one.kind == "success"]

    def _lengths(self, graph: networkx.DiGraph[int], start: int) -> dict[int, int]:
        import networkx

        found: dict[int, int] = networkx.single_source_dijkstra_path_length(graph, start)
        return found

    def _visits(self, graph: networkx.DiGraph[int], found: Mapping[int, int], start: int, last: int) -> Counter[int]:
        """Return what the cheapest path to a step visits; of several, that whose steps come first in the list."""
        visits, number = Counter((last,)), last
        while number != start:
            edges = ((one, graph.edges[one, number]) for one in graph.predecessors(number))
            number, edge = min(
                (one for one in edges if found.get(one[0]) == found[number] - one[1]["weight"]), key=lambda one: one[0]
            )
            visits[number] += 1
            if edge["way"] is not None:
                visits += edge["way"].visits
        return visits
