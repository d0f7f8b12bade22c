"""The services that answer the questions which graph and data flow leave open, and that confirm the answers."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, cached_property, partial
from typing import TYPE_CHECKING

from stepward.validator.analysis.analyses import Analyses
from stepward.validator.engine.clock import LIMIT_SECONDS, Clock
from stepward.validator.failures import Failures

if TYPE_CHECKING:
    from stepward.validator.engine.conditions import Conditions
    from stepward.validator.engine.dead import InfeasibleBranches
    from stepward.validator.engine.reach import Engine
    from stepward.validator.engine.witnesses.synthesis import Witnesses


class Proofs:
    """Engine and witnesses, made on first use.

    `certifies` has proofs keep the parts of a certificate, `time_limit` is in seconds. `failures` collects the internal
    errors that cost a part of the check. A `clock` that is passed is already running.
    """

    def __init__(
        self,
        analyses: Analyses,
        *,
        certifies: bool = False,
        time_limit: float = LIMIT_SECONDS,
        clock: Clock | None = None,
    ) -> None:
        self.facts, self.analyses = analyses.facts, analyses
        self.certifies = certifies
        self._time_limit = time_limit
        self._given_clock = clock
        self.failures = Failures()

    @cached_property
    def clock(self) -> Clock:
        """The deadline of the check. It starts on first use, unless it was passed."""
        return self._given_clock or Clock(self._time_limit)

    @cached_property
    def readable(self) -> Conditions:
        """The conditions that can be parsed, and the domains of their references."""
        from stepward.validator.engine.conditions import Conditions

        return Conditions(self.analyses, self.clock)

    @cached_property
    def witnesses_when_needed(self) -> Callable[[], Witnesses]:
        """Returns the maker of witnesses. It does not refer to us: a reference cycle would hold the memory of Z3."""
        return cache(partial(_witnesses, self.analyses, self.clock, self.failures))

    @property
    def witnesses(self) -> Witnesses:
        """The maker of witnesses, which runs the machine. Programs without violations never need it."""
        return self.witnesses_when_needed()

    @cached_property
    def engine(self) -> Engine:
        """The engine, for questions that the graph leaves open. Programs without such questions never need it."""
        from stepward.validator.engine.reach import Engine

        return Engine(self.analyses, self.readable, self.witnesses_when_needed, certifies=self.certifies)

    @cached_property
    def dead(self) -> InfeasibleBranches:
        """The infeasible branches of conditions."""
        from stepward.validator.engine.dead import InfeasibleBranches

        return InfeasibleBranches(self.analyses, self.engine, self.failures)


def _witnesses(analyses: Analyses, clock: Clock, failures: Failures) -> Witnesses:
    from stepward.validator.engine.witnesses.synthesis import Witnesses

    return Witnesses(analyses, clock, failures)
