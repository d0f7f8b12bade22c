"""The errors of refused requests. The run is unchanged in each case, and the message says why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from stepward.vm.errors import StepwardError
from stepward.vm.values import to_json

if TYPE_CHECKING:
    from stepward.vm.language.types import TypeSpec


class RunRefused(StepwardError):  # noqa: N818 - reads better where it is caught than with a suffix
    """A run does not start or continue: its program has findings, an input is wrong, a tool is missing, the run id is
    taken, or the run broke a rule. The message says which, and `help` what to do where only one thing can be done.

    `accept` is the code of a finding that the operator may accept instead. Of a wrong input, `unsaid` says it without a
    value and without a name that is not declared.
    """

    unsaid: str | None = None

    def __init__(self, message: str, help: str = "", accept: str = "") -> None:
        super().__init__(message)
        self.help, self.accept = help, accept


def input_refused(why: str, types: Mapping[str, TypeSpec | None]) -> RunRefused:
    """Return the refusal of inputs: `why` says what is wrong, as `completed` does, and `types` are those of all."""
    error = RunRefused(f"input {why}")
    error.unsaid = "an input is not declared"
    for name, spec in types.items():
        if why == f"`{name}` is missing":
            error.unsaid = f"input `{name}` is missing"
        elif why.startswith((f"`{name}`: ", f"`{name}` is not of")):
            error.unsaid = f"input `{name}` is not of its type: {to_json({} if spec is None else spec.to_data())}"
    return error


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
