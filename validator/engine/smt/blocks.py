"""The block formula: one formula for all paths of a system, with if-then-else at merges, and loops cut at their
entries.

`search` is unsatisfiable iff no path of the system's plan (plans.py) leads to BAD on which every guard holds. Since a
plan has a path for every path of the system, unsatisfiable proves that there is none. For a system without cycles a
path of the plan is one of the system, and is returned only when the evaluator has followed it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import z3

from stepward.validator.engine.clock import Clock, OutOfTime
from stepward.validator.engine.smt.answers import SPENT, Spent, SystemAnswer, unknown
from stepward.validator.engine.smt.asking import check
from stepward.validator.engine.smt.encoding import Encoding
from stepward.validator.engine.smt.facts import Facts
from stepward.validator.engine.smt.models import TOO_LONG, choices, is_long, short
from stepward.validator.engine.smt.payloads import never_too_long
from stepward.validator.engine.smt.plans import plan
from stepward.validator.engine.smt.relations import Relations
from stepward.validator.engine.smt.smtlib import script
from stepward.validator.engine.smt.terms import TooLarge
from stepward.validator.engine.smt.versions import Versions
from stepward.validator.engine.smt.walks import Walk
from stepward.validator.engine.systems.assigned_values import Assigned
from stepward.validator.engine.systems.copies import equivalence_groups
from stepward.validator.engine.systems.system import BAD, Path, System
from stepward.validator.engine.values.cuts import TooMany
from stepward.validator.engine.values.domains import Domains, Names
from stepward.validator.findings import Verdict
from stepward.vm.expressions.syntax import Expression

LAYER: Final = "block formula"

MAX_TIDY_UNITS: Final = 100_000
"""Units for the search of a simpler model."""

MAX_RELATION_UNITS: Final = 3_000_000
"""Units for the search of relations between the numbers of loops."""

MAX_TRIES: Final = 6
"""The most models that are tried for a path."""

DECIMAL_PLACES: Final = (0, 2, None)
"""Numbers of decimal places that are tried in order for the numbers of a model; None: any number."""

TOO_LARGE: Final = "a comparison of two texts has too many cases"
TOO_MANY_DIGITS: Final = "a calculation may have a result of over 1,000 digits, and then its step fails"
SHOWS_NO_PATH: Final = "no path leads to a violation"
SHOWS_RELATIONS: Final = "what is assumed at the start of each round of a loop holds there"
NO_RUN: Final = "a path without a run"
NO_VALUES: Final = "the solver found a path, but no values with which the program can take it"


def search(
    system: System,
    domains: Domains,
    may_be_too_long: Callable[[Expression], bool] = never_too_long,
    *,
    units: int,
    clock: Clock,
    accepts: Callable[[Path], bool] = lambda _: True,
    relates: bool = False,
) -> SystemAnswer:
    """Search a path to BAD that is accepted; `units` bounds the work, in Z3's own measure.

    `may_be_too_long` says of a calculation whether its result may have over a thousand digits. With `relates`, it first
    looks for relations between the numbers of each loop.
    """
    try:
        return _Search(system, domains, may_be_too_long, units, clock, relates=relates).answer(accepts)
    except TooLarge:
        return unknown(LAYER, TOO_LARGE)
    except OutOfTime as error:
        return unknown(LAYER, str(error))


def _copied(system: System, domains: Domains) -> list[Names]:
    """Return the references from which the read references are copied: a source has every field that its copy has."""
    try:
        groups = equivalence_groups(system, domains)
    except TooMany:
        return []
    return [name for group in groups for name in group]


class _Search:
    def __init__(
        self,
        system: System,
        domains: Domains,
        may_be_too_long: Callable[[Expression], bool],
        units: int,
        clock: Clock,
        *,
        relates: bool,
    ) -> None:
        self.shown = tuple(dict.fromkeys((*system.references, *_copied(system, domains))))
        self.units = self.left = units
        self.clock = clock
        self.terms = Versions(domains, clock)
        self.encoding = Encoding(system, self.terms, Assigned(system, domains), may_be_too_long)
        planned = plan(system)
        self.encoding.run(planned, self.encoding.entry())
        self.relations = Relations(self.encoding, planned) if relates else None
        Facts(self.terms).note()
        self.goal = self.encoding.at[BAD]
        self.usual = [z3.Not(is_too_long) for _, is_too_long in self.terms.too_long.values()]
        self.solver = z3.SolverFor("QF_LIRA" if self.terms.is_linear else "QF_NIRA", ctx=self.terms.context)
        self.solver.set("random_seed", 0)
        self.solver.add(self.terms.facts)
        self.facts = list(self.terms.facts)

    def answer(self, accepts: Callable[[Path], bool]) -> SystemAnswer:
        """Return the answer of this layer; of a path that is not accepted, another one is asked for."""
        constraints = [self.goal] if self.goal is not True else []
        reason = NO_VALUES
        try:
            self._relate()
            for tried in range(MAX_TRIES):
                model = self._model([*constraints, *self.usual]) if self.goal is not False else None
                if model is None and not tried and self._is_open(constraints):
                    return unknown(LAYER, TOO_MANY_DIGITS, self._used())
                if model is None:
                    return self._proved() if not tried else unknown(LAYER, reason, self._used())
                if is_long(model, self.terms):
                    reason = TOO_LONG
                    constraints.append(self._named(short(self.terms)))
                    continue
                walk = Walk(self.encoding, model)
                path = self._path(walk, model, constraints)
                if path is not None and accepts(path):
                    return SystemAnswer(Verdict.VIOLATED, LAYER, path, units=self._used())
                reason = NO_VALUES if path is None else NO_RUN
                constraints.append(self._other(walk, model if path is None else None))
        except Spent:
            return unknown(LAYER, SPENT, self._used())
        return unknown(LAYER, reason, self._used())

    def _is_open(self, constraints: list[Any]) -> bool:
        """Return whether there is a path only if a result has too many digits."""
        return bool(self.usual) and self.goal is not False and self._model(constraints) is not None

    def _used(self) -> int:
        return self.units - self.left

    def _relate(self) -> None:
        """Add the relations between numbers that hold at the start of each round of a loop."""
        if self.relations is not None and self.goal is not False:
            least = max(0, self.left - MAX_RELATION_UNITS)
            self.relations.find(lambda assumed: self._model(assumed, max(1, self.left - least)), self.solver.add)
            self.solver.add(self.relations.facts)

    def _proved(self) -> SystemAnswer:
        related = [] if self.relations is None else self.relations.facts
        facts = [*self.facts, *related, *([self.goal] if self.goal is not True else [])]
        scripts = {SHOWS_NO_PATH: partial(script, self.terms, facts)}
        if related:
            assert self.relations is not None
            scripts[SHOWS_RELATIONS] = partial(script, self.terms, [*self.facts, *related, self.relations.broken])
        return SystemAnswer(Verdict.PROVED, LAYER, proof=scripts, units=self._used())

    # -- asking ----------------------------------------------------------------------------------------------------

    def _model(self, assumed: list[Any], most: int | None = None) -> Any:
        """Return a model, or None where there is none; raises Spent at the limit of work."""
        if self.left <= 0:
            raise Spent
        before = self._spent()
        result = check(self.solver, assumed, min(self.left, most or self.left), self.clock)
        self.left -= self._spent() - before
        if result == z3.unknown:
            raise Spent
        return self.solver.model() if result == z3.sat else None

    def _spent(self) -> int:
        counts = self.solver.statistics()
        return int(counts.get_key_value("rlimit count")) if "rlimit count" in counts.keys() else 0  # noqa: SIM118

    def _path(self, walk: Walk, model: Any, constraints: list[Any]) -> Path | None:
        """Return the path of a walk, with few decimal places where possible."""
        numbers = [slot.number for slot in walk.terms().slots.values() if slot.number is not None]
        for places in DECIMAL_PLACES:
            chosen = model
            if places is not None and numbers:
                grid = self._named(z3.And([z3.IsInt(number * 10**places) for number in numbers]))
                try:
                    chosen = self._model([*constraints, *self.usual, *walk.choices(), grid], MAX_TIDY_UNITS)
                except Spent:
                    chosen = None
            path = walk.path(chosen, LAYER, self.shown) if chosen is not None else None
            if path is not None:
                return path
        return None

    def _other(self, walk: Walk, model: Any | None) -> Any:
        """Return a term that excludes models like this one, because no run takes its path; without a model, all models
        of the path."""
        answers = None if model is None else choices(model, walk.terms())
        same = [*walk.choices(), *([answers] if answers is not None else [])]
        return self._named(z3.Not(z3.And(same)) if same else z3.BoolVal(False, self.terms.context))

    def _named(self, term: Any) -> Any:
        """Return a variable that implies a term, for use as an assumption."""
        literal = self.terms.boolean("asked")
        self.solver.add(z3.Implies(literal, term))
        return literal
