"""What the rules work on: a program, and all that is known and can be asked of it."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from stepward.validator.engine.clock import LIMIT_SECONDS, Clock
from stepward.validator.engine.proofs import Proofs
from stepward.validator.findings import Finding, Property
from stepward.vm.language.program import Program

if TYPE_CHECKING:
    from stepward.validator.analysis.outcomes import Judgement, Outcome
    from stepward.validator.engine.verdicts import ConditionVerdict, ConditionVerdicts
    from stepward.vm.language.policy import Policy


class Context(Proofs):
    """One program under the policies that apply to it, on a day by which their waivers are judged."""

    def __init__(
        self,
        program: Program,
        policies: Sequence[Policy],
        today: datetime.date,
        *,
        certifies: bool = False,
        time_limit: float = LIMIT_SECONDS,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(program, policies, certifies=certifies, time_limit=time_limit, clock=clock)
        self.today = today

    @cached_property
    def judgements(self) -> tuple[Judgement, ...]:
        """The verdict on every guardrail."""
        if not self.meaning.rules and not self.meaning.policies:
            return ()
        from stepward.validator.engine.guardrails import judge

        return tuple(self.failures.collect("the judging of guardrails", lambda: judge(self)))

    @cached_property
    def outcomes(self) -> tuple[Outcome, ...]:
        """What is reported of guardrails."""
        return tuple(outcome for judgement in self.judgements for outcome in judgement.outcomes)

    @property
    def properties(self) -> list[Property]:
        """The verdict on every guardrail, where the program says where control goes, and on every condition."""
        guardrails = [one.property for one in self.judgements] if self.has_control_flow else []
        return guardrails + [one.property for one in self.condition_verdicts]

    @cached_property
    def condition_verdicts(self) -> tuple[ConditionVerdict, ...]:
        """The verdict on the coverage of every condition, and on the cases that are to be exclusive."""
        if not self.conditions:
            return ()
        # What decides is made in here, so that an error in making it costs these verdicts alone.
        return tuple(self.failures.collect("the judging of conditions", lambda: self.decided.judge()))  # noqa: PLW0108

    @cached_property
    def decided(self) -> ConditionVerdicts:
        """What is proved of conditions, and the states that refute what is not."""
        from stepward.validator.engine.verdicts import ConditionVerdicts

        return ConditionVerdicts(self, lambda: frozenset(outcome.step for outcome in self.outcomes))

    def with_waivers(self, findings: list[Finding]) -> list[Finding]:
        """Return the findings, with its waiver each that a policy waives; of an expired one the message speaks."""
        return [finding if finding.policy is None else self._with_waiver(finding) for finding in findings]

    def _with_waiver(self, finding: Finding) -> Finding:
        name, _, rule = (finding.policy or "").partition("/")
        expired = ""
        for policy in self.meaning.policies:
            for waiver in policy.waivers_of(self.program.name, rule, finding.code) if policy.policy == name else ():
                if not waiver.is_expired(self.today):
                    return replace(finding, waiver=f"{waiver.reason} (until {waiver.expiry})")
                expired += f" (its waiver expired on {waiver.expiry})"
        return replace(finding, message=finding.message + expired)
