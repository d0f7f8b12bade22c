"""The parallel step: runs its sub-steps side by side."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import Field

from stepward.vm.language.steps.base import Count, FailingStep, Template
from stepward.vm.language.steps.llm import LlmCall
from stepward.vm.language.steps.tool import ToolCall
from stepward.vm.language.transitions import SUCCESS, Exit


class ParallelStep(FailingStep):
    """Runs its sub-steps side by side, those with `depends_on` after others, and joins them."""

    type: Literal["parallel"]
    parallel_steps: Annotated[
        tuple[Annotated[LlmCall | ToolCall, Field(discriminator="type")], ...], Field(strict=False, min_length=1)
    ]
    max_concurrency: Count | None = None

    @property
    def sub_steps(self) -> tuple[LlmCall | ToolCall, ...]:
        """Its sub-steps."""
        return self.parallel_steps

    @property
    def calls(self) -> tuple[tuple[int, LlmCall | ToolCall], ...]:
        """Its sub-steps."""
        return tuple(enumerate(self.parallel_steps))

    @property
    def templates(self) -> Iterable[Template]:
        """The templates of its sub-steps."""
        for sub, call in enumerate(self.parallel_steps):
            for one in call.templates:
                yield Template(sub, ("parallel_steps", sub, *one.path), one.value)

    @property
    def exits(self) -> tuple[Exit, ...]:
        """The exits to the successor, and, unless each sub-step is skipped when it fails, those of a failure."""
        if all(call.on_error == "skip" for call in self.parallel_steps):
            return (SUCCESS,)
        return (SUCCESS, *self.failures(can_fall_back=False))
