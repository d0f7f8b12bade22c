"""The types that the language itself states: of errors, of items' numbers, and of replies."""

from __future__ import annotations

from typing import Final

from stepward.vm.language.steps import LlmCall
from stepward.vm.language.types import TypeSpec

# Constructed, not validated: building a validator on import would slow down every start.
TEXT: Final = TypeSpec.model_construct(type=("string",))
INDEX: Final = TypeSpec.model_construct(type=("integer",), minimum=0)
LIST: Final = TypeSpec.model_construct(type=("array",))


NEVER: Final = TypeSpec.model_construct(type=("null",), enum=(None,))
"""The type of a field that can't exist."""


def errors_of(index: TypeSpec, names: tuple[str, ...]) -> TypeSpec:
    """Return the type of the errors of the items of a for_each step, with those numbers and names."""
    name = TypeSpec.model_construct(type=("string",), enum=names) if names else TEXT
    fields = {"index": index, "error": TEXT, "error_name": name}
    error = TypeSpec.model_construct(type=("object",), properties=fields, required=tuple(fields))
    return TypeSpec.model_construct(type=("array",), items=error)


def reply(call: LlmCall) -> TypeSpec:
    """Return the type of the reply of a model."""
    if call.returns is not None:
        return call.returns
    return TEXT if call.allowed_outputs is None else TypeSpec(type=("string",), enum=call.allowed_outputs)
