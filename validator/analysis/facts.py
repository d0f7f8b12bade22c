"""The facts of a program under its policies that need no analysis: its meaning, and its control flow."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from stepward.validator.analysis.bodies import Bodies
from stepward.validator.analysis.body_outputs import BodyOutputs
from stepward.validator.analysis.constants import constant_value
from stepward.validator.analysis.failure_names import FailureNames
from stepward.validator.analysis.given_types import GivenTypes
from stepward.validator.analysis.graph import StepGraph
from stepward.validator.analysis.large_values import LargeValues
from stepward.validator.analysis.lengths import Length, lengths
from stepward.vm.expressions.template import embedded
from stepward.vm.language.clauses import CallSite
from stepward.vm.language.guardrails import AnyGuard, AnySelector
from stepward.vm.language.meaning import Meaning
from stepward.vm.language.name_types import COPIES, MAX_PATHS
from stepward.vm.language.names import Resolution, Source
from stepward.vm.language.order import SiblingRead, endless_branches, misorders, sibling_reads
from stepward.vm.language.policy import require_distinct
from stepward.vm.language.program import Program
from stepward.vm.language.selectors import Match, matches
from stepward.vm.language.steps import (
    AnyPart,
    BaseStep,
    BranchStep,
    Call,
    ConditionStep,
    Failing,
    LlmCall,
    ParallelStep,
    Stage,
    ToolCall,
)
from stepward.vm.language.steps.catching import TIMEOUT
from stepward.vm.language.types import TypeSpec, fits, implies

if TYPE_CHECKING:
    from stepward.vm.language.policy import Policy


class ProgramFacts:
    """One program under the policies that apply to it; raises PolicyError for two policies of one name."""

    def __init__(self, program: Program, policies: Sequence[Policy] = ()) -> None:
        self.program = program
        self.meaning = Meaning(program, policies)
        require_distinct(self.meaning.policies)
        self.flow = self.meaning.flow
        self.graph = StepGraph(self.flow)
        self._hits: dict[AnySelector | AnyGuard, list[Match]] = {}

    @cached_property
    def failing(self) -> FailureNames:
        """The names of errors, and where they lead."""
        return FailureNames(self.meaning)

    @cached_property
    def conditions(self) -> tuple[tuple[int, ConditionStep], ...]:
        """The condition steps with their positions."""
        return tuple((number, step) for number, step in enumerate(self.flow.steps) if isinstance(step, ConditionStep))

    @cached_property
    def parallels(self) -> tuple[tuple[int, ParallelStep], ...]:
        """The parallel steps with their positions."""
        return tuple((number, step) for number, step in enumerate(self.flow.steps) if isinstance(step, ParallelStep))

    @cached_property
    def bodies(self) -> Bodies:
        """The bodies of for_each steps."""
        return Bodies(self.meaning)

    @cached_property
    def body_outputs(self) -> BodyOutputs:
        """The outputs of the bodies, and what may be done with them."""
        return BodyOutputs(self.meaning)

    @cached_property
    def given_by_bodies(self) -> BodyOutputs:
        """The outputs of bodies, those of called programs too."""
        return BodyOutputs.of_calls_too(self.meaning)

    @cached_property
    def given_types(self) -> GivenTypes:
        """Which names have only values of a type."""
        return GivenTypes(self.meaning)

    @cached_property
    def large_values(self) -> LargeValues:
        """Which steps may have too large values."""
        return LargeValues(self.meaning, self.given_types)

    @cached_property
    def body_ends(self) -> dict[int, int]:
        """The steps with bodies by the stages at which they end, or an attempt of them; a branch ends nothing."""
        layout = self.flow.layout
        owners = {fork.join: owner for owner, fork in layout.forks.items()}
        for owner, body in layout.bodies.items():
            stages = (body.next, body.failed) if owner not in layout.forked else ()
            owners |= {stage: owner for stage in stages if stage is not None}
        return owners

    @cached_property
    def lengths(self) -> dict[int, Length]:
        """What is known of the items of each for_each step."""
        return lengths(self.meaning, self.given_types)

    @cached_property
    def writing_calls(self) -> tuple[tuple[CallSite, ToolCall], ...]:
        """The calls of tools that write, and of tools about which nothing is declared, in list order."""
        calls = [(site, site.call) for site in self.meaning.calls if isinstance(site.call, ToolCall)]
        tools = {call.tool for _, call in calls}
        writing = {tool for tool in tools if self.meaning.tool(tool).effect == "write"}
        return tuple((site, call) for site, call in calls if call.tool in writing)

    def call_of(self, source: Source) -> AnyPart:
        """Return the step or sub-step whose output a source is."""
        assert source.step is not None
        step = self.flow.steps[source.step]
        return step if source.sub is None else step.sub_steps[source.sub]

    def declared_output(self, call: LlmCall | ToolCall) -> TypeSpec | None:
        """Return the declared type of a call's output, or None."""
        if isinstance(call, ToolCall):
            return self.meaning.tool(call.tool).returns
        if call.allowed_outputs is not None:
            return TypeSpec(type=("string",), enum=call.allowed_outputs)
        return call.returns or TypeSpec(type=("string",))

    def known_fields(self, resolution: Resolution) -> list[str]:
        """Return the declared fields of the object that contains the last field of a reference."""
        typing, fields = self.meaning.typing, dict[str, None]()
        owners = [(source, resolution.fields[:-1]) for source in resolution.sources]
        for owner in owners:  # it grows by what is copied
            spec = typing.spec(owner)
            if spec is not None:
                fields |= dict.fromkeys(spec.properties or ())
            elif owner[0].kind in COPIES and len(owners) < MAX_PATHS:
                owners += [one for one in typing.copied_locations(owner) if one not in owners]
        return list(fields)

    def hits(self, selector: AnySelector | AnyGuard) -> list[Match]:
        """Return the steps and sub-steps that a selector matches. Results are cached."""
        hits = self._hits.get(selector)
        if hits is None:
            hits = self._hits[selector] = matches(selector, self.meaning)
        return hits

    def falls_back(self, call: BaseStep) -> bool:
        """Return whether a time-out of the call may end in its fallback: a write that can't be repeated stays in
        doubt."""
        if not isinstance(call, Call) or call.on_timeout != "fallback":
            return False
        spec = self.meaning.tool(call.tool) if isinstance(call, ToolCall) else None
        return spec is None or spec.effect != "write" or spec.idempotent

    def fits(self, value: object, spec: TypeSpec) -> bool:
        """Return whether an argument certainly has its declared type, if the references in it are defined."""
        references = list(embedded(value))
        if not references:
            return fits(value, spec)
        if references[0].path:
            return False
        if not references[0].whole:
            return isinstance(value, str) and self.given_types.is_filled_of(value, spec)
        if implies(TypeSpec(), spec):  # an argument of any type
            return True
        return self.given_types.are_of(self.meaning.names.meaning(references[0].reference.names), spec)

    @cached_property
    def has_control_flow(self) -> bool:
        """Whether control flow is well defined: no target is missing, no arm ambiguous, and no order impossible."""
        is_clear = not self.flow.has_missing_target and not self.flow.ambiguous_arms
        is_clear = is_clear and not endless_branches(self.flow)
        return is_clear and next(misorders(self.program), None) is None and not self.sibling_reads

    @cached_property
    def sibling_reads(self) -> tuple[SiblingRead, ...]:
        """What branches read of siblings that run at the same time."""
        return tuple(sibling_reads(self.program, self.meaning.read_at))

    @cached_property
    def in_branches(self) -> frozenset[int]:
        """The steps of branches, and their starts; the steps of items that run at once.

        They cost nothing where the least cost of a path is asked for: the steps of a sibling on the path need not have
        been started.
        """
        layout = self.flow.layout
        starts = {branch for fork in layout.forks.values() for branch in fork.branches}
        return frozenset(starts.union(*map(layout.inside, layout.sibling_bodies)))

    def decided_branch(self, number: int) -> str | int | None:
        """Return the branch that a condition step takes by constants alone, or None when they do not decide."""
        return self._decided.get(number)

    @cached_property
    def _decided(self) -> dict[int, str | int | None]:
        return {number: self._decide(number, step) for number, step in self.conditions}

    def _decide(self, number: int, step: ConditionStep) -> str | int | None:
        clauses = self.meaning.clauses_of[number]
        if step.condition is not None:
            value = constant_value(clauses[0].tree) if clauses[0].tree else None
            return None if value is None else "then" if value else "otherwise"
        values = (constant_value(clause.tree) if clause.tree else None for clause in clauses)
        for case, value in enumerate(values, start=1):
            if value is not False:
                return case if value else None
        return "otherwise"

    def least_cost(self, number: int) -> int:
        """Return the cost of the start of a step where the least cost of a path is asked for."""
        return 0 if number in self.in_branches else self.cost(number)

    def cost(self, number: int, *, failed: bool = False) -> int:
        """Return the cost of a step in `max_steps`: the step and its sub-steps, and with `failed` also the most
        retries, those before a fallback too."""
        step = self.flow.steps[number]
        if isinstance(step, Stage | BranchStep):
            return 0
        parts = step.sub_steps
        if not failed or not isinstance(step, Failing):
            return 1 + len(parts)
        if isinstance(step, Call):
            return max(self.failing.most_tries(step), self.failing.tries(step, TIMEOUT))
        rounds = step.max_retries - 1 if step.on_error == "retry" else 0
        tries = [self.failing.most_tries(part) for part in parts if part.on_error != "skip"]
        skipped = sum(self.failing.most_tries(part) - 1 for part in parts if part.on_error == "skip")
        return 1 + len(parts) + skipped + sum(tries) - len(tries) + rounds * (1 + sum(tries))
