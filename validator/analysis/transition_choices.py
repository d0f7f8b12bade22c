"""The transitions that a run may take, and those that some run certainly takes: neither depends on values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, assert_never

from stepward.validator.analysis.joint_parts import are_many
from stepward.validator.analysis.product import USED_UP, Bad, Choice
from stepward.vm.expressions.operands import result_kinds
from stepward.vm.expressions.syntax import Arithmetic, Minus, walk
from stepward.vm.language.steps import (
    AnyCall,
    BranchStep,
    ComputeStep,
    ConditionStep,
    EndStep,
    ForEachStep,
    InvokeStep,
    LlmStep,
    ParallelStep,
    SetStep,
    Stage,
    ToolCall,
    ToolStep,
    WaitStep,
)
from stepward.vm.language.transitions import END, Transition

if TYPE_CHECKING:
    from stepward.validator.analysis.assignment import Assignment
    from stepward.validator.analysis.facts import ProgramFacts


class TransitionChoices:
    """The possible and the certain transitions of one program."""

    def __init__(
        self, facts: ProgramFacts, assignment: Assignment, unsure: Callable[[], frozenset[int]] = frozenset
    ) -> None:
        """Take the known facts; `unsure` returns the steps with an expression that may fail by its types."""
        self._unsure = unsure
        self.facts = facts
        self.flow = facts.flow
        self.doubtful = assignment.doubtful_steps
        self._failing: dict[int, bool] = {}

    @cached_property
    def possible(self) -> Choice:
        """The transitions that some run might take."""
        return Choice(self.flow, self.is_possible, self._unlike, self.facts.lengths)

    @cached_property
    def certain(self) -> Choice:
        """The transitions that some run certainly takes when it reaches their step."""
        return Choice(self.flow, self.is_certain, self.doubtful.union(self._unlike), self.facts.lengths)

    @cached_property
    def _unlike(self) -> list[int]:
        """The steps other than those that continue on success and end the run on failure."""
        return [
            number
            for number, transitions in enumerate(self.flow.transitions)
            if len(transitions) != 2
            or transitions[0].kind != "success"
            or transitions[1].to != END
            or isinstance(self.flow.steps[number], Stage | InvokeStep | WaitStep)
        ]

    def is_possible(self, step: int, transition: Transition) -> bool:
        """Return whether some run might leave the step by this transition: only constants rule it out."""
        part = self.flow.steps[step]
        match part:
            case ConditionStep():
                if transition.kind == "failed":
                    return self._may_fail(step)
                return transition.kind == "visits" or self._is_decided(step, transition) is not False
            case SetStep():
                return transition.kind != "failed" or self._may_fail(step)
            case WaitStep():
                return transition.kind != "failed" or not part.is_constant
            case LlmStep() | ToolStep() | ParallelStep() | ComputeStep():
                if transition.kind == "failed":
                    return self.facts.failing.may_take(step, transition)
                return transition.kind != "fallback" or self.facts.falls_back(part)
            case BranchStep():
                return True
            case ForEachStep():
                return transition.kind not in ("failed", "skipped") or self._may_not_start(step)
            case Stage():
                return True
            case EndStep():
                return transition.kind != "failed" or step in self.doubtful or self._may_be_refused(step)
            case _:
                assert_never(part)

    def is_certain(self, step: int, transition: Transition) -> bool:
        """Return whether some run that reaches the step leaves it by this transition, for any earlier history."""
        part = self.flow.steps[step]
        # A step that may read something undefined may fail before it starts, so no transition is certain.
        is_sure = step not in self.doubtful
        match part:
            case ConditionStep():
                return transition.kind in ("branch", "uncovered") and self._is_decided(step, transition) is True
            case SetStep():
                return transition.kind != "failed" and is_sure
            case WaitStep():
                return transition.kind != "failed" and part.is_constant
            case LlmStep() | ToolStep() | ParallelStep() | ComputeStep():
                is_unsure = transition.kind == "failed" and self.facts.failing.surely_takes(step, transition) is None
                if is_unsure or are_many(self.facts.meaning.orders.get(step)):
                    return False
                return is_sure and (transition.kind != "fallback" or self.facts.falls_back(part))
            case BranchStep():
                return not part.needs
            case ForEachStep():
                return transition.kind == "success" and not self._may_not_start(step)
            case Stage() if part.role != "joined" and isinstance(self.facts.bodies.step_of(step), BranchStep):
                return True
            case Stage() if part.role == "next" and self.facts.bodies.step_of(step).is_once:
                return True
            case Stage():
                return False  # it depends on the number of items, and on the attempts before
            case EndStep():
                return is_sure and transition.kind != "failed" and not self._may_be_refused(step)
            case _:
                assert_never(part)

    def _is_decided(self, step: int, transition: Transition) -> bool | None:
        """Return whether constants make a condition take this branch; None where they do not decide.

        A branch that the step lacks is the ending `uncovered`.
        """
        decided = self.facts.decided_branch(step)
        if decided is None:
            return None
        if transition.kind == "uncovered":
            return all(other.branch != decided for other in self.flow.transitions[step])
        return transition.branch == decided

    def _may_fail(self, step: int) -> bool:
        """Whether an expression of a condition or a `set` may fail in some state; it is asked often."""
        known = self._failing.get(step)
        if known is None:
            is_sure = step not in self.doubtful and step not in self._unsure() and not self._computes(step)
            known = self._failing[step] = not is_sure or step in self.facts.large_values.steps
        return known

    def _may_be_refused(self, step: int) -> bool:
        """Whether the output of an `end` step in a body may be of a wrong type, or too large."""
        return self.facts.bodies.may_be_refused(step) or step in self.facts.large_values.steps

    def _may_not_start(self, step: int) -> bool:
        """Whether a for_each step or a call may fail before it starts: its items may be none, its first values may
        fail, or the called program may refuse its arguments."""
        part = self.flow.steps[step]
        if isinstance(part, InvokeStep) and not self._takes(part):
            return True
        return self._may_fail(step) or not self.facts.bodies.list_fits(step)

    def _takes(self, step: InvokeStep) -> bool:
        """Whether a called program certainly takes the arguments of its call, if they can be computed."""
        declared = step.declared
        is_whole = all(name in step.args or spec.has_default for name, spec in declared.items())
        return is_whole and all(
            name in declared and self.facts.fits(value, declared[name]) for name, value in step.args.items()
        )

    def _computes(self, step: int) -> bool:
        """Whether an expression of the step does arithmetic, and so may have too many digits."""
        trees = [clause.tree for clause in self.facts.meaning.clauses_of.get(step, ())]
        return any(
            isinstance(node, Arithmetic | Minus) and "number" in result_kinds(node)
            for tree in trees
            if tree is not None
            for node in walk(tree)
        )

    def is_real(self, bad: Bad) -> bool:
        """Return whether the machine would follow this path to its end: within visits and budget, and with the part
        started."""
        program = self.facts.program
        if bad.step in self.doubtful:
            return False
        if not self._visits_fit(bad):
            return False
        cost = sum(
            self.facts.cost(self.flow.position[move.step], failed="fails" in move.how or "times out" in move.how)
            for move in bad.path
            if move.how != USED_UP
        )
        cost += self._second_attempt(bad.step) if bad.kind == "retried" else 0
        if program.max_stalled_steps is not None and len(bad.path) > program.max_stalled_steps:
            return False
        return program.max_steps is None or cost <= program.max_steps

    def _second_attempt(self, step: int) -> int:
        """Return what a second attempt costs within a visit: with a round if only the whole step is retried."""
        parts = [part for _, part in self.flow.steps[step].calls if not self._is_idempotent(part)]
        return 1 if any(self.facts.failing.most_tries(part) > 1 for part in parts) else 2

    def _is_idempotent(self, part: AnyCall) -> bool:
        return isinstance(part, ToolCall) and self.facts.meaning.tool(part.tool).idempotent

    def _visits_fit(self, bad: Bad) -> bool:
        """Whether the path starts every bounded step as often as its bound allows, and passes it only after that."""
        started: Counter[str] = Counter()
        for move in bad.path:
            step = self.flow.steps[self.flow.position[move.step]]
            if step.max_visits is not None and (started[move.step] >= step.max_visits) != (move.how == USED_UP):
                return False
            started[move.step] += 1
        return True
