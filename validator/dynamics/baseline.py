"""Baselines: what healthy runs of one program and task family are like, and from where on something is an alarm."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from math import inf, log
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from stepward.validator.dynamics.counts import Cell, Table
from stepward.validator.dynamics.detector import HAZARD, Detector
from stepward.validator.dynamics.kinds import Kinds, counted, learn_kinds

if TYPE_CHECKING:
    from stepward.validator.dynamics.course import Course

VERSION: Final = 2
"""Of the file; in version 1, all calls were one row."""
LEAST: Final = 60
"""Healthy runs that a baseline needs."""

RATE: Final = 1 / 1_000
"""False alarms per run that both kinds of alarms may have together."""

OF_DRIFT: Final = 0.7
"""The part of them that is for changes of the fleet; the rest is for single runs, the same for each table."""

HEAVIER: Final = 3.0
"""Tails of single runs are heavier than exponential ones: so many times fewer alarms are aimed at."""

MANY: Final = 1_000
"""Healthy runs at which half the rate is aimed at, so that it is kept; with fewer runs it is much less."""

LEAST_ODDS: Final = log(19)
LEAST_BITS: Final = 8.0
"""No threshold is below these: a change is 95 % probable, other shares explain a run 256 times better."""

BLOCK: Final = 25
DRAWN: Final = 4_000
PASSES: Final = 10
"""For the thresholds, about so many runs are drawn, in blocks of neighbours, which keeps bursts together; none is drawn
more often than PASSES times."""

APART: Final = 50
"""Runs between two peaks that are two false alarms."""


class BaselineRefused(ValueError):  # noqa: N818 - the text says what is wrong
    """A file is no baseline, or runs can't be one."""


class Baseline(NamedTuple):
    """What healthy runs of a program and a task family are like.

    `versions` are the digests of their programs, `runs` is their number. A change is an alarm where the logarithm of
    its odds is above `drift`, a single run where it is unlike healthy ones by more than `outlier` bits in a table.
    """

    program: str
    family: str
    versions: tuple[str, ...]
    runs: int
    table: Table
    kinds: Kinds
    drift: float
    outlier: tuple[float, ...]


def learn(courses: Sequence[Course]) -> Baseline:
    """Return the baseline of healthy runs of one program and one family, in their order.

    The thresholds are from runs that the kinds were not learnt from: each half of the runs is judged by what the other
    half says. Then the kinds are learnt from all. Raises BaselineRefused for too few runs.
    """
    first = courses[0]
    if len(courses) < LEAST:
        raise BaselineRefused(f"`{first.program}` has {len(courses)} healthy runs, and a baseline needs {LEAST}")
    table = Table.of(courses)
    runs = [table.numbers(course) for course in courses]
    drift, outlier = _thresholds(runs, table)
    versions = tuple(sorted({course.version for course in courses if course.version}))
    return Baseline(first.program, first.family, versions, len(courses), table, _kinds(runs, table), drift, outlier)


def _kinds(runs: Sequence[dict[int, int]], table: Table) -> Kinds:
    return learn_kinds(counted(runs, len(table.cells)), table.row_of, table.table_of)


def _thresholds(runs: Sequence[dict[int, int]], table: Table) -> tuple[float, tuple[float, ...]]:
    """Return both thresholds."""
    rng = random.Random(0)  # a baseline of the same runs is the same
    peaks: list[float] = []
    unlike: list[tuple[float, ...]] = []
    halves = (runs[::2], runs[1::2])
    passes = min(PASSES, max(1, DRAWN // len(runs)))
    for fitted, apart in (halves, halves[::-1]):
        kinds = _kinds(fitted, table)
        blocks = [apart[start : start + BLOCK] for start in range(0, len(apart), BLOCK)]
        for number in range(passes):
            # Each run once: what is drawn again and again looks like a change.
            rng.shuffle(blocks)
            detector = Detector(kinds, len(runs))
            readings = [detector.add(run) for block in blocks for run in block]
            peaks += _peaks([reading.odds for reading in readings])
            unlike += [reading.unlike for reading in readings] if number == 0 else []  # the order is nothing to them
    rate = RATE / (1 + (MANY / len(runs)) ** 2)
    drift = max(LEAST_ODDS, _above(peaks, passes * len(runs), rate * OF_DRIFT))
    columns = list(zip(*unlike, strict=True))
    alone = rate * (1 - OF_DRIFT) / len(columns) / HEAVIER
    return drift, tuple(max(LEAST_BITS, _above(column, len(column), alone)) for column in columns)


def _peaks(odds: Sequence[float]) -> list[float]:
    """Return the highest of each group of neighbours: one change is one alarm."""
    found = []
    left = dict(enumerate(odds))
    while left:
        best = max(left, key=left.__getitem__)
        found.append(left[best])
        for number in range(best - APART, best + APART + 1):
            left.pop(number, None)
    return found


def _above(values: Sequence[float], runs: int, rate: float) -> float:
    """Return the value that is exceeded at a rate per run, for which the highest ones are taken as exponential."""
    highest = sorted(values, reverse=True)
    used = max(5, min(len(highest) - 1, round(runs / 100)))
    if len(highest) <= used:
        used = len(highest) - 1
    base = highest[used]
    mean = sum(value - base for value in highest[:used]) / used
    return base + mean * max(0.0, log(used / runs / rate))


# -- files -------------------------------------------------------------------------------------------------------------


def baselines_text(baselines: Sequence[Baseline]) -> str:
    """Return baselines as the text of a JSON file."""
    return (
        json.dumps(
            {"version": VERSION, "hazard": HAZARD, "rate": RATE, "baselines": [_data(b) for b in baselines]}, indent=1
        )
        + "\n"
    )


def _data(baseline: Baseline) -> dict[str, Any]:
    kinds = baseline.kinds
    return {
        "program": baseline.program,
        "family": baseline.family,
        "versions": list(baseline.versions),
        "runs": baseline.runs,
        "actions": [list(cell) for cell in baseline.table.cells],
        "kinds": [
            {"weight": weight, "concentration": concentration, "shares": shares}
            for weight, concentration, shares in zip(
                kinds.weights.tolist(), kinds.concentrations.tolist(), kinds.shares.tolist(), strict=True
            )
        ],
        "drift": baseline.drift,
        "outlier": list(baseline.outlier),
    }


def read_baselines(text: str) -> list[Baseline]:
    """Return the baselines in a text; raises BaselineRefused for a text without any."""
    try:
        data = json.loads(text)
        if data["version"] != VERSION:
            raise BaselineRefused(
                f"it has version {data['version']}, and this reader knows {VERSION}: learn it again by `--learn`"
            )
        return [_baseline(one) for one in data["baselines"]]
    except BaselineRefused:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError):
        raise BaselineRefused("it is no baseline of `stepward analyze --learn`") from None


def _baseline(data: Any) -> Baseline:
    import numpy as np

    table = Table([Cell(*map(str, cell)) for cell in data["actions"]])
    kinds = Kinds(
        np.array([float(kind["weight"]) for kind in data["kinds"]]),
        np.array([[float(share) for share in kind["shares"]] for kind in data["kinds"]]),
        np.array([float(kind["concentration"]) for kind in data["kinds"]]),
        np.asarray(table.row_of),
        np.asarray(table.table_of),
    )
    numbers = np.concatenate([kinds.weights, kinds.shares.ravel(), kinds.concentrations])
    shape = (len(kinds.weights), len(table.cells))
    if kinds.shares.shape != shape or not shape[0] or not ((numbers > 0) & (numbers < inf)).all():
        raise ValueError("the kinds do not fit the actions")
    if sorted(kinds.rows.tolist()) != kinds.rows.tolist():
        raise ValueError("the actions of a row stand apart")
    if len(data["outlier"]) != max(table.table_of) + 1:
        raise ValueError("each table has a threshold")
    return Baseline(
        str(data["program"]), str(data["family"]), tuple(map(str, data["versions"])), int(data["runs"]),
        table, kinds, float(data["drift"]), tuple(map(float, data["outlier"])),
    )  # fmt: skip
