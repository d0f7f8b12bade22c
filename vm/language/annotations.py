"""Annotations of Python functions as types of the language."""

from __future__ import annotations

import inspect
import types
from collections import abc
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    NamedTuple,
    NewType,
    NotRequired,
    Required,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

Data = dict[str, Any]

_WORDS: Final[dict[Any, str]] = {
    bool: "boolean",
    int: "integer",
    float: "number",
    Decimal: "number",
    str: "string",
    None: "null",
    type(None): "null",
}
_LISTS: Final = (list, tuple, abc.Sequence, abc.Iterable, abc.Collection)
_OBJECTS: Final = (dict, abc.Mapping, abc.MutableMapping)
_AWAITED: Final = {abc.Awaitable: 0, abc.Coroutine: 2}


class Signature(NamedTuple):
    """The types of a function. `args` are the types of its arguments by name, None if it takes any.

    A type is plain data as in a manifest; empty data is a type that is not known. `returns` is None if the function
    does not say what it returns. `suspends` is whether it may return the class that stands in place of a value, None
    if that is not known.
    """

    args: dict[str, Data] | None
    returns: Data | None
    suspends: bool | None = None


def signature_of(function: Callable[..., Any], special: abc.Collection[str], no_value: type) -> Signature:
    """Return the types of a function, without its `special` parameters.

    A return type leaves out `no_value`, the class of what is returned in place of a value. Annotations that can't be
    resolved count as unknown. A function without a return type suspends if its code names that class.
    """
    hints = _hints(function)
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return Signature(None, None)
    args = {
        name: _with_default(type_of(hints.get(name, Any)), one.default)
        for name, one in parameters.items()
        if name not in special and one.kind not in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    }
    takes_any = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters.values())
    returns: Data | None = None
    suspends = True if _names(function, no_value) else None
    if "return" in hints:
        returned = hints["return"]
        while get_origin(returned) in _AWAITED and get_args(returned):
            returned = get_args(returned)[_AWAITED[get_origin(returned)]]
        returns = type_of(returned, no_value)
        if any(_is_a(one, no_value) for one in _members(returned)):
            suspends = True
        elif returns:
            suspends = False
    return Signature(None if takes_any else args, returns, suspends)


def _members(hint: Any) -> Iterator[Any]:
    """Yield the alternatives of an annotation."""
    if isinstance(hint, NewType):
        yield from _members(hint.__supertype__)
    elif get_origin(hint) is Annotated:
        yield from _members(get_args(hint)[0])
    elif get_origin(hint) in (Union, types.UnionType):
        for one in get_args(hint):
            yield from _members(one)
    else:
        yield hint


def _is_a(hint: Any, kind: type | None) -> bool:
    return kind is not None and isinstance(hint, type) and not get_args(hint) and issubclass(hint, kind)


def _names(function: Any, kind: type) -> bool:
    """Return whether the code of a function names a class, as a global or through a module."""
    target = _target(function)
    code, known = getattr(target, "__code__", None), getattr(target, "__globals__", {})
    names = getattr(code, "co_names", ())
    values = [known.get(name) for name in names]
    values += [getattr(one, name, None) for one in values if inspect.ismodule(one) for name in names]
    return any(_is_a(one, kind) for one in values)


def _target(function: Any) -> Any:
    return inspect.unwrap(function) if inspect.isroutine(function) else type(function).__call__


def _hints(function: Any) -> Mapping[str, Any]:
    target = _target(function)
    try:
        return get_type_hints(target, include_extras=True)
    except Exception:  # an annotation may be any expression: the others still count
        raw = getattr(target, "__annotations__", {})
        return {name: hint for name, hint in raw.items() if not isinstance(hint, str)}


def _with_default(found: Data, default: Any) -> Data:
    if default is inspect.Parameter.empty or not isinstance(default, bool | int | float | str | type(None)):
        return found
    if default is None and "type" in found:
        words = found["type"] if isinstance(found["type"], list) else [found["type"]]
        found = {**found, "type": words if "null" in words else [*words, "null"]}
    return {**found, "default": default}


def type_of(hint: Any, no_value: type | None = None) -> Data:
    """Return the type that an annotation says, as plain data; empty where it says nothing that the language has."""
    if isinstance(hint, NewType):
        return type_of(hint.__supertype__, no_value)
    if _is_word(hint):
        return {"type": _WORDS[hint]}
    if is_typeddict(hint):
        return _object_of(hint)
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Annotated, Required, NotRequired):
        return type_of(inner[0], no_value)
    if origin is Literal:
        members = list(inner)
        is_plain = all(isinstance(one, bool | int | str | type(None)) for one in members)
        return {"enum": members} if is_plain else {}
    if origin in (Union, types.UnionType):
        return _union([type_of(one) for one in inner if not _is_a(one, no_value)])
    bare = origin or hint
    if bare in _LISTS:
        items = [one for one in inner if one is not Ellipsis]
        is_same = bool(items) and (bare is not tuple or len(items) == 1 or all(one == items[0] for one in items))
        found = type_of(items[0]) if is_same else {}
        return {"type": "array", **({"items": found} if found else {})}
    if bare in _OBJECTS:
        found = type_of(inner[1]) if len(inner) == 2 else {}
        return {"type": "object", **({"additionalProperties": found} if found else {})}
    return {}


def _is_word(hint: Any) -> bool:
    try:
        return hint in _WORDS
    except TypeError:  # an annotation that has no hash
        return False


def _object_of(hint: Any) -> Data:
    fields = {name: type_of(one) for name, one in get_type_hints(hint, include_extras=True).items()}
    required = [name for name in fields if name in hint.__required_keys__]
    return {"type": "object", "properties": fields, **({"required": required} if required else {})}


def _union(found: list[Data]) -> Data:
    """Return the type of the values of any of several types; empty where that can't be said."""
    if len(found) == 1:
        return found[0]
    if not found or not all(found):
        return {}
    if all("enum" in one or one == {"type": "null"} for one in found):
        members = [member for one in found for member in one.get("enum", [None])]
        return {"enum": list(dict.fromkeys(members))}
    if not all("type" in one for one in found):
        return {}
    words = list(dict.fromkeys(one["type"] for one in found if isinstance(one["type"], str)))
    shaped = [one for one in found if len(one) > 1]
    if len(shaped) > 1 or len({one["type"] for one in shaped}) < len(shaped):
        return {"type": words}
    return {**(shaped[0] if shaped else {}), "type": words}
