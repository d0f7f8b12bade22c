"""The finite abstraction: reachable sets of classes at every node of a system, loops included.

Contract: no edge to BAD is passable in the table of reachable classes iff the abstraction proves the property. The
table is an inductive invariant: it contains the entry's classes, and no edge leads out of it. A path that is found is
the cheapest one of the abstraction, and a candidate: exact where classes distinguish all assigned values.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from functools import cached_property
from typing import Final, NamedTuple

from stepward.validator.engine.clock import Clock
from stepward.validator.engine.search.transfers import Transfer, Transfers
from stepward.validator.engine.systems.copies import assigns, constants, equivalence_groups
from stepward.validator.engine.systems.system import (
    BAD,
    ENTRY,
    FAILS,
    NONE_HOLDS,
    Computed,
    Decision,
    Edge,
    Path,
    Step,
    System,
)
from stepward.validator.engine.values.classes import Space
from stepward.validator.engine.values.cuts import TooMany
from stepward.validator.engine.values.domains import Domains
from stepward.validator.engine.values.states import State
from stepward.vm.expressions.inside import asked_parts
from stepward.vm.expressions.operands import is_condition
from stepward.vm.expressions.syntax import Expression

LAYER: Final = "finite abstraction"

MAX_WORK: Final = 400_000_000
"""The most bits of states times edges of one table: some seconds."""


class _Logged(NamedTuple):
    """Classes that arrived at a node: their rank in the order of arrival, the cost of the path, and the set."""

    rank: int
    cost: int
    mask: int


class Table:
    """The reachable classes of a system. Raises TooMany where there are too many classes, or too much work.

    Raises OutOfTime at the deadline.
    """

    def __init__(self, system: System, domains: Domains, clock: Clock) -> None:
        self.system = system
        self.clock = clock
        trees = [tree for decision in system.decisions for tree in decision.trees]
        trees += [
            part
            for one in assigns(system)
            if isinstance(one.value, Computed)
            for part in asked_parts(one.value.tree)
            if is_condition(part)
        ]
        groups = equivalence_groups(system, domains)
        self.space = Space(trees, domains, groups, constants(system, domains, groups))
        self.transfers = Transfers(self.space)
        self._outcomes: dict[Decision, dict[int, int]] = {}
        self.edges = [[(edge, *self._relation(edge)) for edge in edges] for edges in system.edges]
        if self.space.size * sum(map(len, self.edges)) > MAX_WORK:
            raise TooMany

    # -- relations -------------------------------------------------------------------------------------------------

    def outcomes(self, decision: Decision) -> dict[int, int]:
        """Return the states of each outcome of a decision."""
        if decision not in self._outcomes:
            self._outcomes[decision] = decided(self.space, decision.trees, self.space.all)
        return self._outcomes[decision]

    def _relation(self, edge: Edge) -> tuple[int, list[Transfer]]:
        self.clock.check()
        mask = self.space.all
        for guard in edge.guards:
            mask &= self.outcomes(guard.decision)[guard.outcome]
        return mask, [transfer for one in edge.assigns for transfer in self.transfers.of(one)]

    @property
    def is_exact(self) -> bool:
        """Whether the classes distinguish all assigned values."""
        return not self.transfers.blurs

    # -- the table -------------------------------------------------------------------------------------------------

    @cached_property
    def first(self) -> int:
        """The classes at the entry."""
        mask, inputs = self.space.possible, dict(self.system.inputs)
        for root, slots in self.transfers.below.items():
            is_input = root in inputs
            mask &= self.transfers.from_source(slots, inputs[root]) if is_input else self.transfers.undefined(slots)
        return mask

    @cached_property
    def reachable(self) -> list[int]:
        """The reachable classes at each node."""
        reached = [0] * len(self.edges)
        reached[ENTRY] = self.first
        rank = _ranks(self.system)
        pending = [(rank[ENTRY], ENTRY)]
        queued = {ENTRY}
        while pending:
            _, node = heapq.heappop(pending)
            queued.discard(node)
            self.clock.check()
            mask = reached[node]
            for edge, guard, transfers in self.edges[node]:
                if edge.target == BAD:
                    continue
                moved = mask & guard
                for transfer in transfers if moved else ():
                    moved = transfer.image(moved)
                if moved & ~reached[edge.target]:
                    reached[edge.target] |= moved
                    if edge.target not in queued:
                        queued.add(edge.target)
                        heapq.heappush(pending, (rank[edge.target], edge.target))
        return reached

    def breaches(self) -> list[tuple[int, Edge]]:
        """Return the passable edges to BAD with their source nodes; an empty list is a proof."""
        return [
            (node, edge)
            for node, edges in enumerate(self.edges)
            for edge, guard, transfers in edges
            if edge.target == BAD and _image(self.reachable[node] & guard, transfers)
        ]

    def outcomes_at(self, node: int, decision: Decision) -> list[int]:
        """Return the possible outcomes of a decision at a node."""
        states = self.reachable[node]
        return [outcome for outcome, mask in self.outcomes(decision).items() if states & mask]

    # -- a path ----------------------------------------------------------------------------------------------------

    def cheapest(self) -> tuple[Path, int] | None:
        """Return a cheapest path to BAD and its cost; None where there is none."""
        log, best = self._spread(None)
        return (self._traced(*best[1:], log), best[0]) if best is not None else None

    def levels(self, most: int) -> list[dict[int, int]]:
        """Return for each node the new states at each cost, up to `most`; BAD must cost more."""
        levels: list[dict[int, int]] = [{} for _ in self.edges]
        for level, entries in zip(levels, self._spread(most)[0], strict=True):
            for entry in entries:
                level[entry.cost] = level.get(entry.cost, 0) | entry.mask
        return levels

    def _spread(self, most: int | None) -> tuple[list[list[_Logged]], tuple[int, int, Edge, int] | None]:
        """Return the arrivals at each node up to a cost, and the cheapest edge to BAD: its cost, its source node, the
        edge, and the cost at the source."""
        fresh: dict[int, dict[int, int]] = {0: {ENTRY: self.first}}
        visited = [0] * len(self.edges)
        log: list[list[_Logged]] = [[] for _ in self.edges]
        costs = [0]
        done: set[int] = set()
        best: tuple[int, int, Edge, int] | None = None
        rank = 0
        while costs:
            cost = heapq.heappop(costs)
            if cost in done:
                continue
            if (best is not None and best[0] <= cost) or (most is not None and cost > most):
                break
            done.add(cost)
            while fresh.get(cost):
                node, mask = fresh[cost].popitem()
                mask &= ~visited[node]
                if not mask:
                    continue
                self.clock.check()
                visited[node] |= mask
                log[node].append(_Logged(rank, cost, mask))
                rank += 1
                for edge, guard, transfers in self.edges[node]:
                    moved = _image(mask & guard, transfers)
                    if not moved:
                        continue
                    if edge.target == BAD:
                        if best is None or cost + edge.cost < best[0]:
                            best = cost + edge.cost, node, edge, cost
                        continue
                    arriving = fresh.setdefault(cost + edge.cost, {})
                    arriving[edge.target] = arriving.get(edge.target, 0) | moved
                    heapq.heappush(costs, cost + edge.cost)
        return log, best

    def _traced(self, node: int, last: Edge, cost: int, log: list[list[_Logged]]) -> Path:
        """Return the path that ends with an edge to BAD, found backwards through the logged arrivals."""
        into: dict[int, list[tuple[int, Edge, int, list[Transfer]]]] = {}
        for origin, edges in enumerate(self.edges):
            for edge, guard, transfers in edges:
                into.setdefault(edge.target, []).append((origin, edge, guard, transfers))
        guard, transfers = next((guard, transfers) for edge, guard, transfers in self.edges[node] if edge is last)
        goal = guard & _preimage(self.space.all, transfers)
        at = next(one for one in log[node] if one.cost == cost and one.mask & goal)
        bit = self._simplest(at.mask & goal)
        steps = [Step(node, last, self.space.state(self._simplest(_image(bit, transfers))))]
        while at.rank > 0:
            node, edge, at, before = self._before(into[node], at, bit, log)
            steps.append(Step(node, edge, self.space.state(bit)))
            bit = self._simplest(before)
        return Path(LAYER, self.space.state(bit), tuple(reversed(steps)))

    @staticmethod
    def _before(
        edges: list[tuple[int, Edge, int, list[Transfer]]], at: _Logged, bit: int, log: list[list[_Logged]]
    ) -> tuple[int, Edge, _Logged, int]:
        for origin, edge, guard, transfers in edges:
            for entry in log[origin]:
                if entry.rank < at.rank and entry.cost + edge.cost == at.cost:
                    before = _preimage(bit, transfers) & entry.mask & guard
                    if before:
                        return origin, edge, entry, before
        raise AssertionError("every logged arrival has a predecessor")

    def _simplest(self, mask: int) -> int:
        """Return the simplest state of a set, as a set of one."""
        state: State = self.space.state(mask)
        return self.space.only(state) & mask


def decided(space: Space, trees: Iterable[Expression], left: int) -> dict[int, int]:
    """Return the states of each outcome of conditions in order, numbered as in systems, among the states in `left`."""
    states = {}
    fails = 0
    for number, tree in enumerate(trees):
        outcome = space.outcome(tree)
        states[number] = left & outcome.holds
        fails |= left & outcome.fails
        left &= ~(outcome.holds | outcome.fails)
    return {**states, NONE_HOLDS: left, FAILS: fails}


def _image(mask: int, transfers: list[Transfer]) -> int:
    for transfer in transfers if mask else ():
        mask = transfer.image(mask)
    return mask


def _preimage(mask: int, transfers: list[Transfer]) -> int:
    for transfer in reversed(transfers):
        mask = transfer.preimage(mask)
    return mask


def _ranks(system: System) -> list[int]:
    """Return the position of each node in reverse postorder of a depth-first search."""
    import networkx as nx

    rank = [len(system.edges)] * len(system.edges)
    for position, node in enumerate(nx.dfs_postorder_nodes(system.digraph, ENTRY)):
        if node != BAD:
            rank[node] = -position
    return rank
