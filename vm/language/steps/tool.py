"""The tool step: calls a tool of the manifest."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import Field

from stepward.vm.language.node import EMPTY, ObjectValue
from stepward.vm.language.steps.base import Template
from stepward.vm.language.steps.call import Call, CallStep


class ToolCall(Call):
    """Calls a tool of the manifest. This class is a sub-step; ToolStep is a step."""

    type: Literal["tool"]
    tool: Annotated[str, Field(min_length=1)]
    args: ObjectValue = EMPTY

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
