"""Finds where a fleet changes: Bayesian online change-point detection over its runs, with a constant hazard.

Before a change, a run has the probability that the kinds of healthy runs give it. After a change at run t, it has
that of kinds whose shares are unknown: they are learnt from the runs since t, and begin at the healthy ones. Each t is
one hypothesis. The weights of the kinds are the same on both sides, so that many hard tasks in a row are no change.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from stepward.validator.dynamics.kinds import Floats, Kinds

HAZARD: Final = 1 / 1_000
"""The probability of a change at each run, before the run is seen."""

OLDEST: Final = 300
"""Runs after which a hypothesis is dropped. With few healthy runs it is a third of them: after that it would learn
what healthy runs are better than the baseline knows it, and would be no change."""

YOUNGEST: Final = 20

MOST: Final = 75
"""Hypotheses that are kept: the most probable ones."""


class Prior(NamedTuple):
    """What is expected of a changed row.

    The healthy shares count for `strength` actions; a part of them, `even`, is spread evenly over all actions. Single
    runs differ from each other by `concentration`, beside what healthy ones do.
    """

    strength: float
    even: float
    concentration: float


PRIORS: Final = (
    Prior(strength=4.0, even=0.3, concentration=inf),  # a large change
    Prior(strength=40.0, even=0.0, concentration=inf),  # a slight one
    Prior(strength=4.0, even=0.3, concentration=3.0),  # one that is in some runs and not in others
)

CHANGED: Final = 0.15
"""The probability that a change is in a row: most changes are in a few."""

SUREST: Final = 30.0
"""The largest logarithm of the odds that a row has changed: what it was once may become wrong again."""


class Reading(NamedTuple):
    """What one run adds. `odds` is the logarithm of the odds that the fleet has changed by now.

    `since` is the most probable first run of the change. `excess` is the surprise of the run beyond what a healthy run
    of its size has, in bits. `unlike` says by table how much better some other shares explain the run, in bits.
    """

    odds: float
    since: int
    excess: float
    unlike: tuple[float, ...]


class Detector:
    """Reads the runs of one fleet in their order; `healthy_runs` is the number of those that the baseline is of."""

    def __init__(self, kinds: Kinds, healthy_runs: int) -> None:
        import numpy as np

        self._oldest = max(YOUNGEST, min(OLDEST, healthy_runs // 3))

        self._kinds = kinds
        self._number = 0
        self._entropies = _entropies(kinds)
        self._tables = kinds.tables[kinds.rows]
        self._rows = int(kinds.rows.max()) + 1
        k, c = kinds.shares.shape
        even = 1.0 / np.bincount(kinds.rows)[kinds.rows]
        self._priors = np.stack([one.strength * ((1 - one.even) * kinds.shares + one.even * even) for one in PRIORS])
        strengths = np.array([[[one.strength]] for one in PRIORS])
        self._sizes = np.broadcast_to(strengths, (len(PRIORS), k, self._rows))
        # For each hypothesis: the logarithm of its probability, relative to no change; when it begins; how runs differ;
        # its prior and what it has seen, by kind and action, and by kind and row; the logarithm of the odds that a row
        # has changed.
        self._logs = np.zeros(0)
        self._starts = np.zeros(0, dtype=int)
        self._caps = np.zeros(0)
        self._seen = np.zeros((0, k, c))
        self._totals = np.zeros((0, k, self._rows))
        self._odds = np.zeros((0, k, self._rows))

    def add(self, run: dict[int, int]) -> Reading:
        """Return what the next run says."""
        import numpy as np

        self._begin()
        view = _View(run, self._kinds.rows)
        healthy, same = self._healthy(view)
        whole = float(_log_sum(same))
        changed, by_kind = self._changed(view, healthy)
        per_run = _log_sum(by_kind)
        self._logs = self._logs + per_run - whole
        belongs = np.exp(by_kind - per_run[:, None])[:, :, None]
        self._seen[:, :, view.actions] += belongs * view.counts
        self._totals[:, :, view.touched] += belongs * view.sums
        odds = self._odds[:, :, view.touched] + belongs * (changed - healthy)
        self._odds[:, :, view.touched] = np.clip(odds, -SUREST, SUREST)
        reading = Reading(
            float(_log_sum(self._logs) - np.log1p(-HAZARD)),
            int(self._starts[self._logs.argmax()]),
            *self._surprises(healthy, same, view),
        )
        self._number += 1
        self._prune()
        return reading

    def frozen(self) -> Detector:
        """Return a detector that knows the most probable change as it is known now, and learns nothing more."""
        other = Detector(self._kinds, 0)
        for name in ("_logs", "_starts", "_caps", "_seen", "_totals", "_odds"):
            setattr(other, name, getattr(self, name)[[int(self._logs.argmax())]])
        return other

    def gain(self, run: dict[int, int]) -> float:
        """Return the logarithm of how much more probable a run is after the change that is known than before it."""
        view = _View(run, self._kinds.rows)
        healthy, same = self._healthy(view)
        _, by_kind = self._changed(view, healthy)
        return float(_log_sum(by_kind).max() - _log_sum(same))

    def restart(self) -> None:
        """Forget everything but the number of the next run: the fleet is healthy again."""
        self._keep([])

    def interval(self) -> tuple[int, int]:
        """Return the first and the last run of the interval that holds the change with a probability of 95 %."""
        import numpy as np

        order = np.argsort(self._starts, kind="stable")
        shares = np.cumsum(np.exp(self._logs[order] - _log_sum(self._logs)))
        ends = [min(int(np.searchsorted(shares, share)), len(order) - 1) for share in (0.025, 0.975)]
        first, last = (int(self._starts[order][end]) for end in ends)
        return first, last

    def _begin(self) -> None:
        """Add the hypotheses that the change is at this run."""
        import numpy as np

        new = len(PRIORS)
        k = len(self._kinds.weights)
        self._logs = np.append(self._logs, np.full(new, np.log(HAZARD / new)))
        self._starts = np.append(self._starts, np.full(new, self._number))
        self._caps = np.append(self._caps, [one.concentration for one in PRIORS])
        self._seen = np.concatenate([self._seen, self._priors])
        self._totals = np.concatenate([self._totals, self._sizes])
        self._odds = np.concatenate([self._odds, np.full((new, k, self._rows), np.log(CHANGED / (1 - CHANGED)))])

    def _prune(self) -> None:
        import numpy as np

        kept = np.flatnonzero(self._number - self._starts < self._oldest)
        if len(kept) > MOST:
            kept = np.sort(kept[np.argsort(self._logs[kept])[-MOST:]])
        if len(kept) < len(self._logs):
            self._keep(kept)

    def _keep(self, kept: Any) -> None:
        import numpy as np

        kept = np.asarray(kept, dtype=int)
        self._logs, self._starts, self._caps = self._logs[kept], self._starts[kept], self._caps[kept]
        self._seen, self._totals, self._odds = self._seen[kept], self._totals[kept], self._odds[kept]

    def _healthy(self, view: _View) -> tuple[Floats, Floats]:
        """Return logarithms of probabilities of a run where nothing has changed: by kind and row; of run and kind."""
        import numpy as np

        kinds = self._kinds
        pseudo = kinds.shares[:, view.actions] * kinds.concentrations[:, None]
        wholes = np.broadcast_to(kinds.concentrations[:, None], (len(kinds.weights), len(view.touched)))
        rows = view.log_probability(pseudo, wholes)
        return rows, rows.sum(axis=-1) + np.log(kinds.weights)

    def _changed(self, view: _View, healthy: Floats) -> tuple[Floats, Floats]:
        """Return the same for each hypothesis: of rows that have changed; of run and kind, where some have."""
        import numpy as np

        known, seen = self._totals[:, :, view.touched], self._seen[:, :, view.actions]
        # Single runs differ after a change, too, so what was learnt counts for no more than that allows.
        differ = 1 / self._kinds.concentrations[:, None] + 1 / self._caps[:, None, None]
        wholes = 1 / (differ + 1 / known)
        rows = view.log_probability(seen * (wholes / known)[:, :, view.own], wholes)
        odds = self._odds[:, :, view.touched]
        each = np.logaddexp(healthy, odds + rows) - np.logaddexp(0.0, odds)
        return rows, each.sum(axis=-1) + np.log(self._kinds.weights)

    def _surprises(self, healthy: Floats, same: Floats, view: _View) -> tuple[float, tuple[float, ...]]:
        import numpy as np

        belongs = np.exp(same - _log_sum(same))
        surprise = -healthy.sum(axis=-1) / np.log(2)
        expected = self._entropies[:, view.touched] @ view.sums
        ratios = (view.counts / view.sums[view.own]) / self._kinds.shares[:, view.actions]
        better = belongs @ (view.counts * np.log2(ratios))
        unlike = np.bincount(self._tables[view.actions], weights=better, minlength=int(self._tables.max()) + 1)
        return float(belongs @ (surprise - expected)), tuple(unlike.tolist())


def _log_sum(values: Any) -> Any:
    """Return the logarithm of the sum of numbers along the last axis, from their logarithms."""
    import numpy as np

    most = values.max(axis=-1, keepdims=True)
    return np.log(np.exp(values - most).sum(axis=-1)) + most[..., 0]


class _View:
    """One run: the actions that it took, and the rows that these belong to."""

    def __init__(self, run: dict[int, int], rows: Any) -> None:
        import numpy as np

        self.actions = np.array(sorted(run), dtype=int)
        self.counts = np.array([run[action] for action in sorted(run)], dtype=float)
        # The actions of a row stand together in the table.
        self.touched, self._firsts, self.own = np.unique(rows[self.actions], return_index=True, return_inverse=True)
        self.sums = np.zeros(len(self.touched))
        np.add.at(self.sums, self.own, self.counts)

    def log_probability(self, pseudo: Any, wholes: Any) -> Any:
        """Return the logarithm of the Dirichlet-multinomial probability of each row of this run.

        `pseudo` are the pseudo-counts of the actions, `wholes` their sums by row.
        """
        import numpy as np
        from scipy.special import gammaln

        actions = np.add.reduceat(gammaln(pseudo + self.counts) - gammaln(pseudo), self._firsts, axis=-1)
        return actions + gammaln(wholes) - gammaln(wholes + self.sums)


def _entropies(kinds: Kinds) -> Floats:
    """Return the entropy of each row in each kind, in bits."""
    import numpy as np

    each = -kinds.shares * np.log2(kinds.shares)
    found = np.zeros((len(kinds.weights), int(kinds.rows.max()) + 1))
    for action, row in enumerate(kinds.rows):
        found[:, row] += each[:, action]
    return found
