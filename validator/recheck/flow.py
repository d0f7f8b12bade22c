"""Where control goes after a step, read from the language's page (specs/language.md, "Control flow" and "Failure")."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Final, Literal, NamedTuple

from stepward.validator.recheck.refusals import Unreadable
from stepward.vm.language.steps import AnyStep, Call, ConditionStep, EndStep, ParallelStep, Routed

END: Final = -1
"""The run ends: the way has a status."""

Kind = Literal["success", "fallback", "skipped", "failed", "branch", "uncovered", "visits", "end"]
"""What became of the step: `visits` says that it was not started again, `uncovered` that a condition has no branch."""


class Way(NamedTuple):
    """A way out of a step: to another step, by its position, or to the end of the run, which has a status then.

    `branch` is `then`, `otherwise`, or the number of a case, counted from 1.
    """

    kind: Kind
    to: int
    status: str | None = None
    branch: str | int | None = None


FAILS: Final = Way("failed", END, "FAILED")
UNCOVERED: Final = Way("uncovered", END, "FAILED")
STALLS: Final = Way("visits", END, "STALLED")


class Control:
    """The control flow of the steps of a program; raises Unreadable where they do not say where control goes."""

    def __init__(self, steps: Sequence[AnyStep]) -> None:
        self.steps = steps
        self.position: dict[str, int] = {}
        for number, step in enumerate(steps):
            self.position.setdefault(step.id, number)
        self.arms = frozenset(target for step in steps for target in _named(step))
        self.ways: list[tuple[Way, ...]] = [tuple(self._ways(number, step)) for number, step in enumerate(steps)]

    @cached_property
    def following(self) -> list[tuple[int, ...]]:
        """The steps that may follow each step, each once."""
        return [tuple(dict.fromkeys(way.to for way in ways if way.to != END)) for ways in self.ways]

    @cached_property
    def ends(self) -> list[tuple[Way, ...]]:
        """The ways by which each step may end the run."""
        return [tuple(way for way in ways if way.to == END) for ways in self.ways]

    def _target(self, name: str) -> int:
        found = self.position.get(name)
        if found is None:
            raise Unreadable(f"the program does not say where control goes: it has no step `{name}`")
        return found

    def _ways(self, number: int, step: AnyStep) -> Iterator[Way]:
        match step:
            case EndStep():
                yield Way("end", END, _status(step.outcome))
                return
            case ConditionStep():
                yield from self._branches(step)
                error_step = None
            case _:
                after = self._after(number, step)
                yield after
                error_step = getattr(step, "error_step", None)
                yield from self._failures(step, after, error_step)
        if step.max_visits is not None:
            if error_step is not None:
                yield Way("visits", self._target(error_step))  # once; the second time the run stalls
            yield STALLS

    def _after(self, number: int, step: Routed) -> Way:
        """Return the way after a success: the first of the rules 1 to 4 that says something."""
        if step.next_step is not None:
            return Way("success", self._target(step.next_step))
        is_last, is_arm = number + 1 == len(self.steps), step.id in self.arms
        if step.is_terminal or is_last:
            return Way("success", END, _status(step.outcome))
        if not is_arm:
            return Way("success", number + 1)
        if self.position[step.id] == number and (number == 0 or self._falls_through(self.steps[number - 1])):
            raise Unreadable(f"the program does not say where control goes after `{step.id}`")
        return Way("success", END, _status(step.outcome))

    def _falls_through(self, step: AnyStep) -> bool:
        if isinstance(step, ConditionStep | EndStep):
            return False
        return step.next_step is None and not step.is_terminal and step.id not in self.arms

    def _failures(self, step: AnyStep, after: Way, error_step: str | None) -> Iterator[Way]:
        if isinstance(step, ParallelStep):
            if all(part.on_error == "skip" for part in step.parallel_steps):
                return
        elif not isinstance(step, Call):
            yield FAILS  # a `set` whose expression has no value
            return
        elif step.on_timeout == "fallback":
            yield after._replace(kind="fallback")
        if step.on_error == "skip":
            yield after._replace(kind="skipped")
        if error_step is not None:
            yield Way("failed", self._target(error_step))
        elif step.on_error != "skip":
            yield FAILS

    def _branches(self, step: ConditionStep) -> Iterator[Way]:
        if step.then is not None:
            yield Way("branch", self._target(step.then), branch="then")
        for number, case in enumerate(step.cases or (), start=1):
            yield Way("branch", self._target(case.then), branch=number)
        if step.otherwise is not None:
            yield Way("branch", self._target(step.otherwise), branch="otherwise")
        if not has_every_branch(step):
            yield UNCOVERED
        yield FAILS


def has_every_branch(step: ConditionStep) -> bool:
    """Return whether a condition has a branch for whatever comes out."""
    return step.otherwise is not None and (step.cases is not None or step.then is not None)


def _named(step: AnyStep) -> Iterator[str]:
    """Yield the steps that a branch, a case or an `error_step` names."""
    if isinstance(step, ConditionStep):
        yield from (name for name in (step.then, step.otherwise) if name is not None)
        yield from (case.then for case in step.cases or ())
    else:
        error_step = getattr(step, "error_step", None)
        if error_step is not None:
            yield error_step


def _status(outcome: str | None) -> str:
    return "FAILED" if outcome == "failure" else "SUCCESS"
