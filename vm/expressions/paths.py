"""Paths that `set` assigns: `order.total` is a field of the variable `order`."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from stepward.vm.errors import ExpressionError
from stepward.vm.expressions.fields import is_indexed
from stepward.vm.expressions.lexer import tokens
from stepward.vm.values import FrozenMap


class Paths(FrozenMap):
    """What a `set` puts into fields of one variable: the value of each path, by the path as it is written."""

    __slots__ = ()


def is_path(key: str) -> bool:
    """Return whether a key of a `set` is a path, and not the name of a variable."""
    return "." in key or "[" in key


def names_of_key(key: str) -> tuple[str, ...]:
    """Return the variable of a key of a `set`, and the fields below it.

    Raises ExpressionError for a path that can't be assigned. The variable itself is not checked: that of a called
    program has a slash.
    """
    if not is_path(key):
        return (key,)
    end = min(place for place in (key.find("."), key.find("[")) if place >= 0)
    try:
        names: tuple[str, ...] = (key[:end], *_fields(key[end:] if end else "-"))
    except ExpressionError:
        help = "write the names of fields: `order.total`"
        raise ExpressionError(key, f"`{key}` is no path", 0, len(key), help) from None
    if is_indexed(names):
        message = f"`{key}` has an index: `set` assigns fields of objects, not items of lists"
        raise ExpressionError(key, message, 0, len(key), f"assign the list as a whole: `{names[0]}`")
    return names


def _fields(text: str) -> tuple[str, ...]:
    """Return the fields that a text such as `.customer.name` names; raises ExpressionError for any other."""
    found = tokens(f"$x{text}")
    names: tuple[str, ...] = found[0].value[1:]
    if len(found) != 2 or found[0].end != len(text) + 2:
        raise ExpressionError(text, "it has more than fields", 0, len(text))
    return names


def by_variable(assigned: FrozenMap) -> FrozenMap:
    """Return what a `set` assigns by variable: a value, or the Paths of those of which it assigns fields."""
    if not any(map(is_path, assigned)):
        return assigned
    found: dict[str, object] = {}
    paths: dict[str, dict[str, object]] = {}
    for key, value in assigned.items():
        if is_path(key):
            name = names_of_key(key)[0]
            paths.setdefault(name, {})[key] = value
            found[name] = Paths(paths[name])
        else:
            found[key] = value
    return FrozenMap(found)


def clash(keys: Iterable[str]) -> tuple[str, str] | None:
    """Return two keys of a `set` of which the first is the beginning of the second, or names the same."""
    found = sorted((names_of_key(key), key) for key in keys)
    return next(((one[1], other[1]) for one, other in pairwise(found) if other[0][: len(one[0])] == one[0]), None)
