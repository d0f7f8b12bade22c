"""The step graph: a program's control flow as a NetworkX graph, and queries on it."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Final

from stepward.validator.analysis.dominators import Dominators
from stepward.vm.arguments import made, require
from stepward.vm.language.flow import Flow
from stepward.vm.language.transitions import END, Transition

if TYPE_CHECKING:
    import networkx

Components = list[list[int]]

_BETWEEN: Final = ("item", "again")
"""The transitions between items."""


class StepGraph:
    """The control flow of a program as a graph. Steps are identified by their position in the list."""

    def __init__(self, flow: Flow) -> None:
        require(made(Flow), flow=flow)
        self.flow = flow

    @cached_property
    def digraph(self) -> networkx.DiGraph[int]:
        """The graph for NetworkX: a node for each step (`id`, `type`), an edge to each step that may follow it.

        An edge has the tuple of its `transitions`: several transitions of a step may lead to the same step.
        """
        import networkx

        graph: networkx.DiGraph[int] = networkx.DiGraph()
        graph.add_nodes_from(
            (number, {"id": step.id, "type": step.type}) for number, step in enumerate(self.flow.steps)
        )
        for number, transitions in enumerate(self.flow.transitions):
            edges: dict[int, list[Transition]] = {}
            for transition in transitions:
                if transition.to >= 0:
                    edges.setdefault(transition.to, []).append(transition)
            graph.add_edges_from((number, target, {"transitions": tuple(among)}) for target, among in edges.items())
        return graph

    @cached_property
    def reachable(self) -> frozenset[int]:
        """The steps that some path of edges connects to the entry."""
        import networkx

        return frozenset({0, *networkx.descendants(self.digraph, 0)})

    @cached_property
    def dominators(self) -> Dominators:
        """The dominators: the steps that are on every path to a step."""
        import networkx

        return Dominators(list(networkx.dfs_postorder_nodes(self.digraph, 0)), self.flow.predecessors)

    # -- loops -----------------------------------------------------------------------------------------------------

    def components(self, steps: Iterable[int]) -> Components:
        """Return the strongly connected components of a subgraph, each after all components that it leads to.

        Edges to steps outside of the subgraph are ignored.
        """
        import networkx

        inside = dict.fromkeys(steps)
        part: networkx.DiGraph[int] = networkx.DiGraph()
        part.add_nodes_from(inside)
        part.add_edges_from((step, to) for step in inside for to in self.flow.successors[step] if to in inside)
        return [list(component) for component in networkx.strongly_connected_components(part)]

    def is_loop(self, component: Sequence[int]) -> bool:
        """Return whether an edge connects two steps of a component, or a step with itself."""
        return len(component) > 1 or self.digraph.has_edge(component[0], component[0])

    @cached_property
    def loops(self) -> Components:
        """The steps of each loop (strongly connected component with an edge), in list order."""
        return self.loops_among(range(len(self.flow.steps)))

    def loops_among(self, steps: Iterable[int]) -> Components:
        """Return the loops of a subgraph, in list order."""
        return sorted(sorted(component) for component in self.components(steps) if self.is_loop(component))

    def loops_without(self, taken_out: Container[int]) -> Components:
        """Return the loops that remain without some steps; each lies within a loop of the whole graph."""
        return self.loops_among(number for loop in self.loops for number in loop if number not in taken_out)

    @cached_property
    def written_loops(self) -> Components:
        """The loops that steps of one list make among themselves, in list order: items of for_each steps make none."""
        return self.written_loops_without(())

    def written_loops_without(self, taken_out: Container[int]) -> Components:
        """Return the loops of steps of one list that remain without some steps."""
        import networkx

        if not self.flow.layout.bodies:
            return self.loops_without(taken_out)
        graph = self.digraph.subgraph(number for number in self.digraph if number not in taken_out).copy()
        graph.remove_edges_from(
            [
                (a, b)
                for a, b, transitions in graph.edges(data="transitions")
                if all(one.kind in _BETWEEN for one in transitions)
            ]
        )
        components = [list(part) for part in networkx.strongly_connected_components(graph)]
        return sorted(sorted(part) for part in components if len(part) > 1 or graph.has_edge(part[0], part[0]))

    @cached_property
    def in_written_loop(self) -> frozenset[int]:
        """The steps that are part of some loop of steps of one list, or in the body of a step that is."""
        layout = self.flow.layout
        in_loop = {step for loop in self.written_loops for step in loop}
        return frozenset(
            number
            for number in range(len(self.flow.steps))
            if number in in_loop or not in_loop.isdisjoint(layout.owners_of(number))
        )

    def leads_out(self, loop: list[int]) -> bool:
        """Return whether a way that the program declares leads out of a loop: no failure does that nothing takes."""
        inside = set(loop)
        leaving = ((number, one) for number in loop for one in self.flow.transitions[number])
        return any(self._leads_on(number, one) for number, one in leaving if one.to >= 0 and one.to not in inside)

    def _leads_on(self, number: int, leaving: Transition) -> bool:
        """Return whether a transition goes on as the program declares it, or its failure does at a step around."""
        if leaving.kind in _BETWEEN:  # into the body: what matters is how an item leaves it
            body = self.flow.layout.body_of(number)
            inside = (
                (step, one) for step in self.flow.layout.inside(body.owner) for one in self.flow.transitions[step]
            )
            return any(one.to == body.failed and self._leads_on(step, one) for step, one in inside)
        is_declared = leaving.ending is None or leaving.ending.reason == "declared"
        return is_declared or self.takes_failures(number)

    def takes_failures(self, number: int) -> bool:
        """Return whether a step around the body in which a step is takes failures of that body."""
        layout = self.flow.layout
        owner = layout.owner(number)
        if owner is None:
            return False
        stage = layout.stage_of_failure(owner)
        if stage is None:
            return True  # the next item follows
        failures = [one for one in self.flow.transitions[stage] if one.kind in ("failed", "skipped")]
        return any(one.kind == "skipped" or one.ending is None for one in failures) or self.takes_failures(stage)

    @cached_property
    def in_loop(self) -> frozenset[int]:
        """The steps that are part of some loop."""
        return frozenset(step for loop in self.loops for step in loop)

    # -- endings ---------------------------------------------------------------------------------------------------

    def ends_the_run(self, number: int) -> bool:
        """Return whether the run may end at this step by a declared ending."""
        return any(transition.to == END and transition.is_drawn for transition in self.flow.transitions[number])

    def parts_endings(self, number: int, endings: Container[int]) -> bool:
        """Return whether some of these endings can be reached from one way out of a step, and not from another."""
        import networkx

        sets = set()
        for transition in self.flow.transitions[number]:
            if transition.to >= 0:
                behind = {transition.to, *networkx.descendants(self.digraph, transition.to)}
                sets.add(frozenset(end for end in behind if end in endings))
            elif transition.is_drawn:
                sets.add(frozenset({number}))
        return len(sets) > 1
