"""The refusal of a plan."""

from __future__ import annotations

from stepward.validator.result import AdvisedError


class PlanRefused(AdvisedError):  # noqa: N818 - a name without Error
    """No plan can be made from what the operator has given.

    `help` is for the operator, `for_caller` for who asks through the gateway.
    """

    def __init__(self, message: str, help: str = "", for_caller: str = "") -> None:
        self.for_caller = for_caller or help
        super().__init__(message, help)
