"""The verdicts on the properties of one program, each computed on first use."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from stepward.validator.engine.proofs import Proofs
from stepward.validator.findings import Property

if TYPE_CHECKING:
    from stepward.validator.analysis.outcomes import Judgement, Outcome
    from stepward.validator.engine.verdicts import ConditionVerdict, ConditionVerdicts


class Verdicts:
    """The verdicts on the guardrails and the conditions of one program, from its proofs."""

    def __init__(self, proofs: Proofs) -> None:
        self._proofs, self._facts = proofs, proofs.facts

    @cached_property
    def judgements(self) -> tuple[Judgement, ...]:
        """The verdict on every guardrail."""
        meaning = self._facts.meaning
        if not meaning.rules and not meaning.body_rules and not meaning.policies:
            return ()
        from stepward.validator.engine.guardrails import judge

        return tuple(self._proofs.failures.gather("the judging of guardrails", lambda: judge(self._proofs)))

    @cached_property
    def outcomes(self) -> tuple[Outcome, ...]:
        """The findings about guardrails."""
        return tuple(outcome for judgement in self.judgements for outcome in judgement.outcomes)

    @cached_property
    def conditions(self) -> tuple[ConditionVerdict, ...]:
        """The verdict on the coverage of every condition, and on cases that must be exclusive."""
        if not self._facts.conditions:
            return ()
        # `decided` is created in here, so that an error in its creation costs only these verdicts.
        return tuple(self._proofs.failures.gather("the judging of conditions", lambda: self.decided.judge()))  # noqa: PLW0108

    @cached_property
    def decided(self) -> ConditionVerdicts:
        """The proofs about conditions, and the states that refute the others."""
        from stepward.validator.engine.verdicts import ConditionVerdicts

        return ConditionVerdicts(self._proofs)

    @property
    def properties(self) -> list[Property]:
        """The verdict on every guardrail, if the control flow of the program is known, and on every condition."""
        guardrails = [one.property for one in self.judgements] if self._facts.has_control_flow else []
        return guardrails + [one.property for one in self.conditions]
