"""Kinds and values in the words of a message about types."""

from __future__ import annotations

from typing import Final

from stepward.vm.expressions.operators import Kinds

WORDS: Final = {
    "boolean": "true or false",
    "number": "a number",
    "string": "text",
    "array": "an array",
    "object": "an object",
    "null": "null",
}


def either(kinds: Kinds) -> str:
    """Return in words which kinds a value has or must have."""
    return " or ".join(WORDS[word] for word in sorted(kinds)) or "nothing"


def shown_value(value: object) -> str:
    """Return a value as a message shows it."""
    from stepward.vm.values import to_json

    return f"`'{value}'`" if isinstance(value, str) else f"`{to_json(value)}`"


def shown_values(values: tuple[object, ...]) -> str:
    """Return the first of some values, as a message lists them."""
    shown = [shown_value(value) for value in values[:8]]
    return " or ".join(shown) if len(values) <= 8 else ", ".join(shown) + ", …"
