"""The cases of one condition step, over all values that the types of their references allow, on any path.

`Cases` answers three questions, each stated as the absence of a state:
- covered: unsatisfiable iff in no state every case is false;
- exclusive: unsatisfiable iff a case that is taken is the only one that holds;
- possible, for an outcome: unsatisfiable iff the cases together never have it.

Finite classes decide, and return a state. Where there are too many, classes of calculations may prove it, and the
solver may prove covered and exclusive. Whether a run refutes the property is then a question about the program.

This is no question to `reach`: a system of one node has an edge for each pair of cases (benchmarks/README.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate, combinations, islice
from operator import or_
from typing import TYPE_CHECKING, Final, NamedTuple

from stepward.validator.engine.clock import Clock, OutOfTime
from stepward.validator.engine.search.finite import decided
from stepward.validator.engine.smt.answers import SOLVER, Undecided
from stepward.validator.engine.systems.system import NONE_HOLDS, Decision
from stepward.validator.engine.values.calculated import CalculatedDomains, calculated
from stepward.validator.engine.values.classes import Space
from stepward.validator.engine.values.cuts import TooMany
from stepward.validator.engine.values.domains import Domains
from stepward.validator.engine.values.states import State, is_possible, outcome, references_of, with_owners
from stepward.validator.findings import Verdict
from stepward.vm.expressions.syntax import Expression

if TYPE_CHECKING:
    from stepward.validator.engine.smt.solver import Solved

CLASSES: Final = "cases"
"""The name of the layer of finite classes in reports."""


class LayerAnswer(NamedTuple):
    """The answer of a layer: a state (`violated`), that there is none (`proved`), or neither, with the reason."""

    verdict: Verdict
    layer: str
    state: State | None = None
    reason: str = ""


MAX_PAIRS: Final = 100
"""The most pairs of cases that are each checked on runs."""


class Finite:
    """The layer of finite classes. It is exact; the constructor raises TooMany where there are too many classes."""

    def __init__(self, trees: Sequence[Expression], domains: Domains) -> None:
        self.space = Space(trees, domains)
        self.decided = decided(self.space, trees, self.space.possible)
        """The states of each outcome of the cases together, numbered as in systems."""
        self.first_holds = [(self.decided[case], self.space.outcome(tree).holds) for case, tree in enumerate(trees)]
        """For each case: the states in which it is the first that holds, and all states in which it holds."""

    def uncovered(self) -> State | None:
        """Return a state in which every case is false."""
        return self._state(self.decided[NONE_HOLDS])

    def overlapping(self) -> State | None:
        """Return a state in which one case is taken, and a later one holds."""
        before = 0
        for is_first, holds in self.first_holds:
            if before & holds:
                return self._state(before & holds)
            before |= is_first
        return None

    def overlaps(self) -> Iterator[tuple[int, int]]:
        """Yield the pairs of cases for which some state takes the first while the second also holds."""
        behind = list(accumulate((holds for _, holds in reversed(self.first_holds)), or_))[::-1]
        for first, (is_first, _) in enumerate(self.first_holds[:-1]):
            if is_first & behind[first + 1]:
                later = range(first + 1, len(self.first_holds))
                yield from ((first, second) for second in later if is_first & self.first_holds[second][1])

    def _state(self, mask: int) -> State | None:
        return self.space.state(mask) if mask else None


class Cases:
    """The conditions of one step, in order; a two-way condition is a single case."""

    def __init__(self, trees: Sequence[Expression], domains: Domains, clock: Clock) -> None:
        self.trees = tuple(trees)
        self.domains = domains
        self.clock = clock
        self.names = references_of(self.trees)
        """The references in the conditions."""

    @cached_property
    def finite(self) -> Finite | None:
        """The layer of finite classes; None where there are too many."""
        try:
            return Finite(self.trees, self.domains)
        except TooMany:
            return None

    @cached_property
    def calculated(self) -> Finite | None:
        """Finite classes with calculations as references: the absence of a state is a proof; a state found here is not
        valid."""
        trees = calculated(self.trees) if self.finite is None else None
        try:
            return Finite(trees, CalculatedDomains(self.domains)) if trees is not None else None
        except TooMany:
            return None

    @cached_property
    def solved(self) -> Solved:
        """The layer of the solver, which can only prove; raises Undecided or OutOfTime."""
        from stepward.validator.engine.smt.solver import Solved

        return Solved(self.trees, self.domains, self.clock)

    def covered(self) -> LayerAnswer:
        """Return whether every state in which no case fails takes a case."""
        return self._answer(
            lambda layer: layer.uncovered(),
            lambda layer: layer.is_covered(),
            lambda state: self._taken_in(state) < 0,
        )

    def exclusive(self) -> LayerAnswer:
        """Return whether no state takes one case while a later one holds."""
        return self._answer(
            lambda layer: layer.overlapping(),
            lambda layer: layer.is_exclusive(),
            lambda state: self.overlap(state) is not None,
        )

    def pairs(self) -> list[tuple[int, int]] | None:
        """Return the pairs of cases that some values make hold at once; None where they are too many to check each."""
        every = combinations(range(len(self.trees)), 2)
        pairs = list(islice(every if self.finite is None else self.finite.overlaps(), MAX_PAIRS + 1))
        return pairs if len(pairs) <= MAX_PAIRS else None

    def overlap(self, state: State) -> tuple[int, int] | None:
        """Return the positions of the case that a state takes, and of the next case that also holds there."""
        first = self._taken_in(state)
        later = range(first + 1, len(self.trees)) if first >= 0 else ()
        second = next((case for case in later if outcome(self.trees[case], state)), None)
        return None if second is None else (first, second)

    @cached_property
    def outcomes(self) -> frozenset[int] | None:
        """The outcomes that classes leave possible, numbered as in systems; None where there are too many classes."""
        classes = self.finite or self.calculated
        return frozenset(one for one, mask in classes.decided.items() if mask) if classes is not None else None

    def never_taken(self, case: int) -> bool:
        """Return whether classes prove that a case is never the first that holds."""
        return self.outcomes is not None and case not in self.outcomes

    def _taken_in(self, state: State) -> int:
        """Return the position of the case that a state takes, negative where it takes none."""
        return Decision(self.trees).outcome(state)

    def _answer(
        self, find: Callable[[Finite], State | None], prove: Callable[[Solved], bool], shows: Callable[[State], bool]
    ) -> LayerAnswer:
        classes = self.finite or self.calculated
        state = find(classes) if classes is not None else None
        if classes is not None and state is None:
            return LayerAnswer(Verdict.PROVED, CLASSES)
        if self.finite is not None and state is not None:
            if not is_possible(state, with_owners(self.names, self.domains), self.domains) or not shows(state):
                return LayerAnswer(Verdict.UNKNOWN, CLASSES, None, "the state that was found does not show it")
            return LayerAnswer(Verdict.VIOLATED, CLASSES, state)
        try:
            return LayerAnswer(Verdict.PROVED if prove(self.solved) else Verdict.UNKNOWN, SOLVER)
        except (Undecided, OutOfTime) as error:
            return LayerAnswer(Verdict.UNKNOWN, SOLVER, None, str(error))
