"""Control flow: the one function that says where a run goes after a step (specs/language.md, "Control flow").

The machine, the checker, the diagrams and the sabotage oracle read it from here, and from nowhere else.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from stepward.vm.language.program import Program
from stepward.vm.language.steps import AnyStep, FailingStep, Routed
from stepward.vm.language.transitions import DECLARED_FAILURE, END, MISSING, STALLED, SUCCEEDED, Exit, Transition


class Flow:
    """The control flow of a program: for each step, by its position, every way out of it."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.steps = program.steps
        self.position: dict[str, int] = {}
        for number, step in enumerate(program.steps):  # of two steps with one id (SW005) targets mean the first
            self.position.setdefault(step.id, number)

    @cached_property
    def arms(self) -> frozenset[str]:
        """The ids that a branch, a case or an `error_step` names."""
        return frozenset(target for step in self.steps for target in step.targets)

    @cached_property
    def transitions(self) -> list[tuple[Transition, ...]]:
        """Every way out of every step, by its position."""
        return [self._transitions(number, step) for number, step in enumerate(self.steps)]

    def _transitions(self, number: int, step: AnyStep) -> tuple[Transition, ...]:
        ways = [self._transition(number, step, way) for way in step.exits]
        if number in self.ambiguous_arms:
            ways.insert(1, Transition("success", number + 1))
        if step.max_visits is None:
            return tuple(ways)
        if isinstance(step, FailingStep) and step.error_step is not None:
            # Once; the second time the run stalls.
            ways.append(self._transition(number, step, Exit("visits", step.error_step, ("error_step",))))
        return (*ways, self._transition(number, step, STALLED))

    def _transition(self, number: int, step: AnyStep, way: Exit) -> Transition:
        """Return where a way out of a step leads in this program."""
        if way.ending is not None:
            return Transition(way.kind, END, way.ending)
        if way.target is not None:
            return Transition(way.kind, self.position.get(way.target, MISSING), None, way.branch, way.field)
        assert isinstance(step, Routed)
        if step.next_step is not None:
            return Transition(way.kind, self.position.get(step.next_step, MISSING), None, None, ("next_step",))
        if step.is_terminal or step.id in self.arms or number + 1 == len(self.steps):
            return Transition(way.kind, END, DECLARED_FAILURE if step.outcome == "failure" else SUCCEEDED)
        return Transition(way.kind, number + 1)

    @cached_property
    def successors(self) -> list[tuple[int, ...]]:
        """The steps that may follow each step, by position and without repetition."""
        return [tuple(dict.fromkeys(way.to for way in ways if way.to >= 0)) for ways in self.transitions]

    @cached_property
    def predecessors(self) -> list[list[int]]:
        """The steps that each step may follow."""
        result: list[list[int]] = [[] for _ in self.steps]
        for number, following in enumerate(self.successors):
            for target in following:
                result[target].append(number)
        return result

    @cached_property
    def has_missing_target(self) -> bool:
        """Whether the program names a step that it does not have."""
        return any(way.to == MISSING for ways in self.transitions for way in ways)

    def falls_through(self, number: int) -> bool:
        """Return whether control goes from this step to the next in the list because nothing else is said (rule 4)."""
        step = self.steps[number]
        return _says_nothing(step) and step.id not in self.arms

    @cached_property
    def ambiguous_arms(self) -> frozenset[int]:
        """The steps at which rules 3 and 4 clash (SW106): both ways out are given, and the program is refused.

        They are arms that say nothing, and control gets to them otherwise, too: from the step above or as a run starts.
        """
        return frozenset(
            number
            for number in map(self.position.get, self.arms)  # of two steps with one id the first is the arm
            if number is not None
            and number + 1 < len(self.steps)
            and _says_nothing(self.steps[number])
            and (number == 0 or self.falls_through(number - 1))
        )

    def is_arm_without_successor(self, number: int) -> bool:
        """Return whether the run ends after this step because it is an arm that does not say where to go (rule 3)."""
        step = self.steps[number]
        is_last = number + 1 == len(self.steps)
        return _says_nothing(step) and not is_last and step.id in self.arms and number not in self.ambiguous_arms


def _says_nothing(step: AnyStep) -> bool:
    """Return whether a step goes on to a successor, and does not say itself which one."""
    return isinstance(step, Routed) and step.next_step is None and not step.is_terminal


def target_at(step: AnyStep, field: tuple[str | int, ...]) -> str:
    """Return the step that a field of a step names, such as that of a case."""
    value: Any = step
    for part in field:
        value = value[part] if isinstance(part, int) else getattr(value, part)
    return str(value)
