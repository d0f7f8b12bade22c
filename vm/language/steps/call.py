"""The base classes of calls: of llm and tool steps, and of the sub-steps of a parallel one."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from stepward.vm.language.node import ExactNumber, Value
from stepward.vm.language.steps.base import Failing, FailingStep
from stepward.vm.language.transitions import SUCCESS, Exit


class Call(Failing):
    """A step or sub-step that calls a model or a tool."""

    timeout_seconds: Annotated[ExactNumber, Field(gt=0)] | None = None
    on_timeout: Literal["fail", "fallback"] = "fail"
    fallback: Value = None

    sub_steps = ()


class CallStep(Call, FailingStep):
    """A call of the program's own list."""

    @property
    def exits(self) -> tuple[Exit, ...]:
        """The exits to the successor, and those of a call that does not succeed."""
        return (SUCCESS, *self.failures(can_fall_back=self.on_timeout == "fallback"))
