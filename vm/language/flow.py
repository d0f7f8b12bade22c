"""Control flow: the transitions between the steps of a program (specs/language.md, "Control flow").

The machine, the checker, the diagrams and the sabotage oracle all take it from here.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from stepward.vm.language.program import Program
from stepward.vm.language.steps import AnyStep, FailingStep, Routed
from stepward.vm.language.transitions import DECLARED_FAILURE, END, MISSING, STALLED, SUCCEEDED, Exit, Transition


class Flow:
    """The control flow of a program. Steps are numbered by their position in the list."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.steps = program.steps
        self.position: dict[str, int] = {}
        for number, step in enumerate(program.steps):  # if two steps have one id (SW005), a target means the first
            self.position.setdefault(step.id, number)

    @cached_property
    def arms(self) -> frozenset[str]:
        """The ids that a branch, a case, an `error_step` or a `catch` names."""
        return frozenset(target for step in self.steps for target in step.targets)

    @cached_property
    def transitions(self) -> list[tuple[Transition, ...]]:
        """The transitions that leave each step, by position."""
        return [self._transitions(number, step) for number, step in enumerate(self.steps)]

    def _transitions(self, number: int, step: AnyStep) -> tuple[Transition, ...]:
        found = [self._transition(number, step, exit) for exit in step.exits]
        if number in self.ambiguous_arms:
            found.insert(1, Transition("success", number + 1))
        if step.max_visits is None:
            return tuple(found)
        if isinstance(step, FailingStep) and step.after_visits is not None:
            # The first visit too many goes where an error leads; the second one stalls the run.
            found.append(self._transition(number, step, step.after_visits))
        return (*found, self._transition(number, step, STALLED))

    def _transition(self, number: int, step: AnyStep, exit: Exit) -> Transition:
        """Return the transition that an exit of a step becomes in this program."""
        if exit.ending is not None:
            return Transition(exit.kind, END, exit.ending, errors=exit.errors)
        if exit.target is not None:
            to = self.position.get(exit.target, MISSING)
            return Transition(exit.kind, to, None, exit.branch, exit.field, exit.errors)
        assert isinstance(step, Routed)
        if step.next_step is not None:
            return Transition(exit.kind, self.position.get(step.next_step, MISSING), None, None, ("next_step",))
        if step.is_terminal or step.id in self.arms or number + 1 == len(self.steps):
            return Transition(exit.kind, END, DECLARED_FAILURE if step.outcome == "failure" else SUCCEEDED)
        return Transition(exit.kind, number + 1)

    def failure(self, number: int, name: str) -> Transition:
        """Return the transition of a step that fails with an error of this name."""
        failures = (one for one in self.transitions[number] if one.kind in ("failed", "skipped"))
        return next(one for one in failures if one.takes(name))

    @cached_property
    def successors(self) -> list[tuple[int, ...]]:
        """The steps that may follow each step, by position and without repetition."""
        return [tuple(dict.fromkeys(one.to for one in leaving if one.to >= 0)) for leaving in self.transitions]

    @cached_property
    def predecessors(self) -> list[list[int]]:
        """The steps that may precede each step, by position."""
        result: list[list[int]] = [[] for _ in self.steps]
        for number, following in enumerate(self.successors):
            for target in following:
                result[target].append(number)
        return result

    @cached_property
    def has_missing_target(self) -> bool:
        """Whether the program names a step that it does not have."""
        return any(one.to == MISSING for leaving in self.transitions for one in leaving)

    def falls_through(self, number: int) -> bool:
        """Return whether control goes from this step to the next in the list by default (rule 4)."""
        step = self.steps[number]
        return _has_default_successor(step) and step.id not in self.arms

    @cached_property
    def ambiguous_arms(self) -> frozenset[int]:
        """The steps at which rules 3 and 4 contradict each other (SW106): they get both transitions.

        They are arms without a stated successor that are also reached from the step above, or when a run starts. The
        checker refuses such a program.
        """
        return frozenset(
            number
            for number in map(self.position.get, self.arms)  # if two steps have one id, the first is the arm
            if number is not None
            and number + 1 < len(self.steps)
            and _has_default_successor(self.steps[number])
            and (number == 0 or self.falls_through(number - 1))
        )

    def is_arm_without_successor(self, number: int) -> bool:
        """Return whether the run ends after this step because it is an arm without a stated successor (rule 3)."""
        step = self.steps[number]
        is_last = number + 1 == len(self.steps)
        return (
            _has_default_successor(step) and not is_last and step.id in self.arms and number not in self.ambiguous_arms
        )


def _has_default_successor(step: AnyStep) -> bool:
    """Return whether a step has a successor that it does not name."""
    return isinstance(step, Routed) and step.next_step is None and not step.is_terminal


def target_at(step: AnyStep, field: tuple[str | int, ...]) -> str:
    """Return the id that a field of a step names; `field` is its path, such as `("cases", 0, "then")`."""
    value: Any = step
    for part in field:
        value = value[part] if isinstance(part, int) else getattr(value, part)
    return str(value)
