"""Path variance: how far a run is from the kind of healthy runs that is nearest to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from stepward.validator.dynamics.counts import MOVES

if TYPE_CHECKING:
    from stepward.validator.dynamics.baseline import Baseline
    from stepward.validator.dynamics.course import Course


class Distance(NamedTuple):
    """The distance of a run in bits, from 0 to 1, and the number of the kind that it is to."""

    bits: float
    kind: int


def distance(baseline: Baseline, course: Course) -> Distance:
    """Return how far the transitions of a run are from those of the nearest kind of healthy runs.

    It is the Jensen-Shannon divergence between what the run did in a state and what runs of the kind do there, as the
    mean over the steps of the run. A state that no healthy run had counts as 1.
    """
    import numpy as np

    kinds, table = baseline.kinds, baseline.table
    counts = np.zeros(len(table.cells))
    for number, count in table.numbers(course).items():
        counts[number] = count if table.cells[number].about == MOVES else 0
    totals = np.bincount(kinds.rows, weights=counts)
    own = np.divide(counts, totals[kinds.rows], out=np.zeros_like(counts), where=totals[kinds.rows] > 0)
    middle = (own + kinds.shares) / 2
    logs = np.log2(np.divide(own, middle, out=np.ones_like(middle), where=own > 0))
    each = (own * logs + kinds.shares * np.log2(kinds.shares / middle)) / 2
    unknown = len(course.moves) - totals.sum()
    found = (each @ np.eye(len(totals))[kinds.rows] @ totals + unknown) / max(len(course.moves), 1)
    nearest = int(found.argmin())
    return Distance(min(max(float(found[nearest]), 0.0), 1.0), nearest)
