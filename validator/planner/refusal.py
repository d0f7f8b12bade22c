"""The refusal of a plan."""

from __future__ import annotations

from stepward.validator.result import AdvisedError


class PlanRefused(AdvisedError):  # noqa: N818 - a name without Error
    """No plan can be made from what the operator has given."""
