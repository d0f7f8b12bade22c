"""What the rules work on: a program, and all that is known and can be asked of it."""

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
    """One program under the policies that apply to it, in four parts of which each stands on those before.

    `facts` say what the program means and where control goes, `analyses` what graph and data flow say of it. `proofs`
    decide what these leave open, and `verdicts` are what came of it.
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
