"""Fields that people write out of habit from other languages, and what this language has in their place."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from stepward.vm.values import to_json

_RENAMED: Final = {
    "else": ("otherwise",),
    "if": ("condition", "when"),
    "goto": ("next_step", "then"),
    "params": ("args",),
    "parameters": ("args",),
    "arguments": ("args",),
    "prompt_template": ("prompt",),
}
"""The fields that say the same as a word, in the order in which they are looked for."""

_LISTS: Final = "remove it; an array has no limit here: ask `len(...)` in a condition"
_TEXTS: Final = "remove it; limit the text by `enum` or `pattern`"
_MISSING: Final = {
    "minItems": _LISTS,
    "maxItems": _LISTS,
    "uniqueItems": "remove it; let the tool refuse an item that comes twice",
    "minLength": _TEXTS,
    "format": _TEXTS,
    "multipleOf": "remove it; declare `integer`, or let the tool refuse other numbers",
    "anyOf": "remove it; a type can list several: `type: [string, integer]`",
    "oneOf": "remove it; a type can list several: `type: [string, integer]`",
    "$ref": "remove it; write the type out here",
    "const": "remove it; write a list of one value under `enum`",
    "nullable": 'remove it; add "null" to the list of types',
}
"""Keywords of JSON Schema that a type does not have."""

_BOUNDS: Final = {"exclusiveMinimum": ("minimum", 1), "exclusiveMaximum": ("maximum", -1)}


def renamed(name: str, known: Collection[str], given: Collection[str]) -> str | None:
    """Return the field that an unknown one stands for, if it is among those `known` and not yet `given`."""
    words = _RENAMED.get(name, ())
    return next((word for word in words if word in known and word not in given), None)


def in_place_of(name: str, owner: Any) -> str:
    """Return what to write in a type in place of a keyword of JSON Schema, or an empty text; `owner` is the type."""
    value = owner.get(name) if isinstance(owner, dict) else None
    is_count = isinstance(value, int) and not isinstance(value, bool)
    if name == "minLength" and isinstance(value, int) and is_count and 0 < value <= 1000 and "pattern" not in owner:
        return f"write `pattern: '[\\s\\S]{{{value}}}'` in its place: a text that has so many characters"
    if name == "const" and isinstance(value, str | int) and "`" not in str(value):
        return f"write `enum: {to_json([value])}` in its place"
    if name in _BOUNDS:
        word, one = _BOUNDS[name]
        if isinstance(value, int) and is_count and owner.get("type") == "integer" and word not in owner:
            return f"write `{word}: {value + one}` in its place"
        return f"remove it; `{word}` includes its value: ask for more in a condition"
    return _MISSING.get(name, "")


def are_opposed(one: str, other: str) -> bool:
    """Return whether two names differ in `min` and `max`: neither is a misspelling of the other."""
    a, b = one.lower(), other.lower()
    return all((word in a) != (word in b) for word in ("min", "max"))
