"""The errors of refused requests. The run is unchanged in each case, and the message says why."""

from __future__ import annotations

from stepward.vm.errors import StepwardError


class RunRefused(StepwardError):  # noqa: N818 - reads better where it is caught than with a suffix
    """A run does not start or continue: its program has findings, an input is wrong, a tool is missing, the run id is
    taken, or the run broke a rule. The message says which, and `help` what to do where only one thing can be done."""

    def __init__(self, message: str, help: str = "") -> None:
        super().__init__(message)
        self.help = help


class RunTaken(RunRefused):
    """There is a run with the id that the next turn of a session has: somebody else has gone on with the session."""


class NotEquipped(RunRefused):
    """The machine lacks a tool or the model of a run."""


class NoSuchRun(StepwardError):  # noqa: N818
    """The journal has no run with this id."""


class RunBusy(StepwardError):  # noqa: N818
    """Somebody else drives the run; try again when its lease has ended."""


class DeliveryRefused(StepwardError):  # noqa: N818
    """A resume or a reconciliation is refused: the token is used, or of another run, step or program, the payload has
    the wrong type, or the step is not in doubt."""
