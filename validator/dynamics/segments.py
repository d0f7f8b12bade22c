"""Change points found when all runs are known: the offline look, beside the alarms that come run by run."""

from __future__ import annotations

from collections.abc import Sequence
from math import log
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from stepward.validator.dynamics.measures import Measures

SIGNALS: Final = ("entropy", "rollback_density", "tool_churn", "violation_rate", "retries", "tokens")
"""The measures of single runs that are divided into stretches, each by its own standard deviation."""

SHORTEST: Final = 10
"""Runs of a stretch."""

PENALTY: Final = 3.0
"""What a change point costs, times the number of signals that vary, plus one, times the logarithm of the runs."""


def change_points(runs: Sequence[Measures]) -> list[int]:
    """Return the numbers of the runs at which a new stretch begins, by PELT with quadratic cost (`ruptures`)."""
    import numpy as np
    import ruptures

    signal = np.array([[float(getattr(run, name)) for name in SIGNALS] for run in runs])
    if len(signal) < 2 * SHORTEST:
        return []
    # From differences of neighbours, so that a change does not widen what it is measured by.
    spread = np.diff(signal, axis=0).std(axis=0) / np.sqrt(2)
    varies = spread > 1e-9
    if not varies.any():
        return []
    found = ruptures.KernelCPD(kernel="linear", min_size=SHORTEST).fit(signal[:, varies] / spread[varies])
    return [int(end) for end in found.predict(pen=PENALTY * (int(varies.sum()) + 1) * log(len(signal)))[:-1]]
