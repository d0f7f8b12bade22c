"""The refusal of a request, as its caller is told."""

from __future__ import annotations

from stepward.vm.errors import StepwardError


class Refused(StepwardError):  # noqa: N818 - it is an answer: the request is not carried out
    """A request is not carried out: `message` says why, and `help` what the caller can do."""

    def __init__(self, message: str, help: str = "") -> None:
        self.message = message
        self.help = help
        super().__init__(message)
