"""The step graph: a program's control flow as a NetworkX graph, and the questions that are asked of it."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from stepward.validator.analysis.dominators import Dominators
from stepward.vm.language.flow import Flow
from stepward.vm.language.transitions import END, Transition

if TYPE_CHECKING:
    import networkx

Components = list[list[int]]


class StepGraph:
    """The edges of a program as a graph. Steps go by their position in the list."""

    def __init__(self, flow: Flow) -> None:
        self.flow = flow

    @cached_property
    def digraph(self) -> networkx.DiGraph[int]:
        """The graph for NetworkX: a node for each step (`id`, `type`), an edge for each step that may follow it.

        An edge has the tuple of its `transitions`: several ways out of a step may lead to one other.
        """
        import networkx

        graph: networkx.DiGraph[int] = networkx.DiGraph()
        graph.add_nodes_from(
            (number, {"id": step.id, "type": step.type}) for number, step in enumerate(self.flow.steps)
        )
        for number, ways in enumerate(self.flow.transitions):
            edges: dict[int, list[Transition]] = {}
            for way in ways:
                if way.to >= 0:
                    edges.setdefault(way.to, []).append(way)
            graph.add_edges_from((number, target, {"transitions": tuple(among)}) for target, among in edges.items())
        return graph

    @cached_property
    def reachable(self) -> frozenset[int]:
        """The steps to which some path of edges leads from the entry."""
        import networkx

        return frozenset({0, *networkx.descendants(self.digraph, 0)})

    @cached_property
    def dominators(self) -> Dominators:
        """Which steps stand on every path to a step."""
        return Dominators(self.flow.successors, self.flow.predecessors)

    # -- loops -----------------------------------------------------------------------------------------------------

    def components(self, steps: Iterable[int]) -> Components:
        """Return the strongly connected components that some steps form, each after all that it leads to.

        Edges to other steps than those are left out.
        """
        import networkx

        part = self.digraph.subgraph(steps).copy()
        return [list(component) for component in networkx.strongly_connected_components(part)]

    def is_loop(self, component: Sequence[int]) -> bool:
        """Return whether an edge leads from a step of a component to a step of it."""
        return len(component) > 1 or self.digraph.has_edge(component[0], component[0])

    @cached_property
    def loops(self) -> Components:
        """The steps of each loop (strongly connected component with an edge), in the order of the list."""
        return self.loops_among(range(len(self.flow.steps)))

    def loops_among(self, steps: Iterable[int]) -> Components:
        """Return the loops that some steps form, in the order of the list."""
        return sorted(sorted(component) for component in self.components(steps) if self.is_loop(component))

    def loops_without(self, taken_out: Container[int]) -> Components:
        """Return the loops that remain when some steps are taken out; each lies within a loop of the whole graph."""
        return self.loops_among(number for loop in self.loops for number in loop if number not in taken_out)

    @cached_property
    def has_backward_edge(self) -> bool:
        """Whether some edge leads to a step that is not further down the list; without one there is no loop."""
        return any(target <= number for number, target in self.digraph.edges)

    def leads_out(self, loop: list[int]) -> bool:
        """Return whether an edge leads from a step of a loop to one that is not in it."""
        inside = set(loop)
        return any(target not in inside for number in loop for target in self.flow.successors[number])

    @cached_property
    def in_loop(self) -> frozenset[int]:
        """The steps that stand in some loop."""
        return frozenset(step for loop in self.loops for step in loop)

    # -- endings ---------------------------------------------------------------------------------------------------

    def ends_the_run(self, number: int) -> bool:
        """Return whether a declared ending stands at this step."""
        return any(way.to == END and way.is_drawn for way in self.flow.transitions[number])

    def shortest_way_to_an_ending(self, cost: Callable[[int], int]) -> list[int] | None:
        """Return the cheapest path from the entry to a declared ending, or None when there is no path to one.

        `cost` is what a step costs, at least 1. Of several paths it is the one whose steps come first in the list.
        """
        import networkx

        found = networkx.single_source_dijkstra_path_length(self.digraph, 0, weight=lambda _, to, __: cost(to))
        endings = [(length, number) for number, length in found.items() if self.ends_the_run(number)]
        if not endings:
            return None
        way = [min(endings)[1]]
        while way[-1]:
            number = way[-1]
            before = found[number] - cost(number)
            way.append(min(one for one in self.flow.predecessors[number] if found.get(one) == before))
        return way[::-1]
