"""Infeasible branches: outcomes that conditions never have, computed per cluster of conditions that share variables.

Conditions belong to one cluster when they read the same variables, or variables that are copied between these. For each
cluster one table over the whole program computes which outcomes its conditions can have. A cluster ignores the other
clusters, so it may allow more than is possible: a branch called dead is proved to be.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property, partial
from itertools import chain
from typing import TYPE_CHECKING, Final

from stepward.validator.analysis.reachability import reached
from stepward.validator.engine.search.explicit import LAYER as EXPLICIT
from stepward.validator.engine.search.explicit import Search
from stepward.validator.engine.search.finite import LAYER as FINITE
from stepward.validator.engine.search.finite import Table
from stepward.validator.engine.systems.deciding import outcomes
from stepward.validator.engine.systems.slicing import UNSET, next_nodes
from stepward.validator.engine.systems.step_move import StepMove
from stepward.validator.engine.systems.system import FAILS, CompressedEdge, Edge, System
from stepward.validator.engine.values.cuts import TooMany
from stepward.validator.engine.values.domains import Names, real
from stepward.vm.language.steps import ConditionStep
from stepward.vm.language.transitions import Transition

if TYPE_CHECKING:
    from stepward.validator.analysis.analyses import Analyses
    from stepward.validator.engine.reach import Engine
    from stepward.validator.failures import Failures

MAX_WORK: Final = 300_000
"""The most steps of all tables together; the remaining clusters are left out."""

_ONLY_FAILS: Final = frozenset({FAILS})

MAX_CONDITIONS: Final = 300
"""The most conditions of one cluster; for a larger one only the types are used."""


Clusters = list[tuple[list[int], frozenset[Names]]]
"""Clusters: the conditions in list order, and the variables that they read."""


class InfeasibleBranches:
    """The outcomes that the conditions of a program can have, as far as tables decide them."""

    def __init__(self, analyses: Analyses, engine: Engine, failures: Failures) -> None:
        self.facts, self.analyses = analyses.facts, analyses
        self.failures = failures
        self.moves = engine.moves
        self.domains = engine.domains
        self.readable = engine.readable
        self.clock = engine.clock
        self.flow = analyses.facts.flow
        self._typed: dict[int, frozenset[int]] = {}

    def outcomes(self, number: int) -> tuple[frozenset[int], str] | None:
        """Return the possible outcomes of a condition, and the layer that found them; None where no table decides."""
        return self._by_tables.get(number)

    def is_dead(self, number: int, transition: Transition) -> bool:
        """Return whether no run takes a transition of a step."""
        if number in self._misread:
            return False
        if not self.analyses.transitions.is_possible(number, transition):
            return True
        step = self.flow.steps[number]
        if not isinstance(step, ConditionStep) or transition.kind == "visits":
            return False
        possible = self._outcomes(number)
        # Where every evaluation fails, something is undefined, and SW202 reports it.
        return bool(possible - {FAILS}) and not any(one in possible for one in outcomes(step, transition))

    def _outcomes(self, number: int) -> frozenset[int]:
        """Return the outcomes that tables, or else the types, leave possible; empty where that is expensive to
        compute."""
        known = self._by_tables.get(number)
        if known is not None:
            return known[0]
        # A table that was stopped might have shown that the condition always fails.
        is_partial = self.clock.has_struck or bool(self.failures.found)
        return frozenset() if is_partial else self._by_types(number)

    @cached_property
    def _misread(self) -> frozenset[int]:
        """The conditions with a type problem: other findings report them, and nothing is concluded from them."""
        return frozenset(clause.step for clause, _ in self.analyses.type_problems)

    def _by_types(self, number: int) -> frozenset[int]:
        """Return the outcomes that the types alone leave possible; empty where that is expensive to compute."""
        if number not in self._typed:
            cases = self.readable.cases(number)
            outcomes = cases.outcomes if cases is not None and cases.finite is not None else None
            self._typed[number] = outcomes or frozenset()
        return self._typed[number]

    @cached_property
    def infeasible(self) -> tuple[int, ...]:
        """The steps that paths of edges reach from the entry, but only through a dead transition."""
        return tuple(sorted(self.facts.graph.reachable - reached([0], self._live_targets).keys()))

    def _live_targets(self, number: int) -> Sequence[int]:
        """Return the targets of the transitions of a step that are not dead."""
        if not isinstance(self.flow.steps[number], ConditionStep):
            return self.flow.successors[number]  # a fallback has the target of success: no other transition is dead
        is_open = self.facts.decided_branch(number) is None and self._outcomes(number) <= _ONLY_FAILS
        if is_open or number in self._misread:
            return self.flow.successors[number]
        return [
            transition.to
            for transition in self.flow.transitions[number]
            if transition.to >= 0 and not self.is_dead(number, transition)
        ]

    # -- clusters --------------------------------------------------------------------------------------------------

    @cached_property
    def _by_tables(self) -> dict[int, tuple[frozenset[int], str]]:
        result: dict[int, tuple[frozenset[int], str]] = {}
        for conditions, roots in self._clusters()[: MAX_WORK // len(self.flow.steps)]:
            part = f"the dead branches of `{self.flow.steps[conditions[0]].id}`"
            outcomes_of = self.failures.attempt(part, partial(self._table, conditions, roots), lambda _: {})
            result.update(outcomes_of)
            if self.clock.has_struck:
                break  # the results so far are proved
        return result

    def _clusters(self) -> Clusters:
        """Return the clusters for which a table can show more than the types do."""
        from networkx.utils import UnionFind

        read = self._read_together()
        together: UnionFind[Names] = UnionFind()
        for roots in dict.fromkeys(read.values()):
            together.union(*roots)
        groups: dict[Names, list[int]] = {}
        for number, roots in read.items():
            groups.setdefault(together[min(roots)], []).append(number)
        small = [one for one in groups.values() if len(one) <= MAX_CONDITIONS]
        return [(numbers, frozenset().union(*(read[number] for number in numbers))) for numbers in small]

    def _read_together(self) -> dict[int, frozenset[Names]]:
        """Return the variables of each condition that shares a variable with another one, or reads one that several
        steps assign."""
        read: dict[int, frozenset[Names]] = {}
        closed: dict[tuple[Names, ...], frozenset[Names]] = {}
        for number, _ in self.facts.conditions:
            cases = self.readable.cases(number) if number in self.facts.graph.reachable else None
            if cases is None:
                continue
            names_read = tuple(cases.names)
            roots = closed.get(names_read)
            if roots is None:
                roots = closed[names_read] = self.moves.closed([self.domains.root(names) for names in names_read])
            read[number] = roots
        shared = {root for root, count in Counter(chain.from_iterable(read.values())).items() if count > 1}
        for name, sources in self.facts.meaning.names.variables.items():
            # Several sources may be inputs, or belong to one step.
            if len(sources) > 1 and len(self.moves.writers((name,))) > 1:
                shared.add((name,))
        return {number: roots for number, roots in read.items() if not roots.isdisjoint(shared)}

    # -- one table -------------------------------------------------------------------------------------------------

    def _table(self, conditions: list[int], roots: frozenset[Names]) -> dict[int, tuple[frozenset[int], str]]:
        system, nodes = self._system(conditions, roots)
        # A decision that guards no edge, because constants decide it, is not asked.
        decisions_asked = frozenset(system.decisions)
        decisions = ((number, self.moves.decision(number)) for number in conditions if number in nodes)
        known = [
            (number, decision) for number, decision in decisions if decision is not None and decision in decisions_asked
        ]
        try:
            table = Table(system, self.domains, self.clock)
            return {number: (frozenset(table.outcomes_at(nodes[number], one)), FINITE) for number, one in known}
        except TooMany:
            pass
        try:
            search = Search(system, self.domains, self.clock)
            search.cheapest()
        except TooMany:
            return {}
        return {number: (search.outcomes_of(decision), EXPLICIT) for number, decision in known}

    def _system(self, conditions: list[int], roots: frozenset[Names]) -> tuple[System, dict[int, int]]:
        """Return the system of the steps that matter to a cluster, and their nodes."""
        relevant = {0, *conditions, *(number for root in roots for number in self.moves.writers(root))}
        relevant = {number for number in relevant if number in self.facts.graph.reachable}
        successors = self.flow.successors
        next_node = next_nodes(
            len(self.flow.steps), relevant, lambda number: successors[number], self.flow.predecessors
        )
        order = sorted(relevant)
        nodes = {number: node for node, number in enumerate(order)}
        edges = []
        for number in order:
            outgoing = dict.fromkeys(
                edge for move in self.moves.of(number) for edge in self._edge(number, move, roots, next_node, nodes)
            )
            edges.append(tuple(outgoing))
        return System(tuple(edges), roots, self.moves.inputs(roots)), nodes

    def _edge(
        self, number: int, move: StepMove, roots: frozenset[Names], next_node: list[int], nodes: dict[int, int]
    ) -> list[Edge]:
        transition = move.transition
        if not self.analyses.transitions.is_possible(number, transition):
            return []
        target = next_node[transition.to] if transition.to >= 0 else UNSET
        if target == UNSET and not isinstance(self.flow.steps[number], ConditionStep):
            return []
        guards = tuple(guard for guard in move.guards if self.moves.roots_of(guard.decision) <= roots)
        assigns = tuple(one for one in move.assigns if real(one.root) in roots)
        # A transition to no relevant step still shows an outcome; its edge returns to its own node.
        node = nodes[target] if target != UNSET else nodes[number]
        compressed = CompressedEdge(number, None, (), (number, -1))
        return [Edge(node, guards, assigns, 1, compressed)] if target != UNSET or guards else []
