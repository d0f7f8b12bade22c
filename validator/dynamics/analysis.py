"""The analysis of runs: by program and task family, run by run, over windows, and against a baseline."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final, NamedTuple

from stepward.validator.dynamics.course import Course, Work
from stepward.validator.dynamics.measures import Measures, measures_of, work_by_step

if TYPE_CHECKING:
    from stepward.validator.dynamics.alarms import Alarm, Watched
    from stepward.validator.dynamics.baseline import Baseline
    from stepward.validator.dynamics.distance import Distance

LIBRARIES: Final = ("numpy", "scipy", "ruptures", "matplotlib")
"""What the extra `analysis` brings."""


class Window(NamedTuple):
    """Neighbouring runs, from number `first` to number `last`, and their measures together."""

    first: int
    last: int
    measures: Measures


class Fleet(NamedTuple):
    """The runs of one program and one task family, in their order, and what was found of them.

    `distances`, `watched` and `baseline` are there if there is a baseline of them, `change_points` if the extra
    `analysis` is installed.
    """

    program: str
    family: str
    courses: tuple[Course, ...]
    whole: Measures
    runs: tuple[Measures, ...]
    windows: tuple[Window, ...]
    work: dict[str, Work]
    baseline: Baseline | None = None
    watched: Watched | None = None
    distances: tuple[Distance, ...] | None = None
    change_points: tuple[int, ...] | None = None

    @property
    def alarms(self) -> tuple[Alarm, ...]:
        """The alarms, the earliest first."""
        return () if self.watched is None else self.watched.alarms

    @property
    def is_other_program(self) -> bool:
        """Whether a run is of another version of the program than the healthy ones."""
        known = set() if self.baseline is None else set(self.baseline.versions)
        return bool(known) and any(course.version and course.version not in known for course in self.courses)


def is_installed() -> bool:
    """Return whether the libraries of the extra `analysis` are there."""
    return all(find_spec(name) is not None for name in LIBRARIES)


def fleets_of(courses: Sequence[Course]) -> list[list[Course]]:
    """Return runs by program and task family, each fleet in the order of the starts of its runs."""
    found: dict[tuple[str, str], list[Course]] = {}
    for course in sorted(courses, key=lambda course: (course.started, course.run)):
        found.setdefault((course.program, course.family), []).append(course)
    return [found[key] for key in sorted(found)]


def analyzed(courses: Sequence[Course], baseline: Baseline | None, window: int) -> Fleet:
    """Return the analysis of the runs of one fleet, in their order; `window` is the number of runs of a window."""
    runs = tuple(measures_of([course]) for course in courses)
    windows = [
        Window(start, min(start + window, len(courses)) - 1, measures_of(courses[start : start + window]))
        for start in range(0, len(courses), window)
    ]
    first = courses[0]
    fleet = Fleet(
        first.program, first.family, tuple(courses), measures_of(courses), runs, tuple(windows), work_by_step(courses)
    )
    if is_installed():
        from stepward.validator.dynamics.segments import change_points

        fleet = fleet._replace(change_points=tuple(change_points(runs)))
    if baseline is not None:
        from stepward.validator.dynamics.alarms import watch
        from stepward.validator.dynamics.distance import distance

        fleet = fleet._replace(
            baseline=baseline,
            watched=watch(baseline, courses),
            distances=tuple(distance(baseline, course) for course in courses),
        )
    return fleet
