"""The transitions of each step, written from the language's page (specs/language.md, "Control flow" and "Failure")."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Final, Literal, NamedTuple, assert_never

from stepward.validator.recheck.refusals import Unreadable
from stepward.vm.language.layout import Body, Layout
from stepward.vm.language.steps import (
    AnyStep,
    BranchStep,
    ComputeStep,
    ConditionStep,
    EndStep,
    FailingStep,
    ForEachStep,
    LlmStep,
    ParallelStep,
    Routed,
    SetStep,
    Stage,
    ToolStep,
    WaitStep,
)

END: Final = -1
"""The target of a transition that ends the run; it has a status."""

Kind = Literal["success", "fallback", "skipped", "failed", "branch", "uncovered", "visits", "end", "item", "again"]
"""The outcome of the step: `visits` means that it was not started again, `uncovered` that a condition has no branch."""


class Transition(NamedTuple):
    """A transition to another step, by position, or to the end of the run, then with a status.

    `branch` is `then`, `otherwise`, or the number of a case, counted from 1. `errors` are those that a `catch` names.
    `closes` is the status with which it ends the body in which the step is; it then leads to a stage of the step with
    the body.
    """

    kind: Kind
    to: int
    status: str | None = None
    branch: str | int | None = None
    errors: tuple[str, ...] | None = None
    closes: str | None = None


def takes(errors: tuple[str, ...] | None, name: str) -> bool:
    """Return whether a list of errors has a name; None is a list of all."""
    return errors is None or name in errors or "any" in errors


FAILS: Final = Transition("failed", END, "FAILED")
UNCOVERED: Final = Transition("uncovered", END, "FAILED")


class Control:
    """The control flow of the steps of a program; raises Unreadable where it is not well defined."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.steps = steps = layout.steps
        self._joins = {fork.join: owner for owner, fork in layout.forks.items()}
        self._of_stage = {stage: body for body in layout.bodies.values() for stage in (body.next, body.failed)}
        self._above = {layout.after(number): number for number in range(len(steps))}
        self.position: dict[str, int] = {}
        for number, step in enumerate(steps):
            self.position.setdefault(step.id, number)
        self.arms = frozenset(target for step in steps for target in step.targets)
        self.transitions: list[tuple[Transition, ...]] = [
            tuple(self._transitions(number, step)) for number, step in enumerate(steps)
        ]

    @cached_property
    def reachable(self) -> frozenset[int]:
        """The steps to which a path leads from the first one."""
        reached, left = {0}, [0]
        while left:
            new = set(self.following[left.pop()]) - reached
            reached |= new
            left += new
        return frozenset(reached)

    @cached_property
    def following(self) -> list[tuple[int, ...]]:
        """The steps that may follow each step, each once."""
        return [
            tuple(dict.fromkeys([transition.to for transition in transitions if transition.to != END]))
            for transitions in self.transitions
        ]

    @cached_property
    def before(self) -> list[list[int]]:
        """The steps that each step may follow."""
        predecessors: list[list[int]] = [[] for _ in self.steps]
        for number, targets in enumerate(self.following):
            for target in targets:
                predecessors[target].append(number)
        return predecessors

    @cached_property
    def ends(self) -> list[tuple[Transition, ...]]:
        """The transitions by which each step may end the run."""
        return [
            tuple([transition for transition in transitions if transition.to == END])
            for transitions in self.transitions
        ]

    def _target(self, number: int, name: str) -> int:
        target = self.position.get(name)
        if (
            target is None
            or isinstance(self.steps[target], BranchStep)
            or self.layout.owner(target) != self.layout.owner(number)
        ):
            raise Unreadable(f"the program does not say where control goes: it has no step `{name}` there")
        return target

    def _ended(self, number: int, kind: Kind, status: str) -> Transition:
        """Return the transition that ends the run, or the body in which the step is."""
        owner = self.layout.owner(number)
        if owner is None:
            return Transition(kind, END, status)
        body = self.layout.bodies[owner]
        stage = body.next if status == "SUCCESS" or body.failed is None else body.failed
        return Transition(kind, stage, closes=status)

    def _transitions(self, number: int, step: AnyStep) -> Iterator[Transition]:
        if number in self.layout.forked:
            yield from self._forked(number, step)
            return
        match step:
            case EndStep():
                yield self._ended(number, "end", _status(step.outcome))
                if self.layout.owner(number) is not None:
                    yield self._ended(number, "failed", "FAILED")  # its output can't be evaluated
                return
            case Stage():
                yield from self._between(self._of_stage[number], step)
                return
            case ConditionStep():
                yield from self._branches(number, step)
                beyond = None
            case SetStep() | WaitStep():
                yield self._after(number, step)
                yield self._ended(number, "failed", "FAILED")  # an expression has no value, or it is no time
                beyond = None
            case ForEachStep():
                yield Transition("success", self._begins(self.layout.bodies[number], step))
                yield from self._failures(number, step, self._after(number, step))
                beyond = self._beyond(number, step)
            case LlmStep() | ToolStep() | ParallelStep() | ComputeStep():
                after = self._after(number, step)
                yield after
                yield from self._failures(number, step, after)
                beyond = self._beyond(number, step)
            case _:
                assert_never(step)
        if step.max_visits is not None:
            if beyond is not None:
                yield Transition("visits", beyond.to)  # once; the second time the run stalls
            yield self._ended(number, "visits", "STALLED")

    def _forked(self, number: int, step: AnyStep) -> Iterator[Transition]:
        """Yield the transitions of a step with branches, of the start of one, or of the stage behind them."""
        if isinstance(step, Stage):
            yield from self._behind(self._joins[number])
        elif isinstance(step, BranchStep):
            yield Transition("success", self.layout.bodies[number].first)
            if step.needs:
                yield self._after(number, step)._replace(kind="skipped")
        else:
            assert isinstance(step, ParallelStep)
            yield Transition("success", self.layout.forks[number].branches[0])
            beyond = self._beyond(number, step)
            if step.max_visits is not None and beyond is not None:
                yield Transition("visits", beyond.to)
            if step.max_visits is not None:
                yield self._ended(number, "visits", "STALLED")

    def _beyond(self, number: int, step: FailingStep) -> Transition | None:
        """Return the transition of the first visit too many, None if it stalls the run."""
        return next((one for one in self._caught(number, step) if takes(one.errors, "Visits")), None)

    def _between(self, body: Body, stage: Stage) -> Iterator[Transition]:
        """Yield the transitions between items, and those of the step behind them."""
        step = self.steps[body.owner]
        assert isinstance(step, ForEachStep)
        after = self._after(body.owner, step)
        if stage.role == "next":
            if not step.is_once:
                yield Transition("item", body.first)
            yield after
            return
        yield from self._failures(body.owner, step, after)
        if step.max_concurrency > 1:
            yield Transition("item", body.next)  # to those that were under way
        if step.on_error == "retry":
            yield Transition("again", self._begins(body, step))

    def _begins(self, body: Body, step: ForEachStep) -> int:
        """Return where a body begins: between its items, or, if it is performed once, at its first step."""
        return body.first if step.is_once else body.next

    def _behind(self, owner: int) -> Iterator[Transition]:
        """Yield the transitions of a parallel step behind its branches."""
        step = self.steps[owner]
        assert isinstance(step, ParallelStep)
        after = self._after(owner, step)
        yield after
        yield from self._failures(owner, step, after)

    def _after(self, number: int, step: Routed) -> Transition:
        """Return the transition after a success: the first of the rules 1 to 4 that applies."""
        if step.next_step is not None:
            return Transition("success", self._target(number, step.next_step))
        following, is_arm = self.layout.after(number), step.id in self.arms
        if step.is_terminal or following is None:
            return self._ended(number, "success", _status(step.outcome))
        if not is_arm:
            return Transition("success", following)
        above = self._above.get(number)
        if self.position[step.id] == number and (above is None or self._falls_through(self.steps[above])):
            raise Unreadable(f"the program does not say where control goes after `{step.id}`")
        return self._ended(number, "success", _status(step.outcome))

    def _falls_through(self, step: AnyStep) -> bool:
        return isinstance(step, Routed) and step.next_step is None and not step.is_terminal and step.id not in self.arms

    def _failures(
        self, number: int, step: LlmStep | ToolStep | ParallelStep | ForEachStep | ComputeStep, after: Transition
    ) -> Iterator[Transition]:
        if isinstance(step, ParallelStep):
            if step.parallel_steps and all(part.on_error == "skip" for part in step.parallel_steps):
                return
        elif not isinstance(step, ForEachStep) and step.on_timeout == "fallback":
            yield after._replace(kind="fallback")
        if step.on_error == "skip":
            yield after._replace(kind="skipped")
        caught = self._caught(number, step)
        yield from caught
        if step.on_error != "skip" and not any(one.errors is None or "any" in one.errors for one in caught):
            yield self._ended(number, "failed", "FAILED")

    def _caught(self, number: int, step: FailingStep) -> list[Transition]:
        """Return the transitions of `catch` in order, or that of `error_step`."""
        if step.error_step is not None:
            return [Transition("failed", self._target(number, step.error_step))]
        return [Transition("failed", self._target(number, one.then), errors=one.errors) for one in step.catch or ()]

    def _branches(self, number: int, step: ConditionStep) -> Iterator[Transition]:
        if step.then is not None:
            yield Transition("branch", self._target(number, step.then), branch="then")
        for case_number, case in enumerate(step.cases or (), start=1):
            yield Transition("branch", self._target(number, case.then), branch=case_number)
        if step.otherwise is not None:
            yield Transition("branch", self._target(number, step.otherwise), branch="otherwise")
        if not has_every_branch(step):
            yield self._ended(number, "uncovered", "FAILED")
        yield self._ended(number, "failed", "FAILED")


def has_every_branch(step: ConditionStep) -> bool:
    """Return whether a condition has a branch for every outcome."""
    return step.otherwise is not None and (step.cases is not None or step.then is not None)


def _status(outcome: str | None) -> str:
    return "FAILED" if outcome == "failure" else "SUCCESS"
