"""What every type of step tells of itself, so that who reads a program need not know the types."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from stepward.vm.language.steps.base import Template, Text
from stepward.vm.language.transitions import Exit
from stepward.vm.values import FrozenMap

if TYPE_CHECKING:
    from stepward.vm.language.steps.llm import LlmCall
    from stepward.vm.language.steps.tool import ToolCall


class Anatomy(Protocol):
    """The anatomy of a step. A new type owes all of it; the type checker says what it lacks."""

    @property
    def sub_steps(self) -> Sequence[LlmCall | ToolCall]:
        """The steps inside of it."""

    @property
    def calls(self) -> Sequence[tuple[int | None, LlmCall | ToolCall]]:
        """The calls to a model or a tool that it makes, each with the position of its sub-step."""

    @property
    def has_output(self) -> bool:
        """Whether it has an output, and an error when it fails."""

    @property
    def assigns(self) -> FrozenMap:
        """The variables that it assigns, each with its value: a text is an expression."""

    @property
    def expressions(self) -> Iterable[Text]:
        """The expressions that it evaluates, in their order."""

    @property
    def templates(self) -> Iterable[Template]:
        """The values in which it fills in references, in their order."""

    @property
    def exits(self) -> Sequence[Exit]:
        """The ways out of it, but for those of a bound on its visits."""

    @property
    def targets(self) -> Iterable[str]:
        """The ids that it names as a branch, a case or an error step: those steps are arms."""
