"""A campaign on the user's own tools: every question is asked about every tool of a program."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from stepward.sabotage.real.questions import Question, questions_about
from stepward.sabotage.real.sandbox import CaseFailed, Sandbox
from stepward.sabotage.real.study import Study, ToolOutcome, ToolVerdict
from stepward.sabotage.real.subjects import subjects
from stepward.vm.language.policy import Policy
from stepward.vm.language.program import Program
from stepward.vm.language.within import applying
from stepward.vm.machine.plan import Plan

DEFAULT_EXAMPLES: Final = 20
"""The default number of inputs of each tool."""


class Orders(NamedTuple):
    """The settings: `examples` is the number of inputs of each tool, `seconds` the wall time after which no question
    starts."""

    seed: int = 0
    examples: int = DEFAULT_EXAMPLES
    seconds: float | None = None


class ToolRow(NamedTuple):
    """The result of one question about one tool; `cases` counts the processes in which the tool was called."""

    tool: str
    question: Question
    verdict: ToolVerdict
    cases: int
    seconds: float


class ToolMatrix(NamedTuple):
    """The result of a campaign. `seconds` is wall time."""

    program: str
    tools: str
    orders: Orders
    rows: tuple[ToolRow, ...]
    seconds: float

    def of(self, outcome: ToolOutcome) -> tuple[ToolRow, ...]:
        """Return the rows with an outcome."""
        return tuple(row for row in self.rows if row.verdict.outcome is outcome)


Progress = Callable[[str, int, int], None]
"""Called before each question with the tool, the number of finished questions and the number of all questions."""


def attack_tools(
    program: Program,
    sandbox: Sandbox,
    policies: Sequence[Policy] = (),
    orders: Orders = Orders(),  # noqa: B008 - a frozen tuple
    progress: Progress | None = None,
) -> ToolMatrix:
    """Ask every question about every tool that a program calls.

    Raises ToolsRefused if the module or the probe can't be used, ProgramError for a program that a machine can't run,
    hypothesis.errors.Unsatisfiable if no value of an argument's type is found.
    """
    plan = Plan(program, applying(program, policies))
    began = time.monotonic()
    until = None if orders.seconds is None else began + orders.seconds
    todo = [
        (study, question)
        for subject in subjects(plan, orders.seed, orders.examples)
        for study in [Study(sandbox, subject)]
        for question in questions_about(subject)
    ]
    rows = []
    for number, (study, question) in enumerate(todo):
        if progress is not None:
            progress(study.subject.name, number, len(todo))
        started, cases = time.monotonic(), sandbox.cases
        if until is not None and started >= until:
            verdict = ToolVerdict(ToolOutcome.NOT_RUN, "the time limit was reached before it started")
        else:
            verdict = _answered(study, question)
        seconds = time.monotonic() - started
        rows.append(ToolRow(study.subject.name, question, verdict, sandbox.cases - cases, seconds))
    return ToolMatrix(program.name, sandbox.tools, orders, tuple(rows), time.monotonic() - began)


def _answered(study: Study, question: Question) -> ToolVerdict:
    try:
        if not study.is_there:
            return ToolVerdict(ToolOutcome.NOT_RUN, f"the module has no function `{study.subject.name}`")
        return question.answer(study)
    except CaseFailed as error:
        return ToolVerdict(ToolOutcome.NOT_RUN, f"a case came to no end: {error}")
