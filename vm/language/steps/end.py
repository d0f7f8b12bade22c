"""The end step: ends the run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from stepward.vm.language.node import EMPTY, Value
from stepward.vm.language.steps.base import BaseStep, Outcome, Template
from stepward.vm.language.transitions import DECLARED_FAILURE, SUCCEEDED, Exit


class EndStep(BaseStep):
    """Ends the run."""

    type: Literal["end"]
    outcome: Outcome = "success"
    output: Value = None

    has_output = False
    sub_steps = ()
    calls = ()
    assigns = EMPTY
    expressions = ()
    targets = ()
    max_visits = None

    @property
    def templates(self) -> Iterable[Template]:
        """The output of the run."""
        return (Template(None, ("output",), self.output),)

    @property
    def exits(self) -> tuple[Exit]:
        """The end of the run."""
        return (Exit("end", ending=SUCCEEDED if self.outcome == "success" else DECLARED_FAILURE),)
