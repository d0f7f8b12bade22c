"""What plots show of a fleet: a value for each run or window, and the limit of alarms."""

from __future__ import annotations

from math import e, log
from typing import TYPE_CHECKING, Final, NamedTuple

from stepward.validator.dynamics.measures import UNITS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stepward.validator.dynamics.analysis import Fleet

MOST_RUNS: Final = 1_000
"""With more runs a plot shows windows: single ones could not be told apart."""

TITLES: Final = {
    "entropy": "transition entropy",
    "rollback_density": "rollback density",
    "tool_churn": "tool churn",
    "edit_cycles": "edit cycles",
    "violation_rate": "violations",
    "retries": "retries",
    "tokens": "tokens",
    "cost": "cost",
    "seconds": "time in calls, s",
}


class Series(NamedTuple):
    """One plot: points of a run number and a value, and a limit above which there is an alarm."""

    title: str
    unit: str
    points: tuple[tuple[float, float], ...]
    limit: float | None = None


def series_of(fleet: Fleet) -> list[Series]:
    """Return the plots of a fleet, without those that are the same everywhere."""
    return [one for one in _all(fleet) if len({value for _, value in one.points}) > 1]


def _all(fleet: Fleet) -> Iterator[Series]:
    many = len(fleet.courses) > MOST_RUNS
    if fleet.watched is not None and fleet.baseline is not None:
        readings = fleet.watched.readings
        odds = [(float(at), reading.odds / log(10)) for at, reading in enumerate(readings)]
        limit = fleet.baseline.drift * log(e, 10)
        yield Series("odds that the fleet has changed", "powers of 10", tuple(_thinned(odds)), limit)
        surprise = [(float(at), reading.excess) for at, reading in enumerate(readings)]
        yield Series("surprise of each run", "bits more than expected", tuple(_thinned(surprise)))
    if fleet.distances is not None:
        distances = [(float(at), one.bits) for at, one in enumerate(fleet.distances)]
        yield Series("path variance", "bits from the nearest kind", tuple(_thinned(distances)))
    for name, unit in UNITS.items():
        if many:
            points = [((one.first + one.last) / 2, float(getattr(one.measures, name))) for one in fleet.windows]
        else:
            points = [(float(at), float(getattr(run, name))) for at, run in enumerate(fleet.runs)]
        yield Series(TITLES[name], unit, tuple(points))


def _thinned(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the highest of each group of neighbours: what is above the limit has to be seen."""
    group = -(-len(points) // MOST_RUNS)
    return [max(points[at : at + group], key=lambda point: point[1]) for at in range(0, len(points), group)]
