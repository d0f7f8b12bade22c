"""The anatomy: what every step type has to say, so that readers of a program need not know the types."""

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
    """The anatomy of a step. A new type has to define all of it; mypy reports what is missing."""

    @property
    def sub_steps(self) -> Sequence[LlmCall | ToolCall]:
        """Its sub-steps."""

    @property
    def calls(self) -> Sequence[tuple[int | None, LlmCall | ToolCall]]:
        """Its calls to a model or a tool, each with the position of its sub-step, or None for the step itself."""

    @property
    def has_output(self) -> bool:
        """Whether it has an output, or an error if it fails."""

    @property
    def assigns(self) -> FrozenMap:
        """The variables that it assigns and their values; a text is an expression."""

    @property
    def expressions(self) -> Iterable[Text]:
        """The expressions that it evaluates, in order."""

    @property
    def templates(self) -> Iterable[Template]:
        """The values in which it fills in references, in order."""

    @property
    def exits(self) -> Sequence[Exit]:
        """Its exits, without those of a bound on its visits."""

    @property
    def targets(self) -> Iterable[str]:
        """The ids of its arms: the steps that it names as a branch, a case or an error step."""
