"""From a program and a monitor to a system: the product of both, pruned to what can still break the property, sliced.

Contract: BAD is reachable in the system if some feasible run breaks the property. The slice keeps a decision only if
its outcomes lead to different places, and a variable only if a kept decision can observe it; every other stretch of
the product is collapsed into the next place that matters.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING, Final

from stepward.validator.analysis.product import Monitor, counted
from stepward.validator.engine.domains import Names, real
from stepward.validator.engine.moves import Guards, Leaving, Moves
from stepward.validator.engine.slicing import GONE, next_places
from stepward.validator.engine.system import (
    BAD,
    Assign,
    Decision,
    Edge,
    Guard,
    Leap,
    System,
)
from stepward.vm.language.flow import END, Transition

if TYPE_CHECKING:
    from stepward.validator.analysis.context import Context

MAX_PAIRS: Final = 400_000
"""Pairs of step and monitor state that the engine builds a system of."""

MAX_COUNTED: Final = 5_000
"""Pairs with visits counted; a program that has more of them is looked at without counting."""

Test = tuple[tuple[Decision, tuple[int, ...]], ...]
"""Decisions, each with the outcomes that are meant."""


@dataclass(frozen=True)
class Question:
    """A property at some of its places.

    `kinds` are the violations that are meant, and `steps` where, None for all. `tests` are alternatives: what is bad
    to enter is so only if all decisions of one of them have one of the outcomes beside them.
    """

    monitor: Monitor
    kinds: frozenset[str] | None = None
    steps: frozenset[int] | None = None
    tests: tuple[Test, ...] = ((),)

    def asks(self, kind: str | None, step: int) -> bool:
        """Return whether a violation is one of those that are meant."""
        if kind is None or (self.kinds is not None and kind not in self.kinds):
            return False
        return self.steps is None or step in self.steps


class TooLarge(Exception):  # noqa: N818 - no error: the verdict is unknown
    """The product of program and monitor has too many pairs."""


class Product:
    """The pairs of step and monitor state that paths reach, and for each the pairs that can still break the property.

    `ways[pair]` are (target, way), without those that end the run or lead to where nothing can break any more; these
    are counted in `lost`.
    """

    def __init__(self, context: Context, question: Question) -> None:
        self.flow = context.flow
        self.question = question
        counting = counted(context.flow, question.monitor)
        for monitor, limit in ((counting, MAX_COUNTED), (question.monitor, MAX_PAIRS)):
            if monitor is not None and self._explore(context, monitor, limit):
                break
        else:
            raise TooLarge
        self._prune()

    def _explore(self, context: Context, monitor: Monitor, limit: int) -> bool:
        self.monitor = monitor
        self.pairs: list[tuple[int, object]] = [(0, monitor.start())]
        self.number = {self.pairs[0]: 0}
        self.ways: list[list[tuple[int, Transition]]] = []
        self.bad: set[int] = set()
        transitions, passable, pairs, known = self.flow.transitions, context.ways.is_possible, self.pairs, self.number
        asks = self.question.asks
        position = 0
        while position < len(pairs):
            if len(pairs) > limit:
                return False
            step, state = pairs[position]
            out: list[tuple[int, Transition]] = []
            if asks(monitor.enter(step, state), step):
                self.bad.add(position)
            for way in transitions[step]:
                if not passable(step, way):
                    continue
                if way.to == END and not monitor.asks_ends:
                    out.append((GONE, way))
                    continue
                for after in monitor.leave(step, state, way):
                    if way.to == END:
                        if asks(monitor.end(step, after, way), step):
                            self.bad.add(position)
                        out.append((GONE, way))
                    elif way.to >= 0:
                        pair = (way.to, after)
                        target = known.get(pair)
                        if target is None:
                            target = known[pair] = len(pairs)
                            pairs.append(pair)
                        out.append((target, way))
            self.ways.append(out)
            position += 1
        return True

    def _prune(self) -> None:
        """Find the pairs from which the property can still be broken."""
        before: list[list[int]] = [[] for _ in self.pairs]
        for number, out in enumerate(self.ways):
            for target, _ in out:
                if target >= 0:
                    before[target].append(number)
        self.alive = bytearray(len(self.pairs))
        pending = list(self.bad)
        for number in pending:
            self.alive[number] = 1
        while pending:
            for number in before[pending.pop()]:
                if not self.alive[number]:
                    self.alive[number] = 1
                    pending.append(number)
        self.before = before

    def targets(self, number: int) -> Iterator[int]:
        """Yield where a pair leads; GONE for where nothing can break any more."""
        for target, _ in self.ways[number]:
            yield target if target >= 0 and self.alive[target] else GONE


@dataclass
class Slice:
    """What is kept of a product: its places by number, and for every pair the place that comes next."""

    roots: frozenset[Names]
    kept: set[int]
    place: list[int]
    nodes: dict[int, int] = field(default_factory=dict)


class Builder:
    """Builds the systems of one question about a program."""

    def __init__(self, context: Context, moves: Moves, question: Question) -> None:
        self.context = context
        self.moves = moves
        self.question = question
        self.product = Product(context, question)

    @property
    def is_reachable(self) -> bool:
        """Whether some path of edges breaks the property: else the graph alone proves it."""
        return bool(self.product.alive[0])

    # -- slicing ---------------------------------------------------------------------------------------------------

    def sliced(self) -> Slice:
        """Return the slice that observes just what the property needs."""
        roots = self.moves.closed(self._asked_at_bad())
        while True:
            kept = self._kept(roots)
            place = self._places(kept)
            wanted = self.moves.closed(roots | self._read_by(kept))
            if self._kept(wanted) <= kept:
                return Slice(wanted, kept, place)
            roots = wanted

    def whole(self) -> Slice:
        """Return the slice that leaves nothing out."""
        kept = {number for number in range(len(self.product.pairs)) if self.product.alive[number]}
        steps = {self.product.pairs[number][0] for number in kept}
        roots = self.moves.closed(
            {root for step in steps for leaving in self.moves.of(step) for root in self._roots_of(leaving.guards)}
            | self._asked_at_bad()
        )
        return Slice(roots, kept, list(range(len(self.product.pairs))))

    def _asked_at_bad(self) -> set[Names]:
        found: set[Names] = set()
        for number in self.product.bad:
            for guards in self._starts(number):
                found |= self._roots_of(guards)
        return found

    def _kept(self, roots: frozenset[Names]) -> set[int]:
        """Return the pairs that matter by themselves: the entry, violations, and writers of tracked variables."""
        steps = {step for root in roots for step in self.moves.writers(root)}
        alive, pairs = self.product.alive, self.product.pairs
        kept = {number for number in range(len(pairs)) if alive[number] and pairs[number][0] in steps}
        return kept | self.product.bad | {0}

    def _places(self, kept: set[int]) -> list[int]:
        """Return for every pair the next place, adding to `kept` the pairs whose ways lead to different ones."""
        return next_places(len(self.product.pairs), kept, self._targets, self.product.before)

    def _targets(self, number: int) -> Iterator[int]:
        """Yield where a pair leads; being lost counts only where a decision keeps a run from it."""
        is_lost = False
        for target in self.product.targets(number):
            if target == GONE:
                is_lost = True
            else:
                yield target
        if is_lost and self.moves.decides(self.product.pairs[number][0]):
            yield GONE

    def _read_by(self, kept: Iterable[int]) -> set[Names]:
        steps = {self.product.pairs[number][0] for number in kept}
        return {root for step in steps for leaving in self.moves.of(step) for root in self._roots_of(leaving.guards)}

    def _roots_of(self, guards: Guards) -> set[Names]:
        return {root for guard in guards for root in self.moves.roots_of(guard.decision)}

    # -- the system ------------------------------------------------------------------------------------------------

    def system(self, slice_: Slice) -> System:
        """Return the system of a slice."""
        order = sorted(slice_.kept)
        assert order[0] == 0, "the entry is a place"
        slice_.nodes = {number: node for node, number in enumerate(order)}
        edges = tuple(tuple(_cheapest(self._edges(number, slice_))) for number in order)
        return System(edges, slice_.roots, self.moves.inputs(slice_.roots))

    def _edges(self, number: int, slice_: Slice) -> Iterator[Edge]:
        product_, question = self.product, self.question
        step, state = product_.pairs[number]
        kind = product_.monitor.enter(step, state)
        if question.asks(kind, step):
            assert kind is not None
            cost = 0 if kind == "missing" else self.context.cost(step) + (kind == "retried")
            for guards in self._starts(number):
                yield Edge(BAD, guards, (), cost, Leap(step, None, (), (number, -1), kind))
        for leaving in self.moves.of(step):
            if not self.context.ways.is_possible(step, leaving.way):
                continue
            assigns = tuple(self._tracked(leaving.assigns, slice_.roots))
            for after in product_.monitor.leave(step, state, leaving.way, dict(leaving.fates)):
                yield from self._edge(number, leaving, assigns, after, slice_)

    def _edge(
        self, number: int, leaving: Leaving, assigns: tuple[Assign, ...], after: object, slice_: Slice
    ) -> Iterator[Edge]:
        product_, way = self.product, leaving.way
        step = product_.pairs[number][0]
        if way.to == END:
            kind = product_.monitor.end(step, after, way)
            if self.question.asks(kind, step):
                assert kind is not None
                leap = Leap(step, way, leaving.fates, (number, -1), kind)
                yield Edge(BAD, leaving.guards, assigns, leaving.cost, leap)
        elif way.to >= 0:
            target = product_.number.get((way.to, after), GONE)
            if target != GONE and product_.alive[target]:
                leap = Leap(step, way, leaving.fates, (number, target))
                node = slice_.nodes[slice_.place[target]]
                yield Edge(node, leaving.guards, assigns, leaving.cost, leap)

    @staticmethod
    def _tracked(assigns: Iterable[Assign], roots: frozenset[Names]) -> Iterator[Assign]:
        return (one for one in assigns if real(one.root) in roots)

    def _starts(self, number: int) -> Iterator[Guards]:
        """Yield the choices of guards under which entering a pair breaks the property."""
        step, state = self.product.pairs[number]
        if not self.question.asks(self.product.monitor.enter(step, state), step):
            return
        for test in self.question.tests:
            asked = [[(Guard(one, outcome),) for outcome in bad] for one, bad in test]
            for subs in self.product.monitor.culprits(step, state):
                starts = [self.moves.starts(step, sub) for sub in subs]
                for chosen in product(*starts, *asked):
                    yield tuple(guard for guards in chosen for guard in guards)


def _cheapest(edges: Iterable[Edge]) -> list[Edge]:
    """Return edges without those that differ from a cheaper one only by what the program calls them."""
    best: dict[tuple[object, ...], Edge] = {}
    for edge in edges:
        key = (edge.target, edge.guards, edge.assigns)
        if key not in best or edge.cost < best[key].cost:
            best[key] = edge
    return list(best.values())
