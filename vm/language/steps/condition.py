"""The condition step: takes one branch."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated, Any, Literal, Self

from pydantic import Field
from pydantic_core import PydanticCustomError

from stepward.vm.language.node import EMPTY
from stepward.vm.language.record import Record
from stepward.vm.language.steps.base import BaseStep, Count, Text
from stepward.vm.language.transitions import FAILURE, UNCOVERED, Exit


class Case(Record):
    """One case of a many-way condition."""

    when: str
    then: str
    name: Annotated[str, Field(min_length=1)] | None = None


class ConditionStep(BaseStep):
    """Takes one branch; two-way by `condition`, many-way by `cases`."""

    type: Literal["condition"]
    condition: str | None = None
    then: str | None = None
    otherwise: str | None = None
    cases: Annotated[tuple[Case, ...], Field(strict=False, min_length=1)] | None = None
    exclusive: bool = False
    max_visits: Count | None = None

    has_output = False
    sub_steps = ()
    calls = ()
    assigns = EMPTY
    templates = ()

    @classmethod
    def _of(cls, fields: dict[str, Any]) -> Self:
        _check_form(fields.get)
        return super()._of(fields)

    @property
    def expressions(self) -> Iterable[Text]:
        """The conditions, in the order of their evaluation."""
        if self.condition is not None:
            yield Text(("condition",), self.condition, is_condition=True)
        for number, case in enumerate(self.cases or ()):
            yield Text(("cases", number, "when"), case.when, is_condition=True)

    @property
    def exits(self) -> tuple[Exit, ...]:
        """The branches; `otherwise`, or an ending if no branch applies; and an ending if a condition has no value."""
        if self.then is not None:
            exits: tuple[Exit, ...] = (Exit("branch", self.then, ("then",), "then"),)
        else:
            exits = tuple(
                Exit("branch", case.then, ("cases", number, "then"), number + 1)
                for number, case in enumerate(self.cases or ())
            )
        if self.otherwise is not None:
            exits += (Exit("branch", self.otherwise, ("otherwise",), "otherwise"),)
        # A condition with only `otherwise` takes no branch if it holds.
        if self.otherwise is None or (self.then is None and self.cases is None):
            exits += (UNCOVERED,)
        return (*exits, FAILURE)

    @property
    def targets(self) -> Iterable[str]:
        """The steps that its branches name."""
        for exit in self.exits:
            if exit.target is not None:
                yield exit.target

    @property
    def branch_names(self) -> dict[str | int, str | int]:
        """The names that a guardrail may use for each branch, with the name of the branch in control flow."""
        names: dict[str | int, str | int] = {}
        if self.condition is not None and self.then is not None:
            names["then"] = "then"
        for number, case in enumerate(self.cases or (), start=1):
            names[number] = number
            if case.name is not None:
                names[case.name] = number
        if self.otherwise is not None:
            names["otherwise"] = "otherwise"
        return names


def _check_form(get: Callable[[str], Any]) -> None:
    is_two_way, is_many_way, has_then = get("condition") is not None, get("cases") is not None, get("then") is not None
    if is_two_way == is_many_way:
        raise PydanticCustomError("condition_form", "a condition step has either `condition` or `cases`")
    if is_many_way and has_then:
        raise PydanticCustomError("condition_form", "`then` belongs to each case when a condition has `cases`")
    if is_two_way and not has_then and get("otherwise") is None:
        raise PydanticCustomError("condition_form", "a condition needs `then`, `otherwise` or both")
    if is_two_way and get("exclusive"):
        raise PydanticCustomError("condition_form", "`exclusive` belongs to a condition with `cases`")
