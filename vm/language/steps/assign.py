"""The set step: assigns variables."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import AfterValidator

from stepward.vm.language.node import ObjectValue
from stepward.vm.language.steps.base import Routed, Text, check_name
from stepward.vm.language.transitions import FAILURE, SUCCESS
from stepward.vm.values import FrozenMap


def checked_names(assigned: FrozenMap) -> FrozenMap:
    """Return assigned values if their keys are names; raises PydanticCustomError if not."""
    for name in assigned:
        check_name(name)
    return assigned


class SetStep(Routed):
    """Assigns variables, all at once."""

    type: Literal["set"]
    set: Annotated[ObjectValue, AfterValidator(checked_names)]

    has_output = False
    sub_steps = ()
    calls = ()
    templates = ()
    targets = ()
    exits = (SUCCESS, FAILURE)

    @property
    def assigns(self) -> FrozenMap:
        """The variables and their values."""
        assigned: FrozenMap = self.set
        return assigned

    @property
    def expressions(self) -> Iterable[Text]:
        """The texts that it assigns; other values are constants."""
        for name, value in self.set.items():
            if isinstance(value, str):
                yield Text(("set", name), value, is_condition=False)
