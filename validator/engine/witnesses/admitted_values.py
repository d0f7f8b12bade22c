"""Whether the values of a state belong to their types, after required fields and items are added."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from stepward.validator.analysis.analyses import Analyses
from stepward.validator.engine.values.domains import Names
from stepward.validator.engine.values.simplest import simplest
from stepward.validator.engine.values.states import State
from stepward.vm.expressions.fields import index_of
from stepward.vm.language.types import TypeSpec, fits
from stepward.vm.values import FrozenMap, freeze


def is_admitted(analyses: Analyses, state: State) -> bool:
    """Return whether every value is one that some source may give, so that no `pattern` refuses it."""
    names, typing = analyses.facts.meaning.names, analyses.facts.meaning.typing
    for name in state:
        resolution = names.meaning(name)
        if resolution is not None and resolution.fields:
            continue  # it is checked with its owner
        value = assembled(name, state)
        sources = resolution.sources if resolution is not None else ()
        if not any(source.kind == "set" or _is_of(value, typing.effective(source)) for source in sources):
            return False
    return True


@dataclass(frozen=True)
class Items:
    """An array of which some items are known, by their index; the others are only of the right kind."""

    items: tuple[Any, ...]
    known: dict[int, Any]


def assembled(name: Names, state: State) -> Any:
    """Return a value with the fields and items that the state names, an array of which some are named as `Items`."""
    value, depth = state[name], len(name)
    if not isinstance(value, dict | tuple):
        return value
    fields = [inner for inner in state if inner[:depth] == name and len(inner) == depth + 1]
    parts = {inner[depth]: assembled(inner, state) for inner in fields}
    if isinstance(value, dict):
        return parts
    known = {number: part for one, part in parts.items() if (number := index_of(one)) is not None}
    return Items(value, known) if known else value


def _is_of(value: Any, spec: TypeSpec | None) -> bool:
    return fits(completed(value, spec), spec)


def completed(value: Any, spec: TypeSpec | None) -> Any:
    """Return a value completed with everything that its type requires: fields of objects, items of arrays."""
    if isinstance(value, Items):
        value = tuple(value.known.get(number, item) for number, item in enumerate(value.items))
    if isinstance(value, list | tuple):
        return _items(tuple(value), spec.items if spec is not None else None)
    if not isinstance(value, dict):
        return freeze(value)
    known = (spec.properties if spec is not None else None) or {}
    whole = {name: completed(inner, known.get(name)) for name, inner in value.items()}
    for name in spec.required if spec is not None else ():
        if name not in whole:
            whole.update((name, found) for found in simplest(known.get(name))[:1])
    return freeze(whole)


def over(value: Any, known: Any) -> Any:
    """Return a value with what is known of it; the rest stays as it is held."""
    if isinstance(known, Items):
        items = value if isinstance(value, tuple) and len(value) == len(known.items) else known.items
        return tuple(over(item, known.known.get(number, item)) for number, item in enumerate(items))
    if not isinstance(value, dict) or not isinstance(known, dict):
        return known
    return FrozenMap({**value, **{name: over(value.get(name), inner) for name, inner in known.items()}})


_ITEMLESS: Final = object()


def _items(values: tuple[Any, ...], spec: TypeSpec | None) -> Any:
    """Return the items of an array, each completed; an item that does not fit is replaced by the simplest one."""
    last: Any = _ITEMLESS
    item: Any = None
    items = []
    for value in values:
        if value is not last:  # most generated arrays repeat one item
            last, item = value, completed(value, spec)
            if not fits(item, spec):
                item = next(iter(simplest(spec)), item)
        items.append(item)
    return freeze(items)
