"""The conditions of a program as the engine reads them: cases over references, each of which has its values."""

from __future__ import annotations

from functools import cached_property

from stepward.validator.analysis.analyses import Analyses
from stepward.validator.engine.cases import Cases
from stepward.validator.engine.clock import Clock
from stepward.validator.engine.domains import Domains


class Conditions:
    """The conditions of one program; each step is looked at when it is first asked for."""

    def __init__(self, context: Analyses, clock: Clock) -> None:
        self.context = context
        self.clock = clock
        self.domains = Domains(context.meaning)
        self._cases: dict[int, Cases | None] = {}

    @cached_property
    def _ill_typed(self) -> frozenset[int]:
        return frozenset(clause.step for clause, _ in self.context.type_problems)

    @cached_property
    def _in_conflict(self) -> frozenset[str]:
        """The first names of what uses give unlike types."""
        return frozenset(one.name.lstrip("$").split(".")[0] for one in self.context.meaning.typing.conflicts)

    def cases(self, number: int) -> Cases | None:
        """Return the conditions of a step; None where one of them is ill-formed."""
        if number not in self._cases:
            self._cases[number] = self._readable(number)
        return self._cases[number]

    def _readable(self, number: int) -> Cases | None:
        trees = [clause.tree for clause in self.context.meaning.clauses_of.get(number, ())]
        known = [tree for tree in trees if tree is not None]
        if len(known) < len(trees) or not known or number in self._ill_typed:
            return None
        cases = Cases(known, self.domains, self.clock)
        for name in cases.names:
            if name[0] in self._in_conflict or self.domains.of(name).is_empty:
                return None
        return cases
