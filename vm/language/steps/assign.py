"""The set step: assigns variables."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import AfterValidator
from pydantic_core import PydanticCustomError

from stepward.vm.errors import ExpressionError
from stepward.vm.expressions.paths import by_variable, clash, is_path, names_of_key
from stepward.vm.language.node import ObjectValue
from stepward.vm.language.steps.base import Routed, Text, check_name
from stepward.vm.language.transitions import FAILURE, SUCCESS
from stepward.vm.values import FrozenMap


def checked_names(assigned: FrozenMap) -> FrozenMap:
    """Return assigned values if their keys are names; raises PydanticCustomError if not."""
    for name in assigned:
        check_name(name)
    return assigned


def checked_targets(assigned: FrozenMap) -> FrozenMap:
    """Return what a `set` assigns if its keys are names and paths that do not contradict one another; raises
    PydanticCustomError if not."""
    for key in assigned:
        try:
            check_name(names_of_key(key)[0])
        except ExpressionError as error:
            raise PydanticCustomError("assigned_path", "{why}", {"why": error.message, "help": error.help}) from None
    found = clash(assigned)
    if found is not None:
        help = "remove one of them, or assign them in two steps"
        raise PydanticCustomError(
            "assigned_path",
            "`{one}` and `{other}` are assigned at once",
            {"one": found[0], "other": found[1], "help": help},
        )
    return assigned


class SetStep(Routed):
    """Assigns variables and fields of objects, all at once."""

    type: Literal["set"]
    set: Annotated[ObjectValue, AfterValidator(checked_targets)]

    has_output = False
    sub_steps = ()
    calls = ()
    templates = ()
    targets = ()
    exits = (SUCCESS, FAILURE)

    @property
    def assigns(self) -> FrozenMap:
        """The variables and their values; Paths of a variable of which it assigns fields. They are in the order of the
        names: a mapping has none that a stored program keeps, and the first failure counts."""
        return by_variable(FrozenMap(sorted(self.set.items())))

    @property
    def expressions(self) -> Iterable[Text]:
        """The texts that it assigns to variables; other values are constants, or are built."""
        for name, value in sorted(self.set.items()):
            if isinstance(value, str) and not is_path(name):
                yield Text(("set", name), value, is_condition=False)
