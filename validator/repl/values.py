"""Values of a session as types: what a proof may know of a value that is there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from stepward.vm.journal.canonical import Sealed, Secret, is_sealed
from stepward.vm.lisp.values import is_number

MAX_CONSTANT: Final = 200
"""Characters of the longest text that is a constant to a proof."""

MAX_DEPTH: Final = 6
"""Levels of a value that its type names."""

MAX_FIELDS: Final = 100
"""Fields of an object that its type names, and items of a list that are looked at for the type of all."""

HIDDEN: Final = "_"
"""Keys that begin with it never reach a model."""


def type_of(value: Any, depth: int = 0) -> dict[str, Any]:
    """Return the type that a value of a run has, sealed parts marked; small values are constants.

    A list has as many items as it has, so a loop over it is bounded.
    """
    if isinstance(value, Sealed | Secret):
        return {"type": _kind(value.value), "sensitive": True}
    kind = _kind(value)
    if kind == "array":
        return _list_type(value, depth)
    if kind == "object":
        return _object_type(value, depth)
    is_long = isinstance(value, str) and (len(value) > MAX_CONSTANT or not value.isprintable())
    return {"type": kind} if value is None or is_long or depth else {"type": kind, "const": value}


def in_words(value: Any) -> str:
    """Return what a value of a run is in two words: `an array`."""
    kind = _kind(value.value if isinstance(value, Sealed | Secret) else value)
    return "null" if value is None else f"an {kind}" if kind[0] in "aio" else f"a {kind}"


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if is_number(value):
        return "integer" if value == int(value) else "number"
    if isinstance(value, str):
        return "string"
    return "object" if isinstance(value, Mapping) else "array"


def _object_type(value: Mapping[str, Any], depth: int) -> dict[str, Any]:
    if not value or len(value) > MAX_FIELDS or depth >= MAX_DEPTH:
        return {"type": "object", "sensitive": True} if is_sealed(value) else {"type": "object"}
    fields = {name: type_of(item, depth + 1) for name, item in value.items()}
    return {"type": "object", "properties": fields, "required": sorted(fields)}


def _list_type(value: tuple[Any, ...], depth: int) -> dict[str, Any]:
    found: dict[str, Any] = {"type": "array", "maxItems": len(value)}
    if value and is_sealed(value):
        if len(value) > MAX_FIELDS or depth >= MAX_DEPTH:
            return {**found, "sensitive": True}
        items = merged([type_of(item, depth + 1) for item in value])
        return {**found, **({"sensitive": True} if items is None else {"items": items})}
    return found


def merged(types: Iterable[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Return the type of values of several types; None where one type can't say which parts are sensitive."""
    first, *rest = types
    if all(one == first for one in rest):
        return dict(first)
    if any(one.get("sensitive") for one in (first, *rest)):
        return {"type": sorted({str(one["type"]) for one in (first, *rest)}), "sensitive": True}
    if any(one["type"] != "object" or "properties" not in one for one in (first, *rest)):
        return None
    names = list(dict.fromkeys(name for one in (first, *rest) for name in one["properties"]))
    fields = {
        name: merged([one["properties"][name] for one in (first, *rest) if name in one["properties"]]) for name in names
    }
    if None in fields.values():
        return None
    required = [name for name in names if all(name in one["properties"] for one in (first, *rest))]
    return {"type": "object", "properties": fields, "required": sorted(required)}


# -- what a model may see ----------------------------------------------------------------------------------------------


def without_hidden(value: Any) -> Any:
    """Return a value without the entries whose keys begin with `_`, at any depth."""
    if isinstance(value, Mapping):
        return {key: without_hidden(item) for key, item in value.items() if not key.startswith(HIDDEN)}
    return tuple(map(without_hidden, value)) if isinstance(value, tuple | list) else value


def hidden_texts(value: Any, *, inside: bool = False) -> Iterable[str]:
    """Yield the texts and numbers under keys that begin with `_`, as texts: they are hidden wherever they come back."""
    from stepward.vm.values import as_text

    if isinstance(value, Sealed | Secret):
        return
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from hidden_texts(item, inside=inside or key.startswith(HIDDEN))
    elif isinstance(value, tuple | list):
        for item in value:
            yield from hidden_texts(item, inside=inside)
    elif inside and value is not None and not isinstance(value, bool):
        yield as_text(value)
