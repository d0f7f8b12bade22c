"""The plots of `stepward analyze` as runs end: the newest ended runs, a bounded number of them."""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, Final
from xml.etree.ElementTree import Element

from stepward.validator.dynamics.analysis import analyzed, fleets_of
from stepward.validator.dynamics.journals import courses_of
from stepward.validator.report.text import counted
from stepward.validator.review.dynamics import fleet_section, legend
from stepward.validator.review.elements import element
from stepward.vm.journal.store import JournalError
from stepward.vm.machine.events import UNFINISHED

if TYPE_CHECKING:
    from stepward.validator.dynamics.course import Course
    from stepward.vm.journal.store import Journal, Row

MOST_COURSES: Final = 300
"""The newest ended runs that are analysed."""

MOST_READ: Final = 60
"""Runs that are read at a time: where more have ended since, every other, third or fourth is left out."""

WINDOW: Final = 25
"""Runs of a window of measures."""

MOST_FLEETS: Final = 8


class Analysis:
    """The analysis of the runs of a journal that ended last. Where many end at a time, some are left out."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._courses: deque[Course] = deque(maxlen=MOST_COURSES)
        self._seen: deque[str] = deque(maxlen=4 * MOST_COURSES)
        self._damaged: set[str] = set()
        self._left_out = 0
        self._lock = threading.Lock()

    def part(self) -> Element:
        """Read what has ended since the last call, and return the plots; raises JournalError."""
        with self._lock:
            self._read()
            fleets = sorted(fleets_of(list(self._courses)), key=len, reverse=True)[:MOST_FLEETS]
            sections = [fleet_section(analyzed(one, None, WINDOW), at) for at, one in enumerate(fleets)]
            text = f"{counted(len(self._courses), 'run')} that ended last"
            if self._left_out:
                text += f"; {counted(self._left_out, 'run')} left out, because at most {MOST_READ} are read at a time"
            if self._damaged:
                text += f"; {counted(len(self._damaged), 'run')} can't be read: verify them"
            return element("div", element("p", f"{text}."), legend(), *sections)

    def _read(self) -> None:
        seen = set(self._seen)
        rows = [
            row
            for row in self._journal.rows(limit=MOST_COURSES)
            if row.status not in UNFINISHED and row.run not in seen and row.run not in self._damaged
        ]
        self._seen.extend(row.run for row in rows)
        stride = -(-len(rows) // MOST_READ)
        chosen = rows[::stride] if stride > 1 else rows
        self._left_out += len(rows) - len(chosen)
        for row in chosen:
            self._add(row)

    def _add(self, row: Row) -> None:
        try:
            self._courses.extend(courses_of(self._journal, [row], None))
        except JournalError:
            if len(self._damaged) < MOST_COURSES:
                self._damaged.add(row.run)
