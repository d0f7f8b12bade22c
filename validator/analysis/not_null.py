"""Which references are certainly not null where a step begins, by data flow.

A test for null, a comparison that fails at null, and an assignment of another value establish it, until the name is
assigned again. It must hold on every path of edges to the step, for any outcome of the conditions on the path.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import assert_never

from stepward.validator.analysis.assignment import (
    NAMES_AT_ONCE,
    Assignment,
    Effect,
    assigned_names,
    output_names,
)
from stepward.validator.analysis.bodies import own_names
from stepward.validator.analysis.changed_fields import changed_paths, lost_by_set
from stepward.validator.analysis.readings import Names
from stepward.vm.expressions.inside import leaf
from stepward.vm.expressions.syntax import Constant, Reference
from stepward.vm.language.names import Resolution
from stepward.vm.language.steps import (
    Call,
    ComputeStep,
    ConditionStep,
    EndStep,
    Failing,
    ForEachStep,
    LlmStep,
    ParallelStep,
    SetStep,
    Stage,
    ToolStep,
    WaitStep,
)
from stepward.vm.language.transitions import Transition


class NotNull:
    """The references that are certainly not null in one program. Only references that a step reads are tracked."""

    def __init__(self, assignment: Assignment) -> None:
        self.assignment = assignment
        self.facts = assignment.facts
        self.typing = assignment.typing

    def at(self, number: int, names: Iterable[Names]) -> frozenset[Names]:
        """Return the names among `names` that may be null by their types and certainly are not where a step begins."""
        states = ((name, self._states.get(name)) for name in names)
        return frozenset(name for name, known in states if known is not None and (known[0][number] or 0) & known[1])

    @cached_property
    def _states(self) -> dict[Names, tuple[list[int | None], int]]:
        """For each nullable reference: the states of its data-flow pass, and its bit in them."""
        readings = self.assignment.readings
        keys = list(dict.fromkeys(one.reference.names for one in readings if self._is_nullable(one.resolution)))
        by_name: dict[Names, tuple[list[int | None], int]] = {}
        for start in range(0, len(keys), NAMES_AT_ONCE):
            batch = keys[start : start + NAMES_AT_ONCE]
            states = self.assignment.states(batch, self._effect)
            by_name.update((key, (states, 1 << bit)) for bit, key in enumerate(batch))
        return by_name

    def _is_nullable(self, resolution: Resolution | None) -> bool:
        if resolution is None:
            return False
        view = self.typing.view(resolution)
        if view.is_known:
            return "null" in view.kinds and len(view.kinds) > 1
        return any(kinds is None or "null" in kinds for kinds in self.facts.given_by_bodies.kinds_given(resolution))

    def _effect(self, number: int, transition: Transition) -> Effect:
        """Return the effect of a transition: the references that are certainly not null after it, and those that may be
        null again."""
        step = self.facts.flow.steps[number]
        maybe_null = frozenset(assigned_names(step))
        not_null: frozenset[Names] = frozenset()
        match step:
            case ConditionStep():
                not_null = self.assignment.branch_facts(number, step, transition).not_null
            case SetStep():
                maybe_null = lost_by_set(self.facts.meaning, number)
                if transition.kind == "success":
                    not_null = frozenset(self._assigned(number, step))
            case ParallelStep() if step.branches:
                pass
            case LlmStep() | ToolStep() | ParallelStep() | ComputeStep():
                if transition.kind in ("success", "fallback"):
                    not_null = frozenset(self._given(step, transition))
            case ForEachStep():
                maybe_null |= frozenset(own_names(step))
            case Stage() if (joined := self.facts.bodies.joined(number)) is not None:
                maybe_null |= frozenset(assigned_names(joined))
            case Stage():
                body = self.facts.bodies.of_stages[number]
                whole = self.facts.bodies.step_of(number)
                carried = frozenset((name,) for name in whole.carry)
                cleared = carried if transition.kind not in ("item", "success") else frozenset[Names]()
                maybe_null |= self.facts.bodies.locals(body.owner) | own_names(whole) | cleared
            case WaitStep() | EndStep():
                pass
            case _:
                assert_never(step)
        ending = transition.ending
        owner = self.facts.bodies.reverts(number, ending.status if ending is not None else None)
        if owner is not None:  # the carried variables have the values from before the item
            maybe_null |= frozenset((name,) for name in self.facts.bodies.each(owner).carry)
            not_null -= maybe_null
        return Effect(not_null, maybe_null)

    def _assigned(self, number: int, step: SetStep) -> Iterator[Names]:
        trees = {clause.name: clause.tree for clause in self.facts.meaning.clauses_of.get(number, ())}
        yield from ((name,) for name, value in step.assigns.items() if _is_no_null(trees.get(name, value)))
        for path in changed_paths(self.facts.meaning, number):
            part = leaf(tree, path[1:]).tree if (tree := trees[path[0]]) is not None else None
            yield from [path] if part is not None and _is_no_null(part) else []

    def _given(self, step: LlmStep | ToolStep | ParallelStep | ComputeStep, transition: Transition) -> Iterator[Names]:
        """Yield the names that certainly have a value other than null when a step is left with an output."""
        parts: tuple[Failing, ...] = step.sub_steps
        sure: dict[Names, bool] = {}
        for part in (*parts, step):
            may_fall_back = isinstance(part, Call) and (part.on_timeout == "fallback" or transition.kind == "fallback")
            is_there = part is step or part.on_error != "skip"
            view = self.typing.view(Resolution((self.assignment.names.outputs[part.id],), ()))
            is_sure = is_there and not may_fall_back and view.is_known and "null" not in view.kinds
            for name in output_names(part):
                sure[name] = sure.get(name, True) and is_sure
        return (name for name, is_sure in sure.items() if is_sure)


def _is_no_null(value: object) -> bool:
    """Return whether a value of a `set`, an expression or plain data, is certainly not null."""
    if isinstance(value, Constant):
        return value.value is not None
    return value is not None and not isinstance(value, Reference)
