"""The step types: each file has the fields and the anatomy of one type.

The anatomy (`Anatomy`) describes a step, so that readers of a program need not know the types.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Final, get_args

from pydantic import Field

from stepward.vm.language.steps.anatomy import Anatomy
from stepward.vm.language.steps.assign import SetStep as SetStep
from stepward.vm.language.steps.base import BaseStep as BaseStep
from stepward.vm.language.steps.base import Count as Count
from stepward.vm.language.steps.base import Failing as Failing
from stepward.vm.language.steps.base import FailingStep as FailingStep
from stepward.vm.language.steps.base import Outcome as Outcome
from stepward.vm.language.steps.base import Routed as Routed
from stepward.vm.language.steps.base import VariableName as VariableName
from stepward.vm.language.steps.branch import BranchStep as BranchStep
from stepward.vm.language.steps.call import Call as Call
from stepward.vm.language.steps.compute import ComputeStep as ComputeStep
from stepward.vm.language.steps.condition import Case as Case
from stepward.vm.language.steps.condition import ConditionStep as ConditionStep
from stepward.vm.language.steps.end import EndStep as EndStep
from stepward.vm.language.steps.for_each import ForEachStep as ForEachStep
from stepward.vm.language.steps.invoke import InvokeStep as InvokeStep
from stepward.vm.language.steps.llm import LlmCall as LlmCall
from stepward.vm.language.steps.llm import LlmStep as LlmStep
from stepward.vm.language.steps.parallel import Branch as Branch
from stepward.vm.language.steps.parallel import ParallelStep as ParallelStep
from stepward.vm.language.steps.stage import Stage as Stage
from stepward.vm.language.steps.tool import ToolCall as ToolCall
from stepward.vm.language.steps.tool import ToolStep as ToolStep
from stepward.vm.language.steps.wait import WaitStep as WaitStep

WrittenStep = (
    LlmStep
    | ToolStep
    | ConditionStep
    | ParallelStep
    | ForEachStep
    | InvokeStep
    | SetStep
    | ComputeStep
    | WaitStep
    | EndStep
)
"""What a document can have as a step."""

AnyStep = WrittenStep | Stage
"""A point of control flow: a step that is written, or a stage of one."""

AnyCall = LlmCall | ToolCall
Step = Annotated[WrittenStep, Field(discriminator="type")]

AnyPart = AnyStep | AnyCall
FailingPart = AnyCall | ParallelStep | ForEachStep | ComputeStep


def _by_type(models: Iterable[type[BaseStep]]) -> dict[str, type[BaseStep]]:
    """Return models by what `type` says in a program."""
    return {get_args(model.fields()["type"])[0]: model for model in models}


STEP_MODELS: Final = _by_type(get_args(WrittenStep))
SUB_STEP_MODELS: Final = _by_type(get_args(AnyCall))


def parts(step: AnyPart) -> Iterator[tuple[int | None, AnyPart]]:
    """Yield a step, and then its sub-steps with their positions in it."""
    yield None, step
    yield from enumerate(step.sub_steps)


if TYPE_CHECKING:

    def _tells_all(step: AnyStep) -> Anatomy:
        """Fail in the type checker where a step type lacks a part of the anatomy."""
        return step
