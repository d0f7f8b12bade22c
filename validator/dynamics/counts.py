"""Runs as counts: how often each action was taken in each row of a table that a baseline has."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from stepward.validator.dynamics.course import Call, Course
from stepward.validator.dynamics.measures import repetitions

MOVES: Final = "moves"
ATTEMPTS: Final = "attempts"
CALLS: Final = "calls"
TABLES: Final = (MOVES, ATTEMPTS, CALLS)

OTHER: Final = "(other)"
"""Stands for all actions of a row that no healthy run has taken."""

EARLIER: Final = ("1", "2 to 3", "4 to 7", "8 or more")
"""The rows of calls: how many different calls of their tool came before them in the run."""


class Cell(NamedTuple):
    """An action in a row: a move in a state, how an attempt ended, or what a call of a tool repeats.

    Attempts of all steps are one row: what makes them fail seldom keeps to one step, and together they tell it sooner.
    So are calls of all tools with equally many different calls of their tool before them. These are the calls that one
    may repeat, so a call without any tells nothing, and a long run repeats more than a short one.
    """

    about: str
    state: str
    action: str

    @property
    def row(self) -> tuple[str, str]:
        """What the action belongs to: the shares of the actions of a row add up to 1."""
        return self.about, self.state


def cells_of(course: Course) -> Counter[Cell]:
    """Return how often a run took each action."""
    return Counter(_cells(course))


def _cells(course: Course) -> Iterator[Cell]:
    for move in course.moves:
        yield Cell(MOVES, *move)
    for move in course.attempts:
        yield Cell(ATTEMPTS, "", move.action)
    for earlier, what in zip(chances(course.calls), repetitions(course.calls), strict=True):
        if earlier:
            yield Cell(CALLS, EARLIER[min(earlier.bit_length(), len(EARLIER)) - 1], what)


def chances(calls: Sequence[Call]) -> Iterator[int]:
    """Yield for each call how many different calls of its tool came before it in the run: those that it may repeat."""
    seen: dict[str, set[Call]] = {}
    for call in calls:
        before = seen.setdefault(call.tool, set())
        yield len(before)
        before.add(call)


class Table:
    """The rows and actions of healthy runs, in a fixed order; every row has an action for all others."""

    def __init__(self, cells: Sequence[Cell]) -> None:
        self.cells = tuple(cells)
        self.rows = tuple(dict.fromkeys(cell.row for cell in self.cells))
        numbers = {row: number for number, row in enumerate(self.rows)}
        self.row_of = [numbers[cell.row] for cell in self.cells]
        self.table_of = [TABLES.index(about) for about, _ in self.rows]
        self._numbers = {cell: number for number, cell in enumerate(self.cells)}
        self._other = {cell.row: number for cell, number in self._numbers.items() if cell.action == OTHER}

    @classmethod
    def of(cls, courses: Iterable[Course]) -> Table:
        """Return the table of all actions in some runs."""
        found = sorted({cell for course in courses for cell in cells_of(course)})
        rows = sorted({cell.row for cell in found})
        return cls(sorted([*found, *(Cell(*row, OTHER) for row in rows)]))

    def numbers(self, course: Course) -> dict[int, int]:
        """Return how often a run took each action, by the number of the action.

        An action that no healthy run took counts as OTHER. A state that no healthy run had is left out: a run comes to
        it by an action that none took.
        """
        found: Counter[int] = Counter()
        for cell, count in cells_of(course).items():
            number = self._numbers.get(cell, self._other.get(cell.row))
            if number is not None:
                found[number] += count
        return dict(found)
