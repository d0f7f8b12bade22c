"""The step graph: a program's control flow as a NetworkX graph, and the questions that are asked of it."""

from __future__ import annotations

from collections.abc import Callable, Container
from functools import cached_property
from typing import TYPE_CHECKING

from stepward.validator.analysis.components import loops_among
from stepward.validator.analysis.dominators import Dominators
from stepward.vm.language.flow import Flow
from stepward.vm.language.transitions import END

if TYPE_CHECKING:
    import networkx


class StepGraph:
    """The edges of a program. Steps go by their position in the list; `digraph` knows them by id.

    Everything here is iterative: a chain of 100,000 steps is an ordinary graph.
    """

    def __init__(self, flow: Flow) -> None:
        self.flow = flow

    @cached_property
    def digraph(self) -> networkx.DiGraph[str]:
        """The graph for NetworkX: a node per step id (`type`, `position`), an edge per successor (`kinds`, `branches`).

        Of two steps that share an id (SW005) the first is the node.
        """
        import networkx

        graph: networkx.DiGraph[str] = networkx.DiGraph()
        steps = self.flow.steps
        for position, step in enumerate(steps):
            if self.flow.position[step.id] == position:
                graph.add_node(step.id, type=step.type, position=position)
        for position, ways in enumerate(self.flow.transitions):
            for way in ways:
                if way.to >= 0:
                    self._add_edge(graph, steps[position].id, steps[way.to].id, way.kind, way.branch)
        return graph

    @staticmethod
    def _add_edge(graph: networkx.DiGraph[str], start: str, target: str, kind: str, branch: str | int | None) -> None:
        if not graph.has_edge(start, target):
            graph.add_edge(start, target, kinds=[], branches=[])
        graph[start][target]["kinds"].append(kind)
        if branch is not None:
            graph[start][target]["branches"].append(branch)

    @cached_property
    def dominators(self) -> Dominators:
        """Which steps stand on every path to a step."""
        return Dominators(self.flow.successors, self.flow.predecessors)

    @cached_property
    def _stretches(self) -> list[tuple[int, int]]:
        """The first and last steps of the stretches of the list over which edges lead back, as one where they overlap.

        A loop that goes past a step in the list comes back past it by such an edge: so no loop leaves its stretch.
        """
        found: list[tuple[int, int]] = []
        for number, following in enumerate(self.flow.successors):
            for target in following:
                if target <= number:
                    first = target
                    while found and found[-1][1] >= target:
                        first = min(first, found.pop()[0])
                    found.append((first, number))
        return found

    @property
    def has_backward_edge(self) -> bool:
        """Whether some edge leads to a step that is not further down the list; without one there is no loop."""
        return bool(self._stretches)

    @cached_property
    def loops(self) -> list[list[int]]:
        """The steps of each loop (strongly connected component with an edge), in the order of the list."""
        successors = self.flow.successors
        found: list[list[int]] = []
        others: list[int] = []
        for first, last in self._stretches:
            number = first
            while number < last and number + 1 in successors[number]:
                number += 1
            if number == last:  # each step leads to the next, and so to those that lead back: they are one loop
                found.append(list(range(first, last + 1)))
            else:
                others.extend(range(first, last + 1))
        return sorted([*found, *loops_among(others, successors)]) if others else found

    def loops_without(self, taken_out: Container[int]) -> list[list[int]]:
        """Return the loops that remain when some steps are taken out; each lies within a loop of the whole graph."""
        left = [number for loop in self.loops for number in loop if number not in taken_out]
        return sorted(loops_among(left, self.flow.successors)) if self._go_back_among(left) else []

    def _go_back_among(self, steps: list[int]) -> bool:
        """Return whether an edge among some steps leads back in the list; without one they form no loop."""
        among, successors = set(steps), self.flow.successors
        for number in steps:
            for target in successors[number]:
                if target <= number and target in among:
                    return True
        return False

    def leads_out(self, loop: list[int]) -> bool:
        """Return whether an edge leads from a step of a loop to one that is not in it."""
        inside, successors = set(loop), self.flow.successors
        for number in reversed(loop):
            for target in successors[number]:
                if target not in inside:
                    return True
        return False

    @cached_property
    def in_loop(self) -> frozenset[int]:
        """The steps that stand in some loop."""
        return frozenset(step for loop in self.loops for step in loop)

    def ends_the_run(self, number: int) -> bool:
        """Return whether a declared ending stands at this step."""
        return any(way.to == END and way.is_drawn for way in self.flow.transitions[number])

    def shortest_way_to_an_ending(self, cost: Callable[[int], int]) -> list[int] | None:
        """Return the cheapest path from the entry to a declared ending, or None when there is no path to one.

        `cost` is what a step costs, at least 1 (Dijkstra, "A note on two problems in connexion with graphs", 1959).
        """
        from heapq import heappop, heappush

        queue = [(cost(0), 0, 0)]
        before: dict[int, int] = {}
        while queue:
            total, number, origin = heappop(queue)
            if number in before:
                continue
            before[number] = origin
            if self.ends_the_run(number):
                return self._way_to(number, before)
            for target in self.flow.successors[number]:
                if target not in before:
                    heappush(queue, (total + cost(target), target, number))
        return None

    @staticmethod
    def _way_to(number: int, before: dict[int, int]) -> list[int]:
        """Return the path from the entry to a step; `before` knows the step before each on it."""
        way = [number]
        while way[-1]:
            way.append(before[way[-1]])
        return way[::-1]
