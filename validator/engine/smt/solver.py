"""The solver's layer for the cases of one step: one solver, a literal for each case, assumptions for each question.

What it may spend is counted in Z3's own units, so that a verdict does not depend on how busy the machine is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import z3

from stepward.validator.engine.clock import Clock
from stepward.validator.engine.smt.answers import SOLVER, SPENT, Undecided
from stepward.validator.engine.smt.asking import asked
from stepward.validator.engine.smt.facts import Facts
from stepward.validator.engine.smt.models import TOO_LONG, choices, is_long, short, state_of
from stepward.validator.engine.smt.terms import Terms, TooLarge
from stepward.validator.engine.values.domains import Domains
from stepward.validator.engine.values.states import State, is_possible, outcome
from stepward.vm.expressions.syntax import Expression

MAX_UNITS: Final = 5_000_000
"""Units of work that the questions about one step may take together (Z3's `rlimit`); some seconds."""

MAX_TIDY_UNITS: Final = 100_000
"""Units that may be spent on a tidier model than the one at hand."""

MAX_TRIES: Final = 6
"""Models of which a state is tried to be made."""

NO_STATE: Final = "the solver found values, but none that the program can have"

PLACES: Final = (0, 2, None)
"""Decimal places that the numbers of a model are asked to have, one after the other; None: any number."""


class Solved:
    """The cases of one step as terms; Undecided is raised where the solver gives up, OutOfTime by the clock."""

    name = SOLVER

    def __init__(self, trees: Sequence[Expression], domains: Domains, clock: Clock) -> None:
        self.trees = trees
        self.domains = domains
        self.clock = clock
        self.terms = terms = Terms(domains, clock)
        self.left_units = MAX_UNITS
        try:
            truths = [terms.truth(tree) for tree in trees]
            Facts(terms).note()
        except TooLarge:
            raise Undecided("a comparison of two texts has too many cases") from None
        self.solver = z3.SolverFor("QF_LIRA", ctx=terms.context) if terms.is_linear else z3.Solver(ctx=terms.context)
        self.solver.set("random_seed", 0)
        for fact in terms.facts:
            self.solver.add(fact)
        self.holds = [self._named(f"holds {case}", truth.holds) for case, truth in enumerate(truths)]
        self.fails = [self._named(f"fails {case}", truth.fails) for case, truth in enumerate(truths)]
        self._chain()

    def _named(self, name: str, term: Any) -> Any:
        literal = self.terms.boolean(name)
        self.solver.add(literal == term)
        return literal

    def _chain(self) -> None:
        """Give names to: the case is taken; some case before was taken; and the two overlap."""
        terms = self.terms
        reached: Any = True
        before: Any = False
        self.taking = []
        overlaps = []
        for case, (holds, fails) in enumerate(zip(self.holds, self.fails, strict=True)):
            self.taking.append(self._named(f"taken {case}", terms.both(reached, holds)))
            overlaps.append(terms.both(before, holds))
            reached = self._named(f"past {case}", terms.both(reached, z3.Not(holds), z3.Not(fails)))
            before = self._named(f"by {case}", terms.either(before, self.taking[-1]))
        self.left = reached
        self.overlap = self._named("overlap", terms.either(*overlaps))

    def uncovered(self) -> State | None:
        """Return a state in which every case is false."""
        return self._state(self.left)

    def is_never_taken(self, case: int) -> bool:
        """Return whether no state makes a case the first that holds."""
        return self._model([self.taking[case]]) is None

    def is_never(self, case: int, value: bool) -> bool:
        """Return whether no state gives a condition that value."""
        if value:
            return self._model([self.holds[case]]) is None
        return self._model([z3.Not(self.holds[case]), z3.Not(self.fails[case])]) is None

    def overlapping(self) -> State | None:
        """Return a state in which one case is taken, and a later one holds."""
        return self._state(self.overlap)

    def script(self, goal: Any) -> str:
        """Return SMT-LIB 2 text that is unsatisfiable iff no state shows one of the goals."""
        fresh = z3.Solver(ctx=self.terms.context)
        fresh.add(self.solver.assertions())
        fresh.add(goal)
        lines = (line for line in fresh.to_smt2().splitlines() if not line.startswith((";", "(set-info")))
        return "\n".join([f"(set-logic {'QF_LIRA' if self.terms.is_linear else 'QF_NIRA'})", *lines, ""])

    # -- asking ----------------------------------------------------------------------------------------------------

    def _state(self, *wanted: Any) -> State | None:
        """Return a state in which all of `wanted` holds; None iff there is none."""
        tried: list[Any] = []
        reason = NO_STATE
        for _ in range(MAX_TRIES):
            model = self._model([*wanted, *tried])
            if model is None:
                if not tried:
                    return None
                break
            if is_long(model, self.terms):
                reason = TOO_LONG
                tried.append(self._named("short", short(self.terms)))
                continue
            reason = NO_STATE
            state = self._concrete(model, [*wanted, *tried])
            if state is not None:
                return state
            said = choices(model, self.terms)
            if said is None:
                break
            tried.append(self._named(f"other {len(tried)}", z3.Not(said)))
        raise Undecided(reason)

    def _model(self, assumed: list[Any], most: int = MAX_UNITS) -> Any:
        """Return a model, or None where there is none; raises Undecided when the work that it may take is used up."""
        if self.left_units <= 0:
            raise Undecided(SPENT)
        before = self._spent()
        result = asked(self.solver, assumed, min(self.left_units, most), self.clock)
        self.left_units -= self._spent() - before
        if result == z3.unsat:
            return None
        if result == z3.unknown:
            raise Undecided(SPENT)
        return self.solver.model()

    def _spent(self) -> int:
        counts = self.solver.statistics()
        return int(counts.get_key_value("rlimit count")) if "rlimit count" in counts.keys() else 0  # noqa: SIM118

    def _concrete(self, model: Any, assumed: list[Any]) -> State | None:
        """Return a state like the model, its numbers with few decimal places where that can be had."""
        numbers = [slot.number for slot in self.terms.slots.values() if slot.number is not None]
        for places in PLACES:
            chosen = model
            if places is not None and numbers:
                grid = self.terms.both(*(z3.IsInt(number * 10**places) for number in numbers))
                try:
                    chosen = self._model([*assumed, self._grid(places, grid)], MAX_TIDY_UNITS)
                except Undecided:
                    chosen = None
            if chosen is None:
                continue
            state = state_of(chosen, self.terms)
            if state is not None and self._agrees(chosen, state):
                return state
        return None

    def _grid(self, places: int, grid: Any) -> Any:
        literal = self.terms.boolean(f"places {places}")
        self.solver.add(z3.Implies(literal, grid))
        return literal

    def _agrees(self, model: Any, state: State) -> bool:
        """Return whether every case is in the state what the model says of it, and the values can be had."""
        if not is_possible(state, self.terms.slots, self.domains):
            return False
        for tree, holds, fails in zip(self.trees, self.holds, self.fails, strict=True):
            said = None if z3.is_true(model.eval(fails, True)) else z3.is_true(model.eval(holds, True))
            if outcome(tree, state) is not said:
                return False
        return True
