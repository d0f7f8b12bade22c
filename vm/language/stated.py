"""The types that the language itself states: of errors, of items' numbers, and of replies."""

from __future__ import annotations

from typing import Final

from stepward.vm.language.steps import LlmCall
from stepward.vm.language.types import TypeSpec

# Constructed, not validated: building a validator on import would slow down every start.
TEXT: Final = TypeSpec.model_construct(type=("string",))
INDEX: Final = TypeSpec.model_construct(type=("integer",), minimum=0)
LIST: Final = TypeSpec.model_construct(type=("array",))

_ERROR: Final = {"index": INDEX, "error": TEXT, "error_name": TEXT}

ERRORS: Final = TypeSpec.model_construct(
    type=("array",),
    items=TypeSpec.model_construct(type=("object",), properties=_ERROR, required=tuple(_ERROR)),
)
"""The type of the errors of the items of a for_each step."""

NEVER: Final = TypeSpec.model_construct(type=("null",), enum=(None,))
"""The type of a field that can't exist."""


def reply(call: LlmCall) -> TypeSpec:
    """Return the type of the reply of a model."""
    if call.returns is not None:
        return call.returns
    return TEXT if call.allowed_outputs is None else TypeSpec(type=("string",), enum=call.allowed_outputs)
