"""The transitions of each step, written from the language's page (specs/language.md, "Control flow" and "Failure")."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Final, Literal, NamedTuple, assert_never

from stepward.validator.recheck.refusals import Unreadable
from stepward.vm.language.steps import (
    AnyStep,
    ComputeStep,
    ConditionStep,
    EndStep,
    LlmStep,
    ParallelStep,
    Routed,
    SetStep,
    ToolStep,
)

END: Final = -1
"""The target of a transition that ends the run; it has a status."""

Kind = Literal["success", "fallback", "skipped", "failed", "branch", "uncovered", "visits", "end"]
"""The outcome of the step: `visits` means that it was not started again, `uncovered` that a condition has no branch."""


class Transition(NamedTuple):
    """A transition to another step, by position, or to the end of the run, then with a status.

    `branch` is `then`, `otherwise`, or the number of a case, counted from 1. `errors` are those that a `catch` names.
    """

    kind: Kind
    to: int
    status: str | None = None
    branch: str | int | None = None
    errors: tuple[str, ...] | None = None


def takes(errors: tuple[str, ...] | None, name: str) -> bool:
    """Return whether a list of errors has a name; None is a list of all."""
    return errors is None or name in errors or "any" in errors


FAILS: Final = Transition("failed", END, "FAILED")
UNCOVERED: Final = Transition("uncovered", END, "FAILED")
STALLS: Final = Transition("visits", END, "STALLED")


class Control:
    """The control flow of the steps of a program; raises Unreadable where it is not well defined."""

    def __init__(self, steps: Sequence[AnyStep]) -> None:
        self.steps = steps
        self.position: dict[str, int] = {}
        for number, step in enumerate(steps):
            self.position.setdefault(step.id, number)
        self.arms = frozenset(target for step in steps for target in step.targets)
        self.transitions: list[tuple[Transition, ...]] = [
            tuple(self._transitions(number, step)) for number, step in enumerate(steps)
        ]

    @cached_property
    def following(self) -> list[tuple[int, ...]]:
        """The steps that may follow each step, each once."""
        return [
            tuple(dict.fromkeys(transition.to for transition in transitions if transition.to != END))
            for transitions in self.transitions
        ]

    @cached_property
    def ends(self) -> list[tuple[Transition, ...]]:
        """The transitions by which each step may end the run."""
        return [
            tuple(transition for transition in transitions if transition.to == END) for transitions in self.transitions
        ]

    def _target(self, name: str) -> int:
        found = self.position.get(name)
        if found is None:
            raise Unreadable(f"the program does not say where control goes: it has no step `{name}`")
        return found

    def _transitions(self, number: int, step: AnyStep) -> Iterator[Transition]:
        match step:
            case EndStep():
                yield Transition("end", END, _status(step.outcome))
                return
            case ConditionStep():
                yield from self._branches(step)
                beyond = None
            case SetStep():
                yield self._after(number, step)
                yield FAILS  # an expression has no value
                beyond = None
            case LlmStep() | ToolStep() | ParallelStep() | ComputeStep():
                after = self._after(number, step)
                yield after
                yield from self._failures(step, after)
                beyond = next((one for one in self._caught(step) if takes(one.errors, "Visits")), None)
            case _:
                assert_never(step)
        if step.max_visits is not None:
            if beyond is not None:
                yield Transition("visits", beyond.to)  # once; the second time the run stalls
            yield STALLS

    def _after(self, number: int, step: Routed) -> Transition:
        """Return the transition after a success: the first of the rules 1 to 4 that applies."""
        if step.next_step is not None:
            return Transition("success", self._target(step.next_step))
        is_last, is_arm = number + 1 == len(self.steps), step.id in self.arms
        if step.is_terminal or is_last:
            return Transition("success", END, _status(step.outcome))
        if not is_arm:
            return Transition("success", number + 1)
        if self.position[step.id] == number and (number == 0 or self._falls_through(self.steps[number - 1])):
            raise Unreadable(f"the program does not say where control goes after `{step.id}`")
        return Transition("success", END, _status(step.outcome))

    def _falls_through(self, step: AnyStep) -> bool:
        return isinstance(step, Routed) and step.next_step is None and not step.is_terminal and step.id not in self.arms

    def _failures(
        self, step: LlmStep | ToolStep | ParallelStep | ComputeStep, after: Transition
    ) -> Iterator[Transition]:
        if isinstance(step, ParallelStep):
            if all(part.on_error == "skip" for part in step.parallel_steps):
                return
        elif step.on_timeout == "fallback":
            yield after._replace(kind="fallback")
        if step.on_error == "skip":
            yield after._replace(kind="skipped")
        caught = self._caught(step)
        yield from caught
        if step.on_error != "skip" and not any(one.errors is None or "any" in one.errors for one in caught):
            yield FAILS

    def _caught(self, step: LlmStep | ToolStep | ParallelStep | ComputeStep) -> list[Transition]:
        """Return the transitions of `catch` in order, or that of `error_step`."""
        if step.error_step is not None:
            return [Transition("failed", self._target(step.error_step))]
        return [Transition("failed", self._target(one.then), errors=one.errors) for one in step.catch or ()]

    def _branches(self, step: ConditionStep) -> Iterator[Transition]:
        if step.then is not None:
            yield Transition("branch", self._target(step.then), branch="then")
        for number, case in enumerate(step.cases or (), start=1):
            yield Transition("branch", self._target(case.then), branch=number)
        if step.otherwise is not None:
            yield Transition("branch", self._target(step.otherwise), branch="otherwise")
        if not has_every_branch(step):
            yield UNCOVERED
        yield FAILS


def has_every_branch(step: ConditionStep) -> bool:
    """Return whether a condition has a branch for every outcome."""
    return step.otherwise is not None and (step.cases is not None or step.then is not None)


def _status(outcome: str | None) -> str:
    return "FAILED" if outcome == "failure" else "SUCCESS"
