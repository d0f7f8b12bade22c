"""How the steps of a program fail: the names of their errors, and the transitions that these take."""

from __future__ import annotations

from functools import cached_property

from stepward.vm.expressions.syntax import all_references
from stepward.vm.expressions.template import embedded
from stepward.vm.language.failures import (
    BEFORE_CALL,
    BEFORE_ITEMS,
    most_tries,
    names_of,
    names_of_branches,
    names_of_items,
    started_names,
    tries,
    unstarted_names,
)
from stepward.vm.language.meaning import Meaning
from stepward.vm.language.steps import (
    AnyCall,
    AnyStep,
    BranchStep,
    Call,
    ComputeStep,
    Failing,
    ForEachStep,
    InvokeStep,
    ParallelStep,
    Stage,
)
from stepward.vm.language.steps.catching import DEPENDENCY, VISITS
from stepward.vm.language.transitions import Transition


class FailureNames:
    """The names of the errors in one program under its policies."""

    def __init__(self, meaning: Meaning) -> None:
        self.flow = meaning.flow
        self.has_names = meaning.program.language == 2
        self._meaning = meaning
        self._tool = meaning.tool

    def all(self, part: Failing) -> tuple[str, ...]:
        """Return all names with which a step or sub-step can fail."""
        return names_of(part, self._tool)

    def started(self, part: Failing) -> tuple[str, ...]:
        """Return the names with which a step or sub-step can fail after its call, or one of its calls, has started."""
        return started_names(part, self._tool)

    def unstarted(self, part: Failing) -> tuple[str, ...]:
        """Return the names with which a step or sub-step can fail before its call starts."""
        return unstarted_names(part)

    def tries(self, call: AnyCall | Call, name: str) -> int:
        """Return the attempts of a call that always fails with this error; a `compute` step has one."""
        if isinstance(call, ComputeStep):
            return 1
        return tries(call, name, self._tool)  # type: ignore[arg-type]

    def least_tries(self, call: AnyCall | Call) -> int:
        """Return the least attempts of a call that fails in the end."""
        return min(self.tries(call, name) for name in self.started(call))

    def most_tries(self, call: AnyCall | Call) -> int:
        """Return the most attempts of a call that fails in the end."""
        if isinstance(call, ComputeStep):
            return 1
        return most_tries(call, self._tool)  # type: ignore[arg-type]

    def retried(self, call: AnyCall | Call) -> str | None:
        """Return a name after which a call is tried again, None if there is none."""
        return next((name for name in self.started(call) if self.tries(call, name) > 1), None)

    def may_take(self, number: int, transition: Transition) -> bool:
        """Return whether some failure takes a transition of kind `failed`, and not one before it."""
        if transition.errors is None and transition == self._failures(number)[0]:
            return True  # the only one
        return any(self.flow.failure(number, name) == transition for name in self._leaving(number, is_sure=False))

    def surely_takes(self, number: int, transition: Transition) -> str | None:
        """Return the name of a failure that takes a transition and can happen in any run; None if there is none."""
        if transition.kind not in ("failed", "skipped"):
            return None
        names = self._leaving(number, is_sure=True)
        return next((name for name in names if self.flow.failure(number, name) == transition), None)

    def _failures(self, number: int) -> list[Transition]:
        return [one for one in self.flow.transitions[number] if one.kind == "failed"]

    def _leaving(self, number: int, *, is_sure: bool) -> tuple[str, ...]:
        step = self.flow.steps[number]
        if isinstance(step, Stage | ForEachStep):
            return () if is_sure else self.at(number)
        assert isinstance(step, Failing)
        if is_sure:
            return self.started(step)
        return tuple(name for name in self.all(step) if name != VISITS)

    def at(self, number: int) -> tuple[str, ...]:
        """Return the names with which a for_each step can fail at its start or at one of its stages: one of each group
        that nothing in the program tells apart."""
        step, fork = self.flow.steps[number], self.flow.layout.fork_of(number)
        if fork is not None:
            whole = self.flow.steps[fork.owner]
            assert isinstance(whole, ParallelStep)
            return self.groups(number, whole, names_of_branches(whole, self._tool))
        owner = self.flow.steps[self.flow.layout.body_of(number).owner] if isinstance(step, Stage) else step
        assert isinstance(owner, ForEachStep)
        return self.groups(number, owner, self._between(owner, step))

    def _between(self, owner: ForEachStep, step: AnyStep) -> tuple[str, ...]:
        if isinstance(step, BranchStep):
            return (DEPENDENCY,) if step.needs else ()
        if not isinstance(step, Stage):
            return BEFORE_CALL if isinstance(step, InvokeStep) else BEFORE_ITEMS
        return names_of_items(owner, self._tool) if step.role == "failed" else ()

    def groups(self, number: int, part: Failing, names: tuple[str, ...]) -> tuple[str, ...]:
        """Return one of each group of names that nothing in the program tells apart: they take the same transition of
        the step, after the same number of attempts, and no expression reads them."""
        step = self.flow.steps[number]
        if not self.has_names:
            return names[:1]
        if step.id in self.read or part.id in self.read:
            return names
        groups: dict[object, str] = {}
        for name in names:
            cost = self.tries(part, name) if isinstance(part, Call) else 0
            leads = not step.sub_steps or part is step or part.on_error != "skip"  # else the step goes on
            groups.setdefault((self.flow.failure(number, name) if leads else None, cost), name)
        return tuple(groups.values())

    @cached_property
    def read(self) -> frozenset[str]:
        """The ids of the steps whose `error_name` an expression, a text or a rule reads."""
        if not self.has_names:
            return frozenset()
        meaning = self._meaning
        names = [
            reference.names
            for clause in meaning.clauses
            if clause.tree is not None
            for reference in all_references(clause.tree)
        ]
        for step in meaning.flow.steps:
            names += [locations.reference.names for one in step.templates for locations in embedded(one.value)]
        locations = {meaning.names.locate(one) for one in names}
        in_rules = [text for _, text in meaning.whens]
        in_rules += [entry.when or "" for policy in meaning.policies for entry in policy.allow or ()]
        named_in_rules = {
            part for part in meaning.names.outputs if any(f"${part}.error_name" in text for text in in_rules)
        }
        return (
            frozenset(one[0][0] for one in locations if one is not None and one[0][1:] == ("error_name",))
            | named_in_rules
        )
