"""What decides the questions about one program that graph and data flow leave open, and what confirms the answers."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from stepward.validator.analysis.analyses import Analyses
from stepward.validator.engine.clock import LIMIT_SECONDS, Clock
from stepward.validator.failures import Failures

if TYPE_CHECKING:
    from stepward.validator.engine.conditions import Conditions
    from stepward.validator.engine.dead import DeadWays
    from stepward.validator.engine.reach import Engine
    from stepward.validator.engine.witnesses.synthesis import Witnesses


class Proofs:
    """Engine and witnesses, made when they are first asked for.

    `certifies` says that proofs keep what a certificate is written from, `time_limit` how many seconds they may take.
    `failures` collects the internal errors that cost a part of the check. A `clock` that is given runs already.
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
        """What ends a check that hangs; it runs from when it is first asked for, or was given."""
        return self._given_clock or Clock(self._time_limit)

    @cached_property
    def readable(self) -> Conditions:
        """The conditions that can be read, and what their references may hold."""
        from stepward.validator.engine.conditions import Conditions

        return Conditions(self.analyses, self.clock)

    @cached_property
    def witnesses(self) -> Witnesses:
        """What makes witnesses of violations, on the machine: whoever finds none never asks for it."""
        from stepward.validator.engine.witnesses.synthesis import Witnesses

        return Witnesses(self.analyses, self.clock, self.failures)

    @cached_property
    def engine(self) -> Engine:
        """What decides what the graph leaves open: whoever has no such question never asks for it."""
        from stepward.validator.engine.reach import Engine

        return Engine(self.analyses, self.readable, lambda: self.witnesses, certifies=self.certifies)

    @cached_property
    def dead(self) -> DeadWays:
        """What conditions never do where they stand."""
        from stepward.validator.engine.dead import DeadWays

        return DeadWays(self.analyses, self.engine, self.failures)
