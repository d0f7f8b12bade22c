"""From a program and a monitor to a system: their product, pruned to what can still break the property, and sliced.

Contract: BAD is reachable in the system if some feasible run breaks the property. The slice keeps a decision only if
its outcomes lead to different nodes, and a variable only if a remaining decision can observe it; every other stretch of
the product is compressed into the next node.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING, Final

from stepward.validator.analysis.counting import explore_counted
from stepward.validator.analysis.product import Exploration, Monitor, explore
from stepward.validator.analysis.reachability import reached
from stepward.validator.engine.systems.after_siblings import CallAfterSiblings, Siblings
from stepward.validator.engine.systems.joint import Guards
from stepward.validator.engine.systems.moves import Moves
from stepward.validator.engine.systems.slicing import GONE, next_nodes
from stepward.validator.engine.systems.step_move import StepMove
from stepward.validator.engine.systems.system import (
    BAD,
    Assign,
    CompressedEdge,
    Decision,
    Edge,
    Guard,
    System,
)
from stepward.validator.engine.values.domains import Names, is_saved, real
from stepward.vm.language.transitions import END, Transition

if TYPE_CHECKING:
    from stepward.validator.analysis.analyses import Analyses

MAX_PAIRS: Final = 400_000
"""The most pairs of step and monitor state of a system."""

MAX_COUNTED: Final = 5_000
"""The most pairs with counted visits; with more, the product is built without counts."""

Test = tuple[tuple[Decision, tuple[int, ...]], ...]
"""Decisions, each with its selected outcomes."""


@dataclass(frozen=True)
class Question:
    """A property at some steps.

    `kinds` are the violations to search for, and `steps` their steps, None for all. `tests` are alternatives: an entry
    violation counts only if all decisions of one alternative have one of their selected outcomes. `explored` is the
    exploration of possible transitions with the monitor, if it is known already.
    """

    monitor: Monitor
    kinds: frozenset[str] | None = None
    steps: frozenset[int] | None = None
    tests: tuple[Test, ...] = ((),)
    explored: Exploration | None = None

    def asks(self, kind: str | None, step: int) -> bool:
        """Return whether a violation belongs to the question."""
        if kind is None or (self.kinds is not None and kind not in self.kinds):
            return False
        return self.steps is None or step in self.steps


class TooLarge(Exception):  # noqa: N818 - no error: the verdict is unknown
    """The product of program and monitor has too many pairs."""


class Product:
    """The reachable pairs of step and monitor state, by number, and those that can still break the property.

    `bad` are the pairs with a violation of the question, `alive` has 1 for each pair that can reach one, `out` and
    `before` are the successors and predecessors of each pair.
    """

    def __init__(self, analyses: Analyses, question: Question) -> None:
        self.exploration = exploration = _explored(analyses, question)
        self.monitor = exploration.monitor
        self.out, self.before = exploration.out, exploration.before
        self.bad = {number for number, kind, _ in exploration.marks if question.asks(kind, exploration.steps[number])}
        self._prune()

    @property
    def pairs(self) -> list[tuple[int, object]]:
        """Every pair: the position of a step, and a state of the monitor."""
        return self.exploration.visited

    def _prune(self) -> None:
        """Find the pairs from which the property can still be broken."""
        self.alive = bytearray(self.exploration.pairs)
        for number in reached(self.bad, self.before.__getitem__):
            self.alive[number] = 1

    def transitions(self, number: int) -> Iterator[tuple[int, Transition]]:
        """Yield the transitions of a pair, each with its target pair, or GONE where the property can't be broken any
        more."""
        for target, transition in self.exploration.transitions(number):
            yield (target if target is not None and self.alive[target] else GONE), transition


def _explored(analyses: Analyses, question: Question) -> Exploration:
    """Return the exploration of possible transitions: the one of the question, or a new one within the limits."""
    flow, possible, exploration = analyses.facts.flow, analyses.transitions.possible, question.explored
    if exploration is None:
        exploration = explore_counted(flow, question.monitor, possible, most_counted=MAX_COUNTED, limit=MAX_PAIRS)
    elif exploration.is_counted and exploration.pairs > MAX_COUNTED:
        exploration = explore(flow, question.monitor, possible, limit=MAX_PAIRS)
    if not exploration.is_complete or exploration.pairs > MAX_PAIRS:
        raise TooLarge
    return exploration


@dataclass
class Slice:
    """The relevant nodes of a product by number, and for every pair the next relevant node."""

    roots: frozenset[Names]
    relevant: set[int]
    next_node: list[int]
    nodes: dict[int, int] = field(default_factory=dict)


class Builder:
    """Builds the systems of one question about a program."""

    def __init__(self, analyses: Analyses, moves: Moves, question: Question) -> None:
        self.facts, self.analyses = analyses.facts, analyses
        self.moves = moves
        self.question = question
        self.product = Product(analyses, question)
        self._siblings = Siblings(moves)

    @property
    def is_reachable(self) -> bool:
        """Whether some path of edges breaks the property; otherwise the graph alone proves it."""
        return bool(self.product.alive[0])

    # -- slicing ---------------------------------------------------------------------------------------------------

    def sliced(self) -> Slice:
        """Return the smallest slice for the property."""
        roots = self.moves.closed(self._asked_at_bad())
        while True:
            relevant = self._relevant_nodes(roots)
            next_node = self._next_nodes(relevant)
            needed = self.moves.closed(roots | self._read_by(relevant))
            if self._relevant_nodes(needed) <= relevant:
                return Slice(needed, relevant, next_node)
            roots = needed

    def whole(self) -> Slice:
        """Return the slice with all pairs."""
        relevant = {number for number, alive in enumerate(self.product.alive) if alive}
        steps = {self.product.exploration.steps[number] for number in relevant}
        roots = self.moves.closed(
            {root for step in steps for move in self.moves.of(step) for root in self._roots_of(move.guards)}
            | self._asked_at_bad()
        )
        return Slice(roots, relevant, list(range(self.product.exploration.pairs)))

    def _asked_at_bad(self) -> set[Names]:
        roots: set[Names] = set()
        for number in self.product.bad:
            for entry in self._ways_in(number):
                for guards in (*entry.starts, *(one.guards for results in entry.siblings for one in results)):
                    roots |= self._roots_of(guards)
        return roots

    def _relevant_nodes(self, roots: frozenset[Names]) -> set[int]:
        """Return the pairs that are always relevant: the entry, violations, and writers of tracked variables."""
        steps = {step for root in roots for step in self.moves.writers(root)}
        relevant = self.product.bad | {0}
        if steps:
            alive = self.product.alive
            relevant.update(
                number for number, at in enumerate(self.product.exploration.steps) if at in steps and alive[number]
            )
        return relevant

    def _next_nodes(self, relevant: set[int]) -> list[int]:
        """Return for every pair the next relevant node; adds to `relevant` the pairs with several next nodes."""
        return next_nodes(self.product.exploration.pairs, relevant, self._targets, self.product.before)

    def _targets(self, number: int) -> Sequence[int]:
        """Return the successors of a pair; GONE counts only where a decision can avoid the property."""
        out, alive, step = self.product.out[number], self.product.alive, self.product.exploration.steps[number]
        if step in self.moves.deciding:
            targets = [target if alive[target] else GONE for target in out]
            return [*targets, GONE] if GONE not in targets and self.product.exploration.may_end(step) else targets
        return out if len(out) == 1 else [target for target in out if alive[target]]

    def _read_by(self, relevant: Iterable[int]) -> set[Names]:
        steps = {self.product.exploration.steps[number] for number in relevant}
        return {root for step in steps for move in self.moves.of(step) for root in self._roots_of(move.guards)}

    def _roots_of(self, guards: Guards) -> set[Names]:
        return {root for guard in guards for root in self.moves.roots_of(guard.decision)}

    # -- the system ------------------------------------------------------------------------------------------------

    def system(self, slice_: Slice) -> System:
        """Return the system of a slice."""
        order = sorted(slice_.relevant)
        assert order[0] == 0, "the entry is a node"
        slice_.nodes = {number: node for node, number in enumerate(order)}
        behind: list[tuple[Edge, ...]] = []  # the nodes after those of pairs: where siblings have come before a call
        edges = tuple(tuple(_cheapest(self._edges(number, slice_, behind))) for number in order)
        edges += tuple(behind)
        earlier = {one.root for each in edges for edge in each for one in edge.assigns if is_saved(one.root)}
        return System(edges, slice_.roots | earlier, self.moves.inputs(slice_.roots))

    def _edges(self, number: int, slice_: Slice, sibling_edges: list[tuple[Edge, ...]]) -> Iterator[Edge]:
        product_ = self.product
        step, state = product_.exploration.steps[number], product_.exploration.states[number]
        for entry in self._ways_in(number):
            yield from self._entering(number, entry, slice_, sibling_edges)
        for move in self.moves.of(step):
            if not self.analyses.transitions.is_possible(step, move.transition):
                continue
            assigns = tuple(self._tracked(move.assigns, slice_.roots))
            for after in product_.monitor.leave(step, state, move.transition, dict(move.call_outcomes)):
                yield from self._edge(number, move, assigns, after, slice_)

    def _entering(
        self, number: int, entry: CallAfterSiblings, slice_: Slice, sibling_edges: list[tuple[Edge, ...]]
    ) -> Iterator[Edge]:
        """Yield the edges by which entering a pair breaks the property; adds those between siblings to
        `sibling_edges`."""
        step, kind = self.product.exploration.steps[number], self.product.monitor.enter(*self.product.pairs[number])
        assert kind is not None
        cost = 0 if kind == "missing" else self.facts.least_cost(step) + (kind == "retried")
        last = CompressedEdge(step, None, (), (number, -1), kind)
        edges = tuple(Edge(BAD, guards, (), cost, last) for guards in entry.starts)
        for results in reversed(entry.siblings):
            node = len(slice_.nodes) + len(sibling_edges)
            sibling_edges.append(edges)
            edges = tuple(
                Edge(
                    node,
                    one.guards,
                    tuple(self._tracked(one.assigns, slice_.roots)),
                    0,
                    CompressedEdge(step, None, ((one.sub, one.outcome),), (number, number)),
                )
                for one in results
            )
        yield from edges

    def _edge(
        self, number: int, move: StepMove, assigns: tuple[Assign, ...], after: object, slice_: Slice
    ) -> Iterator[Edge]:
        product_, transition = self.product, move.transition
        step = product_.exploration.steps[number]
        if transition.to == END or product_.monitor.closes(transition):
            kind = product_.monitor.end(step, after, transition)
            if self.question.asks(kind, step):
                assert kind is not None
                compressed = CompressedEdge(step, transition, move.call_outcomes, (number, -1), kind, move.errors)
                yield Edge(BAD, move.guards, assigns, move.cost, compressed)
        if transition.to >= 0:
            target = product_.exploration.number(transition.to, after)
            if target is not None and product_.alive[target]:
                compressed = CompressedEdge(step, transition, move.call_outcomes, (number, target), errors=move.errors)
                node = slice_.nodes[slice_.next_node[target]]
                yield Edge(node, move.guards, assigns, move.cost, compressed)

    @staticmethod
    def _tracked(assigns: Iterable[Assign], roots: frozenset[Names]) -> Iterator[Assign]:
        return (one for one in assigns if real(one.root) in roots)

    def _ways_in(self, number: int) -> Iterator[CallAfterSiblings]:
        """Yield the starts of calls that break the property at a pair, each with the siblings before it."""
        step, state = self.product.exploration.steps[number], self.product.exploration.states[number]
        if not self.question.asks(self.product.monitor.enter(step, state), step):
            return
        for subs in self.product.monitor.violating_starts(step, state):
            after_siblings = self._siblings.before(step, subs)
            siblings = after_siblings.siblings if after_siblings is not None else ()
            starts = (
                [after_siblings.starts]
                if after_siblings is not None
                else [self.moves.starts(step, sub) for sub in subs]
            )
            for test in self.question.tests:
                conditions = [[(Guard(one, outcome),) for outcome in bad] for one, bad in test]
                combinations = (
                    tuple(guard for guards in chosen for guard in guards) for chosen in product(*starts, *conditions)
                )
                yield CallAfterSiblings(siblings, tuple(combinations))


def _cheapest(edges: Iterable[Edge]) -> list[Edge]:
    """Return edges without those that differ from a cheaper one only by their step in the program."""
    best: dict[tuple[object, ...], Edge] = {}
    for edge in edges:
        key = (edge.target, edge.guards, edge.assigns)
        if key not in best or edge.cost < best[key].cost:
            best[key] = edge
    return list(best.values())
