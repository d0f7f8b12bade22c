"""What the rules work on: a program, what it means, and the analyses that several rules share."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

from stepward.validator.findings import Finding, Property
from stepward.validator.graph import StepGraph
from stepward.vm.errors import EvaluationError
from stepward.vm.expressions.evaluator import evaluate_condition
from stepward.vm.expressions.syntax import Defined, walk
from stepward.vm.expressions.syntax import Reference as ReferenceNode
from stepward.vm.language.flow import MISSING
from stepward.vm.language.meaning import Clause, Meaning
from stepward.vm.language.policy import Policy
from stepward.vm.language.program import Program

if TYPE_CHECKING:
    from stepward.validator.assignment import Assignment
    from stepward.validator.guardrails import Outcome


class Context:
    """One program under the policies that apply to it; analyses are made when a rule first asks for them."""

    def __init__(self, program: Program, policies: Sequence[Policy], today: datetime.date) -> None:
        self.program = program
        self.meaning = Meaning(program, policies)
        self.flow = self.meaning.flow
        self.graph = StepGraph(self.flow)
        self.today = today
        self.properties: list[Property] = []
        self.matched_policy_rules: set[tuple[str, str]] = set()

    @cached_property
    def assignment(self) -> Assignment:
        """Which names are certainly defined where they are read."""
        from stepward.validator.assignment import Assignment

        return Assignment(self)

    @cached_property
    def outcomes(self) -> tuple[Outcome, ...]:
        """The verdict on every guardrail at every place that it speaks of."""
        from stepward.validator.guardrails import judge

        return tuple(judge(self))

    @cached_property
    def has_control_flow(self) -> bool:
        """Whether the program says where control goes: no target is missing and no arm is ambiguous."""
        ways = self.flow.transitions
        return not any(way.to == MISSING for out in ways for way in out) and not any(self.ambiguous_arms)

    @cached_property
    def ambiguous_arms(self) -> tuple[int, ...]:
        """The steps at which rules 3 and 4 of control flow clash."""
        return tuple(number for number in range(len(self.program.steps)) if self._is_ambiguous(number))

    def _is_ambiguous(self, number: int) -> bool:
        step = self.program.steps[number]
        if step.id not in self.flow.arms or step.type in ("condition", "end"):
            return False
        if step.next_step is not None or step.is_terminal or number + 1 == len(self.program.steps):  # type: ignore[union-attr]
            return False
        return number == 0 or self.flow.falls_through(number - 1)

    def constant_value(self, clause: Clause) -> bool | None:
        """Return the value of a condition that reads nothing, or None when it reads something or has none."""
        tree = clause.tree()
        if tree is None or any(isinstance(node, ReferenceNode | Defined) for node in walk(tree)):
            return None
        try:
            return evaluate_condition(tree, _nothing)
        except EvaluationError:
            return None

    def waived(self, findings: list[Finding]) -> list[Finding]:
        """Return the findings without those that a policy waives; of an expired waiver the finding speaks."""
        return [kept for finding in findings if (kept := self._unless_waived(finding)) is not None]

    def _unless_waived(self, finding: Finding) -> Finding | None:
        if finding.policy is None:
            return finding
        name, _, rule = finding.policy.partition("/")
        for policy in self.meaning.policies:
            if policy.policy != name:
                continue
            for waiver in policy.waivers:
                if waiver.program == self.program.name and waiver.rule in (rule, finding.code):
                    if not waiver.is_expired(self.today):
                        return None
                    finding = replace(finding, message=f"{finding.message} (its waiver expired on {waiver.expiry})")
        return finding


def _nothing(names: tuple[str, ...]) -> object:
    raise AssertionError(f"a constant reads nothing, not {names}")
