"""The parallel step: runs its sub-steps or its branches side by side."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from stepward.vm.language.guardrails import Guardrail
from stepward.vm.language.node import EMPTY
from stepward.vm.language.record import Record
from stepward.vm.language.steps.base import Count, FailingStep, Identifier, Template
from stepward.vm.language.steps.llm import LlmCall
from stepward.vm.language.steps.tool import ToolCall
from stepward.vm.language.transitions import SUCCESS, Exit
from stepward.vm.values import FrozenMap

if TYPE_CHECKING:
    from stepward.vm.language.steps import AnyStep


class Branch(Record):
    """A branch of a parallel step: a body of steps beside others. `depends_on` names branches that come before it."""

    depends_on: Annotated[tuple[str, ...], Field(strict=False, min_length=1)] = ()
    guardrails: Annotated[tuple[Guardrail, ...], Field(strict=False)] = ()
    if TYPE_CHECKING:
        steps: tuple[AnyStep, ...]

    @classmethod
    def fields(cls) -> dict[str, Any]:
        """Return the annotation of every field: `steps` holds steps of all types."""
        from stepward.vm.language.steps import Step

        return {**super().fields(), "steps": Annotated[tuple[Step, ...], Field(strict=False, min_length=1)]}


def _frozen(branches: dict[str, Branch]) -> FrozenMap:
    """Return branches in the order of their names: a stored program does not keep the order of an object."""
    return FrozenMap(sorted(branches.items()))


class ParallelStep(FailingStep):
    """Runs its sub-steps or its branches side by side, those with `depends_on` after others, and joins them."""

    type: Literal["parallel"]
    parallel_steps: Annotated[
        tuple[Annotated[LlmCall | ToolCall, Field(discriminator="type")], ...], Field(strict=False, min_length=1)
    ] = ()
    max_concurrency: Count | None = None
    if TYPE_CHECKING:
        branches: Mapping[str, Branch]
    else:
        branches: Annotated[dict[Identifier, Branch], Field(min_length=1), AfterValidator(_frozen)] = EMPTY

    @classmethod
    def _of(cls, fields: dict[str, Any]) -> Self:
        if ("parallel_steps" in fields) == ("branches" in fields):
            why = "a parallel step has either `parallel_steps` or `branches`"
            help = (
                "make a branch of each sub-step" if "branches" in fields else "list its sub-steps in `parallel_steps`"
            )
            raise PydanticCustomError("body_form", why, {"help": help})
        if "branches" in fields and fields.get("max_concurrency") is not None:
            why = "a limit for branches side by side is not supported yet"
            raise PydanticCustomError("not_yet", why, {"help": "remove `max_concurrency`"})
        if "branches" in fields and fields.get("on_error") == "retry":
            why = "a parallel step with branches can't be tried again yet"
            raise PydanticCustomError("not_yet", why, {"help": "remove `on_error: retry`, or retry calls in a branch"})
        return super()._of(fields)

    def to_data(self) -> dict[str, Any]:
        """Return the fields that were given, as plain data that loads to an equal record."""
        data = super().to_data()
        if "branches" in data:
            data["branches"] = {name: branch.to_data() for name, branch in self.branches.items()}
        return data

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
        """The exits to the successor, and, unless each sub-step is skipped when it fails, those of a failure.

        Those of a step with branches are the exits of its start: the stage behind its branches has the others.
        """
        if all(call.on_error == "skip" for call in self.parallel_steps):
            return (SUCCESS,)
        return (SUCCESS, *self.failures(can_fall_back=False))
