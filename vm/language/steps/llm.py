"""The llm step: asks a model."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import Field

from stepward.vm.language.node import ExactNumber
from stepward.vm.language.steps.base import Count, Template
from stepward.vm.language.steps.call import Call, CallStep
from stepward.vm.language.types import TypeSpec


class LlmCall(Call):
    """Asks a model, whose reply is data. This class is a sub-step; LlmStep is a step.

    `model` is a name that the deployment maps to a model. `temperature` and `max_output_tokens` are sent to it.
    """

    type: Literal["llm"]
    prompt: str
    system: str | None = None
    allowed_outputs: Annotated[tuple[str, ...], Field(strict=False, min_length=1)] | None = None
    returns: TypeSpec | None = None
    cache: bool = False
    model: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    temperature: Annotated[ExactNumber, Field(ge=0)] | None = None
    max_output_tokens: Count | None = None

    @property
    def templates(self) -> Iterable[Template]:
        """The prompt and the system text."""
        yield Template(None, ("prompt",), self.prompt)
        if self.system is not None:
            yield Template(None, ("system",), self.system)


class LlmStep(LlmCall, CallStep):
    """An llm step of the program's own list."""

    @property
    def calls(self) -> tuple[tuple[None, LlmCall]]:
        """The step itself."""
        return ((None, self),)
