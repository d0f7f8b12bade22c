"""Coverage of a program by runs: which steps, branches and declared error routes the traces of runs have taken."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final, Literal, NamedTuple

from stepward.vm.language.flow import Flow
from stepward.vm.language.program import Program
from stepward.vm.language.steps import BaseStep, ConditionStep, Failing, FailingStep, Stage, parts
from stepward.vm.language.steps import Call as CallPart
from stepward.vm.machine.plan import Plan
from stepward.vm.reading.source import Place, Span
from stepward.vm.trace import (
    AnyRecord,
    Blocked,
    Branched,
    Ended,
    Joined,
    LeavingRecord,
    Passed,
    Rejected,
    Started,
    StepRecord,
)
from stepward.vm.trace import Attempt as AttemptRecord

Kind = Literal["step", "branch", "error"]

KINDS: Final[tuple[Kind, ...]] = ("step", "branch", "error")

UNCOVERED: Final = "no branch"
VISITS: Final = "visits"
ERROR: Final = "error"


class CoverageItem(NamedTuple):
    """What a run can take: a step (`how` is empty), or one way out of it.

    `how` is `then`, `otherwise`, `case 1`, `no branch`, `failed`, `catch 1`, `skipped`, `fallback` or `visits`; or
    `error NAME` for a failure with that error.
    """

    step: str
    how: str = ""


class RunCoverage(NamedTuple):
    """What one run has taken; `program` is the digest of its program."""

    program: str
    ways: frozenset[CoverageItem]


@dataclass(frozen=True)
class Goal:
    """A way that runs should take. `to` is the step that it leads to, empty if it ends the run; `span` its place."""

    way: CoverageItem
    kind: Kind
    to: str = ""
    span: Span | None = None
    place: str = ""


@dataclass(frozen=True)
class Coverage:
    """The goals of a program, the ways that runs have taken, and the number of these runs.

    `others` is the number of runs that are of another version of the program, or of another program.
    """

    program: str
    file: str
    goals: tuple[Goal, ...]
    taken: frozenset[CoverageItem]
    runs: int
    others: int = 0

    @property
    def missing(self) -> tuple[Goal, ...]:
        """The goals that no run has taken."""
        return tuple(goal for goal in self.goals if goal.way not in self.taken)

    def count(self, kind: Kind | None = None) -> tuple[int, int]:
        """Return how many goals of a kind, or of all kinds, were taken, and how many there are."""
        goals = [goal for goal in self.goals if kind in (None, goal.kind)]
        return sum(goal.way in self.taken for goal in goals), len(goals)

    @property
    def percent(self) -> float:
        """The part of the goals that was taken, in percent."""
        taken, total = self.count()
        return 100.0 * taken / total if total else 100.0


def coverage_of(program: Program, traces: Iterable[Iterable[AnyRecord]], file: str = "") -> Coverage:
    """Return what the traces of runs (`Run.trace`) have taken of a program; `file` is its name in reports.

    Runs of other programs, and of other versions of this one, are counted as `others`. Raises ProgramError for a
    program that no machine can run.
    """
    return coverage_by(program, map(taken_by, traces), file)


def coverage_by(program: Program, runs: Iterable[RunCoverage], file: str = "") -> Coverage:
    """Return what runs have taken of a program, as `coverage_of` does."""
    digest = Plan(program).digest
    ways: set[CoverageItem] = set()
    count = others = 0
    for run in runs:
        if run.program == digest:
            count += 1
            ways |= run.ways
        else:
            others += 1
    ways |= set(_caught(program, ways))
    return Coverage(program.name, file or program.source_name, tuple(_located(program)), frozenset(ways), count, others)


def _caught(program: Program, ways: Iterable[CoverageItem]) -> Iterator[CoverageItem]:
    """Yield the entries of `catch` that the errors of runs have taken."""
    catching = {step.id: step.caught for step in program.layout.steps if isinstance(step, FailingStep) and step.catch}
    for way in ways:
        word, _, name = way.how.partition(" ")
        if word == ERROR and way.step in catching:
            taken = (number for number, exit in enumerate(catching[way.step], start=1) if exit.takes(name))
            yield from (CoverageItem(way.step, f"catch {number}") for number in islice(taken, 1))


def taken_by(trace: Iterable[AnyRecord]) -> RunCoverage:
    """Return what a run has taken, by its trace."""
    records = tuple(trace)
    digest = next((record.program for record in records if isinstance(record, Started)), "")
    return RunCoverage(digest, frozenset(way for record in records for way in _ways(record)))


def _ways(record: AnyRecord) -> Iterator[CoverageItem]:
    match record:
        case Passed():
            yield CoverageItem(record.step, VISITS)
            yield from _named_error(record)
        case Blocked() | Rejected():
            yield CoverageItem(record.step, record.outcome)
            yield from _named_error(record)
        case Branched():
            yield CoverageItem(record.step)
            yield CoverageItem(record.step, _named(record.branch))
        case AttemptRecord() | Joined():
            yield CoverageItem(record.step)
            yield CoverageItem(record.step, record.outcome)
            if record.outcome == "failed":
                yield from _named_error(record)
        case Ended():
            if record.step is not None:
                yield CoverageItem(record.step)
        case StepRecord() | LeavingRecord():
            yield CoverageItem(record.step)


def _named_error(record: Passed | Blocked | Rejected | AttemptRecord | Joined) -> Iterator[CoverageItem]:
    if record.error_name is not None:
        yield CoverageItem(record.step, f"{ERROR} {record.error_name}")


def _named(branch: str | int | None) -> str:
    if branch is None:
        return UNCOVERED
    return f"case {branch}" if isinstance(branch, int) else branch


# -- goals -------------------------------------------------------------------------------------------------------------


def _located(program: Program) -> Iterator[Goal]:
    """Yield the goals of a program with their places."""
    found = list(_goals(program))
    document = program.document
    spans = {} if document is None else document.locate([place for _, place in found])
    for goal, place in found:
        yield Goal(goal.way, goal.kind, goal.to, spans.get(place), place.text())


def _goals(program: Program) -> Iterator[tuple[Goal, Place]]:
    flow = Flow(program)
    for number, step in enumerate(program.layout.steps):
        for sub, part in parts(step) if not isinstance(step, Stage) else ():
            place = Place(program.layout.path(number, sub))
            yield Goal(CoverageItem(part.id), "step"), place.child("id")
            for how, to, field in _errors(part):
                yield Goal(CoverageItem(part.id, how), "error", to), place.child(*field)
        if isinstance(step, ConditionStep):
            place = Place(program.layout.path(number))
            for one in flow.transitions[number]:
                if one.kind == "branch":
                    to = program.layout.steps[one.to].id if one.to >= 0 else ""
                    yield Goal(CoverageItem(step.id, _named(one.branch)), "branch", to), place.child(*one.field)
                elif one.kind == "uncovered":
                    yield Goal(CoverageItem(step.id, UNCOVERED), "error"), place.child("id")


def _errors(part: BaseStep) -> Iterator[tuple[str, str, tuple[str | int, ...]]]:
    """Yield the error routes that a step or sub-step declares, each with its target and its field."""
    if isinstance(part, CallPart) and part.on_timeout == "fallback":
        yield "fallback", "", ("on_timeout",)
    if isinstance(part, Failing) and part.on_error == "skip":
        yield "skipped", "", ("on_error",)
    elif isinstance(part, FailingStep):
        for number, exit in enumerate(part.caught, start=1):
            yield f"catch {number}" if part.catch else "failed", exit.target or "", exit.field
    if getattr(part, "max_visits", None) is not None:
        after = part.after_visits if isinstance(part, FailingStep) else None
        yield VISITS, "" if after is None else after.target or "", ("max_visits",)
