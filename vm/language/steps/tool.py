"""The tool step: calls a tool of the manifest."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import Field

from stepward.vm.language.node import EMPTY, ExactNumber, ObjectValue
from stepward.vm.language.steps.base import Template
from stepward.vm.language.steps.call import Call, CallStep
from stepward.vm.language.steps.wait import LONGEST_WAIT


class ToolCall(Call):
    """Calls a tool of the manifest. This class is a sub-step; ToolStep is a step.

    `deadline_seconds` is the time after which a call that suspends its run waits no longer for its output.
    """

    type: Literal["tool"]
    tool: Annotated[str, Field(min_length=1)]
    args: ObjectValue = EMPTY
    deadline_seconds: Annotated[ExactNumber, Field(gt=0, le=LONGEST_WAIT)] | None = None

    @property
    def templates(self) -> Iterable[Template]:
        """The arguments."""
        return (Template(None, ("args",), self.args),) if self.args else ()


class ToolStep(ToolCall, CallStep):
    """A tool step of the program's own list."""

    @property
    def calls(self) -> tuple[tuple[None, ToolCall]]:
        """The step itself."""
        return ((None, self),)
