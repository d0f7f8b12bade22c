"""Alarms: since when a fleet behaves otherwise than its healthy runs, which transitions changed, how sure that is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import exp, log
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from stepward.validator.dynamics.counts import ATTEMPTS, CALLS, Cell
from stepward.validator.dynamics.course import AGAIN
from stepward.validator.dynamics.detector import HAZARD, Detector
from stepward.validator.dynamics.measures import NEW, repetitions

if TYPE_CHECKING:
    from stepward.validator.dynamics.baseline import Baseline
    from stepward.validator.dynamics.course import Course
    from stepward.validator.dynamics.detector import Reading

MOST_SHIFTS: Final = 6
MOST_RUNS: Final = 5
LEAST_DEVIANCE: Final = 4.0
"""How much an action has to differ to be named, as twice the logarithm of a ratio of likelihoods."""

LEAST_CALM: Final = 20
"""Runs in a row that have to be healthy before an alarm ends."""

SUREST: Final = 0.999999
"""Nothing is surer: the model of a fleet is never quite right."""

SETTLES: Final = 50
"""Runs after an alarm in which the estimate of its beginning may still get better."""


class Shift(NamedTuple):
    """An action whose share has changed: `was` before, `now` since; `low` and `high` are the 95 % interval of `now`.

    It was taken `seen` times of `out_of`. `where` lists the steps or tools that are most affected, for rows of all.
    """

    cell: Cell
    was: float
    now: float
    low: float
    high: float
    seen: int
    out_of: int
    where: tuple[str, ...] = ()


class Alarm(NamedTuple):
    """Something that healthy runs do not do. Runs are numbers in the list of runs that was watched.

    `since` is the most probable first run, between `earliest` and `latest` with a probability of 95 %. `noticed` is the
    run at which the alarm was raised, `until` the last one before the fleet was healthy again, or None. `sure` is the
    probability of the change. An `outlier` is a single run; for one `sure` is None.
    """

    kind: Literal["drift", "outlier"]
    since: int
    earliest: int
    latest: int
    noticed: int
    until: int | None
    sure: float | None
    shifts: tuple[Shift, ...]
    look_at: tuple[int, ...]


class Watched(NamedTuple):
    """What the detector said of each run, and the alarms, by their beginning."""

    readings: tuple[Reading, ...]
    alarms: tuple[Alarm, ...]


class _Open(NamedTuple):
    since: int
    interval: tuple[int, int]
    noticed: int
    odds: float


def watch(baseline: Baseline, courses: Sequence[Course]) -> Watched:
    """Compare runs, in their order, with a baseline."""
    detector = Detector(baseline.kinds, baseline.runs)
    runs = [baseline.table.numbers(course) for course in courses]
    needed = baseline.drift - log(HAZARD)  # the evidence that an alarm takes, and the end of an alarm, too
    readings: list[Reading] = []
    alarms: list[Alarm] = []
    open_alarm: _Open | None = None
    change, calm, calm_since = detector, 0.0, 0
    for number, run in enumerate(runs):
        reading = detector.add(run)
        readings.append(reading)
        if open_alarm is None:
            if reading.odds > baseline.drift:
                open_alarm = _Open(reading.since, detector.interval(), number, reading.odds)
                change, calm, calm_since = detector.frozen(), 0.0, number + 1
            elif any(bits > limit for bits, limit in zip(reading.unlike, baseline.outlier, strict=False)):
                shifts = _shifts(baseline, runs, courses, number, number)
                alarms.append(Alarm("outlier", number, number, number, number, number, None, shifts, (number,)))
            continue
        if number - open_alarm.noticed <= SETTLES and reading.odds > open_alarm.odds:
            open_alarm = open_alarm._replace(since=reading.since, interval=detector.interval(), odds=reading.odds)
        calm -= change.gain(run)
        if calm < 0:
            calm, calm_since = 0.0, number + 1
        if calm > needed and number - calm_since >= LEAST_CALM:
            alarms.append(_drift(open_alarm, calm_since - 1, baseline, runs, courses))
            open_alarm = None
            detector.restart()
    if open_alarm is not None:
        alarms.append(_drift(open_alarm, None, baseline, runs, courses))
    return Watched(tuple(readings), tuple(sorted(alarms, key=lambda alarm: alarm.since)))


def _drift(
    found: _Open,
    until: int | None,
    baseline: Baseline,
    runs: Sequence[dict[int, int]],
    courses: Sequence[Course],
) -> Alarm:
    last = max(found.noticed, len(runs) - 1 if until is None else until)
    shifts = _shifts(baseline, runs, courses, found.since, last)
    numbers = {cell: number for number, cell in enumerate(baseline.table.cells)}
    gains = {numbers[one.cell]: log((one.seen + 0.5) / (one.out_of * one.was + 0.5)) for one in shifts}

    def gain(number: int) -> float:
        return sum(count * gains.get(action, 0.0) for action, count in runs[number].items())

    strange = sorted(range(found.since, last + 1), key=lambda number: (-gain(number), number))
    return Alarm(
        "drift",
        found.since,
        *found.interval,
        found.noticed,
        until,
        min(1 / (1 + exp(-found.odds)), SUREST),
        shifts,
        tuple(strange[:MOST_RUNS]),
    )


def _shifts(
    baseline: Baseline, runs: Sequence[dict[int, int]], courses: Sequence[Course], first: int, last: int
) -> tuple[Shift, ...]:
    """Return the actions that differ most in some runs from what healthy runs of the same kinds do, the first first."""
    import numpy as np
    from scipy.special import betaincinv

    from stepward.validator.dynamics.kinds import counted

    kinds, cells = baseline.kinds, baseline.table.cells
    seen = counted(runs[first : last + 1], len(cells))
    each = seen @ np.log(kinds.shares).T + np.log(kinds.weights)
    belongs = np.exp(each - each.max(axis=1, keepdims=True))
    belongs /= belongs.sum(axis=1, keepdims=True)
    by_kind = belongs.T @ seen
    out_of = _by_row(seen.sum(axis=0), kinds.rows)
    expected = (_by_row(by_kind, kinds.rows) * kinds.shares).sum(axis=0)
    found = []
    for number, cell in enumerate(cells):
        n, k, e = out_of[number], seen[:, number].sum(), expected[number]
        if n == 0:
            continue
        deviance = 2 * ((k * log(k / e) if k else 0.0) + ((n - k) * log((n - k) / (n - e)) if n > k else 0.0))
        if deviance >= LEAST_DEVIANCE:
            low, high = (float(betaincinv(k + 0.5, n - k + 0.5, q)) for q in (0.025, 0.975))
            where = _where(cell, courses[first : last + 1])
            found.append((deviance, Shift(cell, e / n, k / n, low, high, int(k), int(n), where)))
    found.sort(key=lambda one: -one[0])
    return tuple(shift for _, shift in found[:MOST_SHIFTS])


def _by_row(values: Any, rows: Any) -> Any:
    import numpy as np

    sums = np.stack([values[..., rows == row].sum(axis=-1) for row in range(rows.max() + 1)], axis=-1)
    return sums[..., rows]


def _where(cell: Cell, courses: Sequence[Course]) -> tuple[str, ...]:
    """Return the steps or tools with the most retries or repeated calls, for an action that is of all of them."""
    found: Counter[str] = Counter()
    for course in courses:
        if cell.about == ATTEMPTS:
            found.update(move.state for move in course.attempts if move.action == AGAIN)
        elif cell.about == CALLS:
            marked = zip(course.calls, repetitions(course.calls), strict=True)
            found.update(call.tool for call, what in marked if what != NEW)
    return tuple(name for name, _ in found.most_common(3))
