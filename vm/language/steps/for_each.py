"""The for_each step: performs a body of steps once for each item of a list."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from stepward.vm.language.guardrails import Guardrail
from stepward.vm.language.node import EMPTY, ObjectValue, Value
from stepward.vm.language.steps.assign import checked_names
from stepward.vm.language.steps.base import Count, FailingStep, Template, Text, VariableName
from stepward.vm.language.steps.llm import LlmCall, LlmStep
from stepward.vm.language.steps.tool import ToolCall, ToolStep
from stepward.vm.language.transitions import SUCCESS, Exit
from stepward.vm.values import FrozenMap

if TYPE_CHECKING:
    from stepward.vm.language.steps import AnyStep

OnItemError = Literal["fail", "skip"]


class ForEachStep(FailingStep):
    """Performs its body once for each item of a list. Its output has one entry for each item, in order.

    With `max_concurrency` above 1, as many items run at once.

    The field `as` names the item in the body. It is no attribute, because the word is Python's: see `item_name`.
    """

    type: Literal["for_each"]
    items: Value
    index_as: VariableName | None = None
    max_items: Count | None = None
    max_concurrency: Count = 1
    do: Annotated[LlmCall | ToolCall, Field(discriminator="type")] | None = None
    carry: Annotated[ObjectValue, AfterValidator(checked_names)] = EMPTY
    on_item_error: OnItemError = "fail"
    guardrails: Annotated[tuple[Guardrail, ...], Field(strict=False)] = ()
    if TYPE_CHECKING:
        steps: tuple[AnyStep, ...] | None
    else:
        steps = None

    sub_steps = ()
    calls = ()
    is_once = False
    """Whether the body is performed once, and its output is that of the step."""

    @classmethod
    def fields(cls) -> dict[str, Any]:
        """Return the annotation of every field: `as` can't be written as one, and `steps` holds steps of all types."""
        from stepward.vm.language.steps import Step

        steps = Annotated[tuple[Step, ...], Field(strict=False, min_length=1)] | None
        return {**super().fields(), "as": VariableName, "steps": steps}

    @classmethod
    def _of(cls, fields: dict[str, Any]) -> Self:
        if (fields.get("steps") is None) == (fields.get("do") is None):
            raise PydanticCustomError(
                "body_form", "a for_each step has either `steps` or `do`", {"help": "list the steps under `steps`"}
            )
        if fields.get("max_concurrency", 1) > 1 and fields.get("carry"):
            why = "items that run at once can't carry variables on: `carry` needs an order of items"
            raise PydanticCustomError("body_form", why, {"help": "remove `max_concurrency`"})
        return super()._of(fields)

    @property
    def item_name(self) -> str:
        """The variable that is the item in the body."""
        name: str = vars(self)["as"]
        return name

    @property
    def is_beside(self) -> bool:
        """Whether items run at once."""
        return self.max_concurrency > 1

    @property
    def body(self) -> tuple[AnyStep, ...]:
        """The steps of the body; `do` is a body of one step."""
        if self.steps is not None:
            return self.steps
        match self.do:
            case ToolCall():
                return (ToolStep._of(vars(self.do)),)
            case LlmCall():
                return (LlmStep._of(vars(self.do)),)
            case None:
                raise AssertionError("a body has steps")

    @property
    def assigns(self) -> FrozenMap:
        """The variables that items carry on, and their first values; a text is an expression. In the order of their
        names, as those of a `set`."""
        return FrozenMap(sorted(self.carry.items()))

    @property
    def expressions(self) -> Iterable[Text]:
        """The texts of `carry`; other values are constants."""
        for name, value in sorted(self.carry.items()):
            if isinstance(value, str):
                yield Text(("carry", name), value, is_condition=False)

    @property
    def templates(self) -> Iterable[Template]:
        """The items."""
        return (Template(None, ("items",), self.items),)

    @property
    def exits(self) -> tuple[Exit, ...]:
        """The exits of its start: to its items, and those of a failure, because the items may be no list."""
        return (SUCCESS, *self.failures(can_fall_back=False))
