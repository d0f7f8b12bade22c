"""Opens the breaker of a program when its runs drift from healthy ones, so that no more of them do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from stepward.validator.dynamics.alarms import watch
from stepward.validator.dynamics.journals import courses_of
from stepward.vm.journal.store import JournalError, Switch
from stepward.vm.machine.breakers import MACHINE, of_program
from stepward.vm.machine.events import UNFINISHED

if TYPE_CHECKING:
    from stepward.validator.dynamics.baseline import Baseline
    from stepward.validator.dynamics.course import Course
    from stepward.vm.journal.store import Journal, Row

LATEST: Final = 500
"""The newest runs of a program that are looked at: a change that is older was an alarm then, or is none."""


class DriftGuard:
    """Compares the newest runs of a journal with baselines, by program and task family.

    An alarm of drift that has not ended opens the breaker of the program. What closes it says that these runs are
    known: from then on, only runs that start later count. `family_by` names the input that is the task family.
    """

    def __init__(
        self, journal: Journal, baselines: Mapping[tuple[str, str], Baseline], family_by: str | None = None
    ) -> None:
        self._journal = journal
        self._baselines = baselines
        self._family_by = family_by
        self._courses: dict[str, dict[str, Course | None]] = {}

    def look(self, now: float) -> list[Switch]:
        """Look at the runs that have ended, and return how breakers were opened; `now` is in seconds since 1970.

        A run whose records are damaged is left out. Raises JournalError if the store can't be used.
        """
        opened = self._journal.opened()
        done = []
        for program in sorted({program for program, _ in self._baselines}):
            if of_program(program) in opened or not self._has_news(program):
                continue
            why = self._drift(program)
            switch = Switch(of_program(program), True, now, why, MACHINE)
            if why and self._journal.switch(switch):
                done.append(switch)
        return done

    def _has_news(self, program: str) -> bool:
        """Read the runs of a program that are new; return whether there are any."""
        switches = self._journal.switches(of_program(program))
        since = switches[-1].at if switches else None
        rows = self._journal.rows(program=program, since=since, limit=LATEST)
        ended = [row for row in rows if row.status not in UNFINISHED and not row.fault]
        known = self._courses.get(program, {})
        self._courses[program] = {row.run: known[row.run] if row.run in known else self._read(row) for row in ended}
        return any(row.run not in known for row in ended)

    def _read(self, row: Row) -> Course | None:
        try:
            return next(courses_of(self._journal, [row], self._family_by))
        except JournalError:
            self._journal.row(row.run)  # raises it again if it is the store that fails, and not the run
            return None

    def _drift(self, program: str) -> str:
        """Return since when the runs of a program drift, and how sure that is; empty if they do not."""
        families: dict[str, list[Course]] = {}
        for course in self._courses[program].values():
            if course is not None:
                families.setdefault(course.family, []).append(course)
        for family in sorted(families):
            baseline, courses = self._baselines.get((program, family)), families[family]
            for alarm in () if baseline is None else watch(baseline, courses).alarms:
                if alarm.kind == "drift" and alarm.until is None:
                    sure = "" if alarm.sure is None else f", {alarm.sure:.1%} sure"
                    return f"drift since run `{courses[alarm.since].run}`{sure}"
        return ""
