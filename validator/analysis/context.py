"""What the rules work on: a program, what it means, and the analyses that several rules share."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from stepward.validator.analysis.constants import constant_value
from stepward.validator.analysis.graph import StepGraph
from stepward.validator.engine.clock import LIMIT_SECONDS, Clock
from stepward.validator.findings import Finding, Property
from stepward.vm.expressions.template import embedded
from stepward.vm.language.guardrails import AnyGuard, AnySelector, ToolSelector
from stepward.vm.language.meaning import CallSite, Clause, Meaning
from stepward.vm.language.names import Meant, Source
from stepward.vm.language.policy import Policy
from stepward.vm.language.program import Program
from stepward.vm.language.selectors import Hit, matches
from stepward.vm.language.steps import BaseStep, Call, ConditionStep, Failing, LlmCall, ParallelStep, ToolCall
from stepward.vm.language.typecheck import TypeProblem, check_expression
from stepward.vm.language.types import TypeSpec, implies, refusal

if TYPE_CHECKING:
    from stepward.validator.analysis.assignment import Assignment, Reading
    from stepward.validator.analysis.bounds import Bounds
    from stepward.validator.analysis.outcomes import Outcome
    from stepward.validator.analysis.ways import Ways
    from stepward.validator.engine.reach import Engine
    from stepward.validator.engine.synthesis import Witnesses
    from stepward.validator.engine.verdicts import ConditionVerdicts


class Context:
    """One program under the policies that apply to it; analyses are made when a rule first asks for them.

    `certifies` says that proofs keep what a certificate is written from, `time_limit` how many seconds they may take.
    """

    def __init__(
        self,
        program: Program,
        policies: Sequence[Policy],
        today: datetime.date,
        *,
        certifies: bool = False,
        time_limit: float = LIMIT_SECONDS,
    ) -> None:
        self.program = program
        self.meaning = Meaning(program, policies)
        self.flow = self.meaning.flow
        self.graph = StepGraph(self.flow)
        self.today = today
        self.certifies = certifies
        self.time_limit = time_limit
        self.properties: list[Property] = []
        self._hits: dict[AnySelector | AnyGuard, list[Hit]] = {}
        self.matched_policy_rules: set[tuple[str, str]] = set()

    @cached_property
    def clock(self) -> Clock:
        """What ends proofs that hang; it runs from the first question that is more than one of the graph."""
        return Clock(self.time_limit)

    @cached_property
    def assignment(self) -> Assignment:
        """Which names are certainly defined where they are read."""
        from stepward.validator.analysis.assignment import Assignment

        return Assignment(self)

    @cached_property
    def bounds(self) -> Bounds:
        """The most that one run can do, and the shortest way to an ending."""
        from stepward.validator.analysis.bounds import Bounds

        return Bounds(self)

    @cached_property
    def ways(self) -> Ways:
        """Which ways out of a step a run may take."""
        from stepward.validator.analysis.ways import Ways

        return Ways(self)

    @cached_property
    def decided(self) -> ConditionVerdicts:
        """What is proved of conditions, and the states that refute what is not."""
        from stepward.validator.engine.verdicts import ConditionVerdicts

        return ConditionVerdicts(self)

    @cached_property
    def conditions(self) -> tuple[tuple[int, ConditionStep], ...]:
        """The condition steps, with their positions."""
        return tuple(self._steps("condition"))

    @cached_property
    def parallels(self) -> tuple[tuple[int, ParallelStep], ...]:
        """The parallel steps, with their positions."""
        return tuple(self._steps("parallel"))

    def _steps(self, kind: str) -> Iterator[tuple[int, Any]]:
        return ((number, self.flow.steps[number]) for number, found in enumerate(self.flow.kinds) if found == kind)

    @cached_property
    def type_problems(self) -> tuple[tuple[Clause, TypeProblem], ...]:
        """What is wrong with the types of every expression that parses."""
        return tuple(
            (clause, problem)
            for clause in self.meaning.clauses
            if clause.tree is not None
            for problem in check_expression(clause.text, clause.tree, self.meaning, is_condition=clause.is_condition)
        )

    @cached_property
    def writing_calls(self) -> tuple[tuple[CallSite, ToolCall], ...]:
        """The calls of tools that write, or of which nothing is known, in the order of the list."""
        calls = [(site, site.call) for site in self.meaning.calls if isinstance(site.call, ToolCall)]
        tools = {call.tool for _, call in calls}
        writing = {tool for tool in tools if self.meaning.tool(tool).effect == "write"}
        return tuple((site, call) for site, call in calls if call.tool in writing)

    def call_of(self, source: Source) -> BaseStep:
        """Return the step or sub-step whose output a source is."""
        assert source.step is not None
        step = self.program.steps[source.step]
        if source.sub is None:
            return step
        assert isinstance(step, ParallelStep)
        return step.parallel_steps[source.sub]

    def reader(self, reading: Reading) -> BaseStep:
        """Return the step or sub-step that reads."""
        step = self.program.steps[reading.step]
        if reading.sub is None:
            return step
        assert isinstance(step, ParallelStep)
        return step.parallel_steps[reading.sub]

    def declared_output(self, call: LlmCall | ToolCall) -> TypeSpec | None:
        """Return the declared type of a call's output, or None."""
        if isinstance(call, ToolCall):
            return self.meaning.tool(call.tool).returns
        if call.allowed_outputs is not None:
            return TypeSpec(type=("string",), enum=call.allowed_outputs)
        return call.returns or TypeSpec(type=("string",))

    def known_fields(self, meant: Meant) -> list[str]:
        """Return the fields that are declared beside the last one that a reference names."""
        specs = [self.meaning.typing.spec((source, meant.fields[:-1])) for source in meant.sources]
        return [name for spec in specs if spec is not None for name in spec.properties or ()]

    def hits(self, selector: AnySelector | AnyGuard) -> list[Hit]:
        """Return the steps and sub-steps that a selector matches; the program is looked through once for each."""
        found = self._hits.get(selector)
        if found is None:
            if isinstance(selector, ToolSelector):
                found = self._calls_of(selector.tool)
            else:
                found = matches(selector, self.meaning)
            self._hits[selector] = found
        return found

    def _calls_of(self, tool: str) -> list[Hit]:
        """Return what `matches` does, of a large program in a tenth of its time."""
        steps = self.flow.steps
        found = [Hit(one, None, steps[one]) for one, step in enumerate(self.flow.fields) if step.get("tool") == tool]
        for number, step in self.parallels:
            parts = enumerate(step.parallel_steps)
            found += [Hit(number, sub, part) for sub, part in parts if isinstance(part, ToolCall) and part.tool == tool]
        return sorted(found, key=itemgetter(0)) if self.parallels else found

    def falls_back(self, call: BaseStep) -> bool:
        """Return whether a time-out of the call may end in its fallback: a write that can't be repeated is in doubt."""
        if not isinstance(call, Call) or call.on_timeout != "fallback":
            return False
        spec = self.meaning.tool(call.tool) if isinstance(call, ToolCall) else None
        return spec is None or spec.effect != "write" or spec.idempotent

    def starts_for_certain(self, number: int) -> bool:
        """Return whether a step that control gets to is started: nothing it reads can be undefined or ill-typed."""
        return number not in self.assignment.doubtful_steps and self._arguments_fit(number)

    @cached_property
    def uncertain_starts(self) -> frozenset[int]:
        """The steps that may not be started though control gets to them, all found at once."""
        sites = self.meaning.calls if any(spec.args for spec in self.meaning.manifest.values()) else ()
        return self.assignment.doubtful_steps.union(
            site.step
            for site in sites
            if site.step not in self.assignment.doubtful_steps and not self._arguments_fit(site.step)
        )

    def _arguments_fit(self, number: int) -> bool:
        step = self.flow.steps[number]
        return all(
            self.fits(value, spec)
            for call in (step.parallel_steps if isinstance(step, ParallelStep) else (step,))
            if isinstance(call, ToolCall)
            for name, spec in (self.meaning.tool(call.tool).args or {}).items()
            if (value := call.args.get(name)) is not None
        )

    def fits(self, value: object, spec: TypeSpec) -> bool:
        """Return whether an argument is certainly of its declared type, if what it reads is defined."""
        found = list(embedded(value))
        if not found:
            return refusal(value, spec) is None
        if not found[0].whole or found[0].path:
            return not found[0].path and implies(TypeSpec(type=("string",)), spec)
        meant = self.meaning.names.meaning(found[0].reference.names)
        given = [self.meaning.typing.spec((source, meant.fields)) for source in meant.sources] if meant else [None]
        return all(type_ is not None and implies(type_, spec) for type_ in given)

    @cached_property
    def outcomes(self) -> tuple[Outcome, ...]:
        """The verdict on every guardrail at every place that it speaks of."""
        from stepward.validator.analysis.guardrails import judge

        return tuple(judge(self))

    @cached_property
    def witnesses(self) -> Witnesses:
        """What makes witnesses of violations, on the machine: whoever finds none never asks for it."""
        from stepward.validator.engine.synthesis import Witnesses

        return Witnesses(self)

    @cached_property
    def engine(self) -> Engine:
        """What decides what the graph leaves open: whoever has no such question never asks for it."""
        from stepward.validator.engine.reach import Engine

        return Engine(self)

    @cached_property
    def has_control_flow(self) -> bool:
        """Whether the program says where control goes: no target is missing and no arm is ambiguous."""
        return not self.flow.has_missing_target and not self.flow.ambiguous_arms

    def decided_branch(self, number: int) -> str | int | None:
        """Return the branch that constants alone make a condition step take, or None when they do not decide."""
        return self._decided.get(number)

    @cached_property
    def _decided(self) -> dict[int, str | int | None]:
        return {number: self._decide(number, step) for number, step in self.conditions}

    def _decide(self, number: int, step: ConditionStep) -> str | int | None:
        values = (constant_value(clause.tree) if clause.tree else None for clause in self.meaning.clauses_of[number])
        if step.condition is not None:
            value = next(values)
            return None if value is None else "then" if value else "otherwise"
        for case, value in enumerate(values, start=1):
            if value is not False:
                return case if value else None
        return "otherwise"

    def cost(self, number: int, *, failed: bool = False) -> int:
        """Return what a step takes from `max_steps`: itself and its sub-steps, and the most that retries of it take."""
        step = self.program.steps[number]
        parts = step.parallel_steps if isinstance(step, ParallelStep) else ()
        if not failed or not isinstance(step, Failing):
            return 1 + len(parts)
        rounds = step.max_retries - 1 if step.on_error == "retry" else 0
        tries = [part.max_retries if part.on_error == "retry" else 1 for part in parts if part.on_error != "skip"]
        return 1 + len(parts) + sum(tries) - len(tries) + rounds * (1 + sum(tries))

    def waived(self, findings: list[Finding]) -> list[Finding]:
        """Return the findings without those that a policy waives; of an expired waiver the finding speaks."""
        return [kept for finding in findings if (kept := self._unless_waived(finding)) is not None]

    def _unless_waived(self, finding: Finding) -> Finding | None:
        if finding.policy is None:
            return finding
        name, _, rule = finding.policy.partition("/")
        for policy in self.meaning.policies:
            for waiver in policy.waivers_of(self.program.name, rule, finding.code) if policy.policy == name else ():
                if not waiver.is_expired(self.today):
                    return None
                finding = replace(finding, message=f"{finding.message} (its waiver expired on {waiver.expiry})")
        return finding
