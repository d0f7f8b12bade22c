"""The cheapest path to a declared ending: through all branches, and as many items as lists have at least.

A step with items or branches succeeds after each of them has. So a transition of its success begins at the step and
costs what the cheapest paths through them cost. A path on which one fails goes through that one.
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


class _Path(NamedTuple):
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
        self._graph.add_edges_from((a, b, {"weight": cost(b), "path": None}) for a, b in graph.digraph.edges)
        self._inside: dict[int, _Path | None] = {}
        """The cheapest path through all items or branches of each step that has some; None if there is none."""
        self._stages: set[int] = set()
        """The stages at which these steps succeed."""
        layout = graph.flow.layout
        for owner in sorted({*layout.bodies, *layout.forks}, reverse=True):  # a body is behind those around it
            self._join(owner)

    def to_an_ending(self) -> Visits | None:
        """Return the cheapest path from the entry to a declared ending, or None when there is none.

        Among several paths, the one whose steps come first in the list wins.
        """
        lengths = self._lengths(self._graph, 0)
        ends = [
            (length + path.cost, number, path) for number, length in lengths.items() for path in self._endings(number)
        ]
        if not ends:
            return None
        _, last, path = min(ends, key=lambda end: end[:2])
        return self._visits(self._graph, lengths, 0, last) + path.visits

    def _endings(self, number: int) -> Iterable[_Path]:
        """Return what a run does from the start of a step to its ending there, for each ending there."""
        for transition in self._flow.transitions[number]:
            if (
                transition.to == END
                and transition.is_drawn
                and not (transition.kind == "success" and number in self._stages)
            ):
                yield _Path(0, Counter())
        path = self._inside.get(number)
        if path is not None and any(transition.to == END for transition in self._successes(number)):
            yield path

    def _join(self, owner: int) -> None:
        """Let the success of a step with items or branches begin at the step, if it has some at least."""
        fork = self._flow.layout.forks.get(owner)
        count = self._least(owner) if fork is None else 1
        if not count:
            return
        paths = [self._through(one) for one in (fork.branches if fork is not None else (owner,))]
        known = [path for path in paths if path is not None]
        path = None
        if len(known) == len(paths):
            visits = sum((one.visits for one in known), Counter[int]())
            path = _Path(sum(one.cost for one in known) * count, Counter({one: visits[one] * count for one in visits}))
        self._inside[owner] = path
        stage = self._last_stage(owner)
        self._stages.add(stage)
        others = {one.to for one in self._flow.transitions[stage] if one.kind != "success"}
        for to in {one.to for one in self._successes(owner) if one.to >= 0}:
            if to not in others:
                self._graph.remove_edge(stage, to)
            weight = None if path is None else path.cost + self._cost(to)
            before = self._graph.get_edge_data(owner, to)
            if weight is not None and (before is None or weight < before["weight"]):
                self._graph.add_edge(owner, to, weight=weight, path=path)

    def _through(self, owner: int) -> _Path | None:
        """Return the cheapest path through a body, to its success."""
        body = self._flow.layout.bodies[owner]
        inside = self._graph.subgraph([*self._flow.layout.inside(owner), body.next])
        lengths = self._lengths(inside, body.first)
        if body.next not in lengths:
            return None
        return _Path(self._cost(body.first) + lengths[body.next], self._visits(inside, lengths, body.first, body.next))

    def _last_stage(self, owner: int) -> int:
        fork = self._flow.layout.forks.get(owner)
        return self._flow.layout.bodies[owner].next if fork is None else fork.join

    def _successes(self, owner: int) -> list[Transition]:
        """Return the transitions that a step with items or branches takes when it succeeds."""
        return [one for one in self._flow.transitions[self._last_stage(owner)] if one.kind == "success"]

    def _lengths(self, graph: networkx.DiGraph[int], start: int) -> dict[int, int]:
        import networkx

        lengths: dict[int, int] = networkx.single_source_dijkstra_path_length(graph, start)
        return lengths

    def _visits(self, graph: networkx.DiGraph[int], lengths: Mapping[int, int], start: int, last: int) -> Counter[int]:
        """Return the visits of the cheapest path to a step; of several, the path whose steps come first in the list."""
        visits, number = Counter((last,)), last
        while number != start:
            edges = ((one, graph.edges[one, number]) for one in graph.predecessors(number))
            number, edge = min(
                (one for one in edges if lengths.get(one[0]) == lengths[number] - one[1]["weight"]),
                key=lambda one: one[0],
            )
            visits[number] += 1
            if edge["path"] is not None:
                visits += edge["path"].visits
        return visits
