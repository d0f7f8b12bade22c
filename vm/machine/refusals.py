"""What the machine refuses. In each case nothing has happened, and the message says why."""

from __future__ import annotations

from stepward.vm.errors import StepwardError


class RunRefused(StepwardError):  # noqa: N818 - reads better where it is caught than with a suffix
    """A run does not start: its program has findings, its inputs are not as declared, a tool is missing, or the run id
    is taken by a run of something else. The message says which, and nothing has happened."""


class NoSuchRun(StepwardError):  # noqa: N818
    """The journal has no run of that id."""


class RunBusy(StepwardError):  # noqa: N818
    """Somebody else drives the run; try again when its lease has ended."""


class DeliveryRefused(StepwardError):  # noqa: N818
    """A resume or a reconciliation is not accepted: a token that is used, or of another run, step or program, a payload
    of the wrong type, a step that is not in doubt. The run is as it was."""
