"""The solver's layer for the cases of one step: one solver, and a formula for each question.

What it may spend is counted in Z3's own units, so that a verdict does not depend on how busy the machine is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import z3

from stepward.validator.engine.clock import Clock
from stepward.validator.engine.smt.answers import SPENT, Undecided
from stepward.validator.engine.smt.asking import asked
from stepward.validator.engine.smt.facts import Facts
from stepward.validator.engine.smt.terms import Terms, TooLarge
from stepward.validator.engine.values.domains import Domains
from stepward.vm.expressions.syntax import Expression

MAX_UNITS: Final = 5_000_000
"""Units of work that one question about a step may take (Z3's `rlimit`); some seconds."""


class Solved:
    """The cases of one step as terms; Undecided is raised where the solver gives up, OutOfTime by the clock."""

    def __init__(self, trees: Sequence[Expression], domains: Domains, clock: Clock) -> None:
        self.clock = clock
        self.terms = terms = Terms(domains, clock)
        try:
            truths = [terms.truth(tree) for tree in trees]
            Facts(terms).note()
        except TooLarge:
            raise Undecided("a comparison of two texts has too many cases") from None
        self.solver = z3.SolverFor("QF_LIRA", ctx=terms.context) if terms.is_linear else z3.Solver(ctx=terms.context)
        self.solver.set("random_seed", 0)
        for fact in terms.facts:
            self.solver.add(fact)
        # Each term gets a name, so that no term holds all that came before.
        reached: Any = True
        before: Any = False
        overlaps = []
        for case, truth in enumerate(truths):
            holds, fails = self._named(f"holds {case}", truth.holds), self._named(f"fails {case}", truth.fails)
            overlaps.append(terms.both(before, holds))
            before = self._named(f"by {case}", terms.either(before, terms.both(reached, holds)))
            reached = self._named(f"past {case}", terms.both(reached, z3.Not(holds), z3.Not(fails)))
        self.left = reached
        self.overlap = self._named("overlap", terms.either(*overlaps))

    def _named(self, name: str, term: Any) -> Any:
        literal = self.terms.boolean(name)
        self.solver.add(literal == term)
        return literal

    def is_covered(self) -> bool:
        """Return whether no state makes every case false."""
        return self._excludes(self.left)

    def is_exclusive(self) -> bool:
        """Return whether no state takes one case while a later one holds."""
        return self._excludes(self.overlap)

    def _excludes(self, goal: Any) -> bool:
        result = asked(self.solver, [goal], MAX_UNITS, self.clock)
        if result == z3.unknown:
            raise Undecided(SPENT)
        return bool(result == z3.unsat)

    def script(self, goal: Any) -> str:
        """Return SMT-LIB 2 text that is unsatisfiable iff no state shows the goal."""
        fresh = z3.Solver(ctx=self.terms.context)
        fresh.add(self.solver.assertions())
        fresh.add(goal)
        lines = (line for line in fresh.to_smt2().splitlines() if not line.startswith((";", "(set-info")))
        return "\n".join([f"(set-logic {'QF_LIRA' if self.terms.is_linear else 'QF_NIRA'})", *lines, ""])
