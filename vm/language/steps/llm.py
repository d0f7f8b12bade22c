"""The llm step: asks a model."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import Field

from stepward.vm.language.steps.base import Template
from stepward.vm.language.steps.call import Call, CallStep
from stepward.vm.language.types import TypeSpec


class LlmCall(Call):
    """Asks a model, whose reply is data. This class is a sub-step; LlmStep is a step."""

    type: Literal["llm"]
    prompt: str
    system: str | None = None
    allowed_outputs: Annotated[tuple[str, ...], Field(strict=False, min_length=1)] | None = None
    returns: TypeSpec | None = None
    cache: bool = False

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
