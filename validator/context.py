"""The context of rules: a program, with all facts, analyses, proofs and verdicts about it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from stepward.validator.analysis.analyses import Analyses
from stepward.validator.analysis.facts import ProgramFacts
from stepward.validator.engine.clock import LIMIT_SECONDS, Clock
from stepward.validator.engine.proofs import Proofs
from stepward.validator.verdicts import Verdicts
from stepward.vm.language.program import Program

if TYPE_CHECKING:
    from stepward.vm.language.policy import Policy


class Context:
    """One program under the policies that apply to it, in four parts; each part uses those before it.

    `facts` are the meaning and the control flow of the program, `analyses` the results of graph and data flow. `proofs`
    decide the questions that these leave open, and `verdicts` has all answers.
    """

    def __init__(
        self,
        program: Program,
        policies: Sequence[Policy] = (),
        *,
        certifies: bool = False,
        time_limit: float = LIMIT_SECONDS,
        clock: Clock | None = None,
    ) -> None:
        self.facts = ProgramFacts(program, policies)
        self.analyses = Analyses(self.facts)
        self.proofs = Proofs(self.analyses, certifies=certifies, time_limit=time_limit, clock=clock)
        self.verdicts = Verdicts(self.proofs)
