"""The budgets that calls of models use up: one row for each."""

from __future__ import annotations

from typing import Final, NamedTuple


class ModelBudget(NamedTuple):
    """A budget that is checked before each call of a model.

    `field` is the field of the program that sets it, `spent` the field of a run's state that counts, and `reason` the
    reason with which a run ends that has used it up.
    """

    field: str
    spent: str
    reason: str


MODEL_BUDGETS: Final = (
    ModelBudget("max_tokens", "tokens", "max_tokens"),
    ModelBudget("max_cost", "cost", "cost"),
)
"""All of them. If two are used up, a run ends for the first."""
