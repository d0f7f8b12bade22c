"""What the page shows of a journal: the list of its runs, and some runs step by step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from stepward.validator.report.trace import moment
from stepward.validator.review.moments import Moment, moments_of
from stepward.validator.runs.chains import boundary_of
from stepward.vm.machine.runs import run_of
from stepward.vm.values import as_text

if TYPE_CHECKING:
    from stepward.vm.journal.store import Row
    from stepward.vm.language.program import Program
    from stepward.vm.machine.history import History
    from stepward.vm.machine.run import Run


class RunView(NamedTuple):
    """A run on the page; `costs` has a line for each step that has cost tokens or money.

    `chain` is the first of the runs that continue one another, or the run itself; `boundary` says how it goes on where
    the run before it has ended, and is empty for the first.
    """

    id: str
    program: Program
    status: str
    reason: str
    moments: tuple[Moment, ...]
    costs: tuple[tuple[str, str, str], ...]
    chain: str = ""
    boundary: str = ""


class RunsView(NamedTuple):
    """The runs of a journal, the newest first, and those that are shown whole: those of a chain in order."""

    rows: tuple[tuple[str, str, str, str], ...]
    shown: tuple[RunView, ...]


def row_of(row: Row) -> tuple[str, str, str, str]:
    """Return the cells of a run in the list: its id, its program, its status, and when it started."""
    return row.run, row.program, row.status, moment(round(row.started * 1e6))[:19].replace("T", " ")


def run_view(run: Run, found: History) -> RunView:
    """Return what the page shows of one run, without sensitive values."""
    costs = [(step, str(one.tokens), as_text(one.cost)) for step, one in run.spent.items() if one.tokens or one.cost]
    program = found.plan.program
    moments: Sequence[Moment] = moments_of(found, program)
    return RunView(run.id, program, run.status, run.reason, tuple(moments), tuple(costs))


def chain_views(chain: Sequence[History]) -> Iterator[RunView]:
    """Yield what the page shows of the runs of a chain, in order and with the boundaries marked."""
    for number, found in enumerate(chain):
        boundary = boundary_of(found, chain[number - 1]) if number else ""
        yield run_view(run_of(found), found)._replace(chain=chain[0].run, boundary=boundary)
