"""The kinds of runs that a healthy fleet has: a mixture of Dirichlet-multinomials over the actions of each row.

Some tasks are easy and some are hard, and runs of both are healthy. So a fleet has one or more *kinds* of runs, each
with probabilities of its own, and runs of one kind differ more than chance alone would have it, by a concentration.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

MOST_KINDS: Final = 4
ROUNDS: Final = 40
PRIOR: Final = 0.5
"""What each action of a row counts for before any run was seen (Jeffreys)."""

SHRINKAGE: Final = 5.0
"""How many actions in each row of all runs together weigh on those of one kind."""

CONCENTRATIONS: Final = (5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 320.0, 1_000.0, 10_000.0)


class Kinds(NamedTuple):
    """The kinds of one fleet: `weights` by kind, `shares` by kind and action, `concentrations` by kind.

    `rows` has the number of the row of each action, `tables` the number of the table of each row.
    """

    weights: Floats
    shares: Floats
    concentrations: Floats
    rows: NDArray[np.intp]
    tables: NDArray[np.intp]


def counted(runs: Sequence[dict[int, int]], actions: int) -> Floats:
    """Return runs as a matrix: how often each run took each action."""
    import numpy as np

    made = np.zeros((len(runs), actions))
    for number, run in enumerate(runs):
        made[number, list(run)] = list(run.values())
    return made


def learn_kinds(runs: Floats, row_of: Sequence[int], table_of: Sequence[int]) -> Kinds:
    """Return the kinds of runs; their number is the one with the lowest Bayesian information criterion."""
    import numpy as np

    rows = np.asarray(row_of)
    best: tuple[float, Any] | None = None
    for number in range(1, MOST_KINDS + 1):
        weights, shares, likelihood = _mixture(runs, rows, number)
        free = number * (len(rows) - len(set(row_of))) + number - 1
        criterion = free * np.log(len(runs)) - 2 * likelihood
        if best is None or criterion < best[0]:
            best = criterion, (weights, shares)
    assert best is not None
    weights, shares = best[1]
    return Kinds(weights, shares, _concentrations(runs, rows, weights, shares), rows, np.asarray(table_of))


def _row_sums(values: Floats, rows: Any) -> Floats:
    """Return, for each action, the sum over all actions of its row; the last axis is that of the actions."""
    import numpy as np

    sums = np.zeros((*values.shape[:-1], rows.max() + 1))
    for action, row in enumerate(rows):
        sums[..., row] += values[..., action]
    return sums[..., rows]


def _mixture(runs: Floats, rows: Any, number: int) -> tuple[Floats, Floats, float]:
    """Return weights and shares of so many kinds, and the logarithm of their likelihood, by EM."""
    import numpy as np

    all_of_them = runs.sum(axis=0) + PRIOR
    common = all_of_them / _row_sums(all_of_them, rows)
    # The first guess: runs by their length, the short ones as one kind, the long ones as another.
    order = np.argsort(runs.sum(axis=1), kind="stable")
    belongs = np.zeros((len(runs), number))
    for kind, members in enumerate(np.array_split(order, number)):
        belongs[members, kind] = 1.0
    likelihood = -np.inf
    for _ in range(ROUNDS):
        seen = belongs.T @ runs + SHRINKAGE * common
        shares = seen / _row_sums(seen, rows)
        weights = (belongs.sum(axis=0) + 1) / (len(runs) + number)
        each = runs @ np.log(shares).T + np.log(weights)
        most = each.max(axis=1, keepdims=True)
        whole = np.log(np.exp(each - most).sum(axis=1, keepdims=True)) + most
        belongs = np.exp(each - whole)
        before, likelihood = likelihood, float(whole.sum())
        if likelihood - before < 1e-6 * abs(likelihood):
            break
    return weights, shares, likelihood


def _concentrations(runs: Floats, rows: Any, weights: Floats, shares: Floats) -> Floats:
    """Return for each kind the concentration under which its runs are most likely."""
    import numpy as np

    each = runs @ np.log(shares).T + np.log(weights)
    nearest = each.argmax(axis=1)
    found = []
    for kind in range(len(weights)):
        own = runs[nearest == kind]
        fits = [float(log_probability(own, shares[kind] * c, rows).sum()) for c in CONCENTRATIONS]
        found.append(CONCENTRATIONS[int(np.argmax(fits))])
    return np.array(found)


def log_probability(runs: Any, pseudo: Any, rows: Any) -> Any:
    """Return the logarithm of the Dirichlet-multinomial probability of the actions of runs, in their order.

    The last axis of `runs` and of `pseudo`, the pseudo-counts, is that of the actions.
    """
    import numpy as np
    from scipy.special import gammaln

    one_of_each = np.zeros(len(rows))
    one_of_each[np.unique(rows, return_index=True)[1]] = 1.0  # a row has one total, not one for each of its actions
    totals, wholes = _row_sums(runs, rows), _row_sums(pseudo, rows)
    actions = gammaln(pseudo + runs) - gammaln(pseudo)
    return (actions + one_of_each * (gammaln(wholes) - gammaln(wholes + totals))).sum(axis=-1)
