"""The solver layer for the cases of one step: one solver, and a formula for each question.

Its work is measured in Z3's own units, so that a verdict does not depend on the load of the computer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import z3

from stepward.validator.engine.clock import Clock
from stepward.validator.engine.smt.answers import SPENT, Undecided
from stepward.validator.engine.smt.asking import check
from stepward.validator.engine.smt.facts import Facts
from stepward.validator.engine.smt.smtlib import script
from stepward.validator.engine.smt.terms import TooLarge
from stepward.validator.engine.smt.versions import Versions
from stepward.validator.engine.values.domains import Domains
from stepward.validator.engine.values.states import references_of
from stepward.vm.expressions.syntax import Expression

MAX_UNITS: Final = 5_000_000
"""The most units of work for one question about a step (Z3's `rlimit`); some seconds."""


class Solved:
    """The cases of one step as terms; raises Undecided where the solver stops, OutOfTime at the deadline."""

    def __init__(self, trees: Sequence[Expression], domains: Domains, clock: Clock) -> None:
        self.clock = clock
        self.terms = terms = Versions(domains, clock)
        terms.environment = {
            root: terms.leaf(root, lambda fields, root=root: domains.of((*root, *fields)))  # type: ignore[misc]
            for root in map(domains.root, references_of(trees))
        }
        reached: Any = True
        before: Any = False
        overlaps = []
        try:
            for tree in trees:
                holds, fails = terms.truth(tree)
                holds, fails = terms.called("holds", holds), terms.called("fails", fails)
                overlaps.append(terms.both(before, holds))
                before = terms.called("before", terms.either(before, terms.both(reached, holds)))
                reached = terms.called("past", terms.both(reached, terms.no(holds), terms.no(fails)))
            self.left, self.overlap = reached, terms.called("overlap", terms.either(*overlaps))
            Facts(terms).note()
        except TooLarge:
            raise Undecided("a comparison of two texts has too many cases") from None

    def is_covered(self) -> bool:
        """Return whether no state makes every case false."""
        return self._excludes(self.left)

    def is_exclusive(self) -> bool:
        """Return whether no state takes one case while a later one holds."""
        return self._excludes(self.overlap)

    def _excludes(self, goal: Any) -> bool:
        terms = self.terms
        solver = z3.SolverFor("QF_LIRA", ctx=terms.context) if terms.is_linear else z3.Solver(ctx=terms.context)
        solver.set("random_seed", 0)
        solver.add(terms.facts)
        result = check(solver, [] if goal is True else [goal], MAX_UNITS, self.clock) if goal is not False else z3.unsat
        if result == z3.unknown:
            raise Undecided(SPENT)
        return bool(result == z3.unsat)

    def script(self, goal: Any) -> str:
        """Return SMT-LIB 2 text that is unsatisfiable iff no state shows the goal."""
        return script(self.terms, [*self.terms.facts, goal])
