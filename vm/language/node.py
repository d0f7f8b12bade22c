"""The base of the models: frozen, strict, and without fields that the language does not know."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer
from pydantic_core import PydanticCustomError

from stepward.vm.values import FrozenMap, Number, ValueRefused, exact, freeze


class Node(BaseModel):
    """A validated part of a program or policy."""

    # Only whole documents are validated: building a validator for each part on import would double the start.
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, arbitrary_types_allowed=True, defer_build=True)

    def to_data(self) -> dict[str, Any]:
        """Return the fields that were given, as plain data that loads to an equal object."""
        return self.model_dump(exclude_unset=True, by_alias=True)


def number_of(value: Any) -> Any:
    """Return a number as the language has it: int or Decimal; raises PydanticCustomError for any other value."""
    if isinstance(value, bool) or not isinstance(value, Number | float):
        raise PydanticCustomError("number_type", "a number is expected")
    try:
        return exact(value)
    except ValueRefused as error:
        raise PydanticCustomError("number_refused", "{reason}", {"reason": str(error)}) from None


def _whole(value: Any) -> Any:
    """Return a whole number; raises PydanticCustomError for what only equals one, such as `true` or 2.0."""
    if type(value) is not int:
        raise PydanticCustomError("int_type", "a whole number is expected")
    return value


def is_quoted_number(value: Any, *, is_whole: bool) -> bool:
    """Return whether a value is a text that is a number, or a whole number, without its quotes."""
    form = "-?[0-9]+" if is_whole else "-?[0-9]+([.][0-9]+)?"
    return isinstance(value, str) and re.fullmatch(form, value) is not None


def _frozen(value: Any) -> Any:
    try:
        return freeze(value)
    except ValueRefused as error:
        raise PydanticCustomError("value_refused", "{reason}", {"reason": str(error)}) from None


def _frozen_object(value: Any) -> Any:
    if not isinstance(value, dict):
        raise PydanticCustomError("dict_type", "an object is expected")
    return _frozen(value)


def plain(value: Any) -> Any:
    """Return a mutable copy of a frozen value."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, tuple) else value


ExactNumber = Annotated[Any, BeforeValidator(number_of), Field(json_schema_extra={"type": "number"})]
"""A number as the language has it: int or Decimal."""

Edition = Annotated[Literal[1, 2], BeforeValidator(_whole)]
"""The language in which a program is written."""

LatestEdition = Annotated[Literal[2], BeforeValidator(_whole)]
"""The language in which a called program is written."""

Value = Annotated[Any, BeforeValidator(_frozen), PlainSerializer(plain)]
"""Any value of the language, frozen."""

ObjectValue = Annotated[
    Any, BeforeValidator(_frozen_object), PlainSerializer(plain), Field(json_schema_extra={"type": "object"})
]
"""An object value of the language, frozen."""

EMPTY = FrozenMap()
