"""The conditions of a program as the engine reads them: cases over references with their domains."""

from __future__ import annotations

from functools import cached_property

from stepward.validator.analysis.analyses import Analyses
from stepward.validator.engine.cases import Cases
from stepward.validator.engine.clock import Clock
from stepward.validator.engine.values.domains import Domains
from stepward.vm.expressions.fields import names_in


class Conditions:
    """The conditions of one program. Each step is analysed on first use."""

    def __init__(self, analyses: Analyses, clock: Clock) -> None:
        self.facts, self.analyses = analyses.facts, analyses
        self.clock = clock
        self.domains = Domains(analyses.facts.meaning)
        self._cases: dict[int, Cases | None] = {}

    @cached_property
    def _in_conflict(self) -> frozenset[str]:
        """The first names of references whose uses have conflicting types."""
        return frozenset(names_in(one.name)[0] for one in self.facts.meaning.typing.conflicts)

    def cases(self, number: int) -> Cases | None:
        """Return the conditions of a step; None where one of them is ill-formed."""
        if number not in self._cases:
            self._cases[number] = self._readable(number)
        return self._cases[number]

    def _readable(self, number: int) -> Cases | None:
        clauses = self.facts.meaning.clauses_of.get(number, ())
        if not clauses or number in self.analyses.misread:
            return None
        cases = Cases([clause.tree for clause in clauses if clause.tree is not None], self.domains, self.clock)
        has_values = all(
            name[0] not in self._in_conflict and not self.domains.of(name).is_empty for name in cases.names
        )
        return cases if has_values else None
