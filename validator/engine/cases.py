"""The cases of one condition step, over all values that the types of their references allow, on any path.

`Cases` answers four questions, each stated as the absence of a state:
- covered: unsatisfiable iff in no state every case is false;
- exclusive: unsatisfiable iff a case that is taken is the only one that holds;
- never taken, for a case: unsatisfiable iff it is never the first that holds, without a failure before it;
- constant, for a condition: unsatisfiable iff it is never true, or never false.

Finite classes decide, and return a state. Where there are too many, classes of calculations may prove it, and the
solver may prove covered and exclusive. Whether a run refutes the property is then a question about the program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, reduce
from itertools import accumulate, combinations, islice
from operator import or_
from typing import TYPE_CHECKING, Final, NamedTuple

from stepward.validator.engine.clock import Clock, OutOfTime
from stepward.validator.engine.smt.answers import SOLVER, Undecided
from stepward.validator.engine.systems.system import FAILS, NONE_HOLDS, Decision
from stepward.validator.engine.values.calculated import CalculatedDomains, calculated
from stepward.validator.engine.values.classes import Outcome, Space
from stepward.validator.engine.values.cuts import TooMany
from stepward.validator.engine.values.domains import Domains
from stepward.validator.engine.values.plain import plainly_open
from stepward.validator.engine.values.states import State, is_possible, outcome, references_of, with_owners
from stepward.validator.findings import Verdict
from stepward.vm.expressions.syntax import Expression

if TYPE_CHECKING:
    from stepward.validator.engine.smt.solver import Solved

CLASSES: Final = "cases"
"""The name of the layer of finite classes in reports."""


class Answer(NamedTuple):
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
        self.outcomes: list[Outcome] = [self.space.outcome(tree) for tree in trees]
        self.taking: list[int] = []
        reached = self.space.possible
        for one in self.outcomes:
            self.taking.append(reached & one.holds)
            reached &= ~(one.holds | one.fails)
        self.left = reached
        self.failing = self.space.possible & ~(reached | reduce(or_, self.taking, 0))

    def uncovered(self) -> State | None:
        """Return a state in which every case is false."""
        return self._state(self.left)

    def is_never_taken(self, case: int) -> bool:
        """Return whether no state makes a case the first that holds."""
        return not self.taking[case]

    def is_never(self, case: int, value: bool) -> bool:
        """Return whether no state gives a condition that value."""
        one = self.outcomes[case]
        return not self.space.possible & (one.holds if value else ~(one.holds | one.fails))

    def overlapping(self) -> State | None:
        """Return a state in which one case is taken, and a later one holds."""
        taken = 0
        for taking, one in zip(self.taking, self.outcomes, strict=True):
            if taken & one.holds:
                return self._state(taken & one.holds)
            taken |= taking
        return None

    def outcome_numbers(self) -> frozenset[int]:
        """Return the possible outcomes of the cases together, numbered as in systems."""
        found = {case for case, taking in enumerate(self.taking) if taking}
        return frozenset(found | ({NONE_HOLDS} if self.left else set()) | ({FAILS} if self.failing else set()))

    def overlaps(self) -> Iterator[tuple[int, int]]:
        """Yield the pairs of cases for which some state takes the first while the second also holds."""
        behind = list(accumulate((one.holds for one in reversed(self.outcomes)), or_))[::-1]
        for first, taken in enumerate(self.taking[:-1]):
            if taken & behind[first + 1]:
                later = range(first + 1, len(self.taking))
                yield from ((first, second) for second in later if taken & self.outcomes[second].holds)

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
        self.is_plainly_open = len(self.trees) == 1 and plainly_open(self.trees[0], domains)
        """Whether it is one condition that can obviously be true and be false."""

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

    def covered(self) -> Answer:
        """Return whether every state in which no case fails takes a case."""
        return self._answer(
            lambda layer: layer.uncovered(),
            lambda layer: layer.is_covered(),
            lambda state: self._taken_in(state) < 0,
        )

    def exclusive(self) -> Answer:
        """Return whether no state takes one case while a later one holds."""
        return self._answer(
            lambda layer: layer.overlapping(),
            lambda layer: layer.is_exclusive(),
            lambda state: self.overlap(state) is not None,
        )

    def pairs(self) -> list[tuple[int, int]] | None:
        """Return the pairs of cases that some values make hold at once; None where they are too many to check each."""
        every = combinations(range(len(self.trees)), 2)
        found = list(islice(every if self.finite is None else self.finite.overlaps(), MAX_PAIRS + 1))
        return found if len(found) <= MAX_PAIRS else None

    def overlap(self, state: State) -> tuple[int, int] | None:
        """Return the positions of the case that a state takes, and of the next case that also holds there."""
        first = self._taken_in(state)
        later = range(first + 1, len(self.trees)) if first >= 0 else ()
        second = next((case for case in later if outcome(self.trees[case], state)), None)
        return None if second is None else (first, second)

    def never_taken(self, case: int) -> bool:
        """Return whether classes prove that a case is never the first that holds."""
        classes = self.finite or self.calculated
        return classes is not None and classes.is_never_taken(case)

    def constant(self, case: int) -> bool | None:
        """Return the only value that a condition can have.

        None where it can have both, or neither because it always fails, or where that is not known.
        """
        classes = None if self.is_plainly_open else self.finite or self.calculated
        if classes is None:
            return None
        never_true, never_false = classes.is_never(case, True), classes.is_never(case, False)
        return None if never_true is never_false else never_false

    def _taken_in(self, state: State) -> int:
        """Return the position of the case that a state takes, negative where it takes none."""
        return Decision(self.trees).outcome(state)

    def _answer(
        self, find: Callable[[Finite], State | None], prove: Callable[[Solved], bool], shows: Callable[[State], bool]
    ) -> Answer:
        classes = self.finite or self.calculated
        state = find(classes) if classes is not None else None
        if classes is not None and state is None:
            return Answer(Verdict.PROVED, CLASSES)
        if self.finite is not None and state is not None:
            if not is_possible(state, with_owners(self.names, self.domains), self.domains) or not shows(state):
                return Answer(Verdict.UNKNOWN, CLASSES, None, "the state that was found does not show it")
            return Answer(Verdict.VIOLATED, CLASSES, state)
        try:
            return Answer(Verdict.PROVED if prove(self.solved) else Verdict.UNKNOWN, SOLVER)
        except (Undecided, OutOfTime) as error:
            return Answer(Verdict.UNKNOWN, SOLVER, None, str(error))
