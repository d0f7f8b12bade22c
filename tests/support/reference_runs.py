"""Runs of the reference interpreter to their end: functions answer its calls, at random or each choice in its turn."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from random import Random
from typing import Any, Literal

from stepward.sabotage.reference import Answer, Lost, PendingCall, Raised, Reference, Replied, Returned, TimedOut
from stepward.vm import Program

Verdict = Literal["done", "not_done", "abandon"]
INPUTS: Mapping[str, Any] = {"x": "k"}


class CutOff(Exception):  # noqa: N818 - it is no error, the run goes on without us
    """A run was left before its end."""


def says_done(step: str) -> Verdict:
    return "done"


class Course(Reference):
    """One run; `calls` are the attempts, `verdicts` what was said of writes in doubt, `visits` the visits of steps."""

    def __init__(
        self,
        program: Program,
        answers: Callable[[PendingCall], Answer],
        settles: Callable[[str], Verdict] = says_done,
        *,
        max_steps: int = 1_000_000,
    ) -> None:
        super().__init__(program, max_steps=max_steps)
        self._answers = answers
        self._settles = settles
        self.calls: list[PendingCall] = []
        self.verdicts: list[Verdict] = []

    @property
    def visits(self) -> Mapping[str, int]:
        return self._visits

    def go(self, inputs: Mapping[str, Any] = INPUTS) -> None:
        """Run to the end; raises CutOff where somebody leaves the run."""
        self.start(inputs)
        while not self.is_over:
            for asked in self.asked:
                self.calls.append(asked)
                self.answer(asked.step, self._answers(asked))
            if self.status == "IN_DOUBT":
                self.verdicts.append(self._settles(self.doubtful[0]))
                self.reconcile(self.doubtful[0], self.verdicts[-1], "k")


def good(asked: PendingCall, value: str) -> Answer:
    """Return a good answer of a tool or a model."""
    return Returned(value) if asked.tool else Replied(value, 3)


class Fate:
    """Answers by chance: `weights` say how often a call succeeds, raises, is late, is lost, and is ill-typed."""

    def __init__(self, program: Program, chance: Random, weights: Sequence[int]) -> None:
        parts = [part for step in program.steps for part in getattr(step, "parallel_steps", None) or [step]]
        self._timed = {part.id for part in parts if getattr(part, "timeout_seconds", None) is not None}
        self._chance = chance
        self._weights = weights

    def __call__(self, asked: PendingCall) -> Answer:
        said = self._chance.choices(["good", "raise", "late", "lost", "bad"], self._weights)[0]
        if said == "raise":
            return Raised()
        if said == "late" and asked.step in self._timed:
            return TimedOut()
        if said == "lost":
            return Lost()
        if said == "bad":
            return Returned(5) if asked.tool else Replied(5, 3)
        return good(asked, self._chance.choice("kmn"))


def every_run(program: Program, options: Callable[[PendingCall], Sequence[Answer]], most: int) -> Iterator[Course]:
    """Yield every run of a program, depth first: each call gets each of its options, the first one first.

    Raises TimeoutError when there are more than `most`.
    """
    script: list[int] = []
    for _ in range(most):
        widths: list[int] = []

        def chosen(asked: PendingCall, widths: list[int] = widths) -> Answer:
            offered = options(asked)
            widths.append(len(offered))
            if len(widths) > len(script):
                script.append(0)
            return offered[script[len(widths) - 1]]

        course = Course(program, chosen, max_steps=10_000)
        course.go()
        yield course
        while script and script[-1] + 1 == widths[len(script) - 1]:
            script.pop()
        if not script:
            return
        script[-1] += 1
    raise TimeoutError
