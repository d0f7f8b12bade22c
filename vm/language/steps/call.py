"""The base classes of calls: of llm and tool steps, and of the sub-steps of a parallel one."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field
from pydantic_core import PydanticCustomError

from stepward.vm.language.node import ExactNumber, Value
from stepward.vm.language.steps.base import Failing, FailingStep
from stepward.vm.language.steps.catching import Retry
from stepward.vm.language.transitions import SUCCESS, Exit


class Call(Failing):
    """A step or sub-step that calls a model or a tool.

    `depends_on` are the ids of the sub-steps that have to succeed before a sub-step starts; a step has none.
    """

    timeout_seconds: Annotated[ExactNumber, Field(gt=0)] | None = None
    on_timeout: Literal["fail", "fallback"] = "fail"
    fallback: Value = None
    depends_on: Annotated[tuple[str, ...], Field(strict=False, min_length=1)] = ()
    retry: Annotated[tuple[Retry, ...], Field(strict=False, min_length=1)] | None = None

    sub_steps = ()

    @classmethod
    def _of(cls, fields: dict[str, Any]) -> Self:
        if fields.get("retry") is not None and fields.get("on_error") == "retry":
            help = "remove `on_error: retry`; `retry: [{errors: [any], max_attempts: 3}]` has its meaning"
            raise PydanticCustomError(
                "failing", "`retry` and `on_error: retry` both say when to try again", {"help": help}
            )
        return super()._of(fields)

    def retry_after(self, name: str) -> Retry | None:
        """Return the entry of `retry` for an error, or None."""
        return next((entry for entry in self.retry or () if entry.takes(name)), None)


class CallStep(Call, FailingStep):
    """A call of the program's own list."""

    @classmethod
    def fields(cls) -> dict[str, Any]:
        """Return the annotation of every field: those of a sub-step but for `depends_on`, and those of a step."""
        return {name: annotation for name, annotation in super().fields().items() if name != "depends_on"}

    @property
    def exits(self) -> tuple[Exit, ...]:
        """The exits to the successor, and those of a call that does not succeed."""
        return (SUCCESS, *self.failures(can_fall_back=self.on_timeout == "fallback"))
