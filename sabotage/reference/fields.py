"""Fields of variables that a `set` assigns: `order.total` ("Steps, Fields of objects")."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from stepward.vm.expressions import syntax
from stepward.vm.expressions.parser import parse


class Fields(dict[str, Any]):
    """The new values of fields of an object, by name: each as it is written, or the Fields of an object below."""


def by_variable(assigned: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a `set` assigns to each variable, in the order of the names: a value as it is written, or Fields."""
    found: dict[str, Any] = {}
    for key, value in sorted(assigned.items()):
        end = min((place for place in map(key.find, ".[") if place >= 0), default=len(key))
        into, name = found, key[:end]
        tree = parse(f"$x{key[end:]}", 2)
        assert isinstance(tree, syntax.Reference), "a path is written as a reference"
        for field in tree.names[1:]:
            into, name = into.setdefault(name, Fields()), field
        into[name] = value
    return found


def values_in(value: Any) -> Iterator[Any]:
    """Yield the values that are put into fields; for any other value, that value."""
    if isinstance(value, Fields):
        for inner in value.values():
            yield from values_in(inner)
    else:
        yield value


def objects_in(names: tuple[str, ...], value: Any) -> Iterator[tuple[str, ...]]:
    """Yield the references to the objects of which fields are assigned, from the outermost on."""
    if isinstance(value, Fields):
        yield names
        for name, inner in value.items():
            yield from objects_in((*names, name), inner)


def paths_in(names: tuple[str, ...], value: Any) -> Iterator[tuple[str, ...]]:
    """Yield the references to the fields that are assigned."""
    for name, inner in value.items() if isinstance(value, Fields) else ():
        yield from paths_in((*names, name), inner) if isinstance(inner, Fields) else [(*names, name)]


def put_at(value: Any, fields: tuple[str, ...]) -> tuple[Any, tuple[str, ...]] | None:
    """Return what is put into a field, or around it, with the fields below; None for a field that an object keeps."""
    for depth, name in enumerate(fields):
        if not isinstance(value, Fields):
            return value, fields[depth:]
        if name not in value:
            return None
        value = value[name]
    return value, ()
