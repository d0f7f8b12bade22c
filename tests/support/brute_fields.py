"""Fields of variables that a `set` of a small program assigns, read from the language's text alone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from small_language import (
    Items,
    Reader,
    Unreadable,
    Values,
    Where,
    compiled,
    filled,
    frozen,
    parsed,
    reference,
    templates,
)

_PART: Final = re.compile(r"\w+")


def names_in(key: str) -> list[str]:
    """Return the variable of a key of a `set`, and the fields below."""
    return _PART.findall(key)


def variables_of(step: dict[str, Any]) -> list[str]:
    """Return the variables that a `set` assigns, or fields of which it assigns, in order, each once."""
    return list(dict.fromkeys(names_in(key)[0] for key in step["set"]))


def objects_of(step: dict[str, Any]) -> Iterator[str]:
    """Yield the references to the objects of which fields are assigned."""
    for names in map(names_in, step.get("set", ())):
        yield from (".".join(names[:end]) for end in range(1, len(names)))


def readers_of(step: dict[str, Any], where: Where) -> list[Any]:
    """Return what each variable of a `set` gets: a value, or a function that computes it from the values before."""
    found: dict[str, Any] = {}
    paths: dict[str, list[tuple[list[str], Any]]] = {}
    for key, value in step["set"].items():
        name, *fields = names_in(key)
        read = _reader(value, where)
        if fields:
            paths.setdefault(name, []).append((fields, read))
        found[name] = read if not fields else _changed(name, paths[name], where)
    return list(found.values())


def _reader(value: Any, where: Where) -> Any:
    if isinstance(value, str):
        return compiled(parsed(value), where)
    return filled(value, where) if templates(value) else frozen(value)


def _changed(name: str, paths: list[tuple[list[str], Any]], where: Where) -> Reader:
    """Return a function that gives a variable with other values at some paths; each part on the way is an object."""
    whole = reference(name, where)

    def read(values: Values) -> Any:
        found = whole(values)
        for fields, new in paths:
            found = _put(found, fields, new(values) if callable(new) else new, name)
        return found

    return read


def _put(value: Any, fields: list[str], new: Any, name: str) -> Any:
    if not isinstance(value, tuple) or isinstance(value, Items):
        raise Unreadable(None)
    field, *below = fields
    held = dict(value)
    if below and field not in held:
        raise Unreadable(f"{name}.{field}")
    held[field] = _put(held[field], below, new, f"{name}.{field}") if below else new
    return tuple(held.items())
