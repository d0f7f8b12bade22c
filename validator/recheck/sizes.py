"""How many items for_each steps have, and the types that follow from it: of outputs, of errors and of indices of items
("For each").

A step whose list is too long fails before its items, so that no later one sees more than it takes.
"""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

from stepward.validator.recheck.failures import errors_of_items
from stepward.validator.recheck.list_items import list_of
from stepward.validator.recheck.names import ITEMS, Names, Source
from stepward.validator.recheck.parsed import Parsed
from stepward.vm.expressions.template import lone_reference
from stepward.vm.language.steps import ForEachStep
from stepward.vm.language.types import TypeSpec

_TEXT: Final = TypeSpec.model_construct(type=("string",))


class Declared(Protocol):
    """The declared types of a program."""

    reading: Parsed

    def declared(self, slot: tuple[Source, Names]) -> TypeSpec | None:
        """Return the type declared for some fields of a source, None where it does not say of what kind they are."""


class Length(NamedTuple):
    """The fewest and the most items of a list; None: nothing bounds them."""

    least: int = 0
    most: int | None = None


def most_items(types: Declared, step: ForEachStep) -> int | None:
    """Return how many items a step goes through at most that does not fail before them; None: nothing bounds them."""
    return _length(types, step).most


def _length(types: Declared, step: ForEachStep) -> Length:
    """Return how many items a step goes through that does not fail before them."""
    if isinstance(step.items, tuple):
        given = Length(len(step.items), len(step.items))
    else:
        names = lone_reference(step.items)
        given = Length() if names is None else _of_reference(types, names, frozenset())
    most = min((one for one in (step.max_items, given.most) if one is not None), default=None)
    return Length(given.least if most is None else min(given.least, most), most)


def _of_reference(types: Declared, names: Names, inner: frozenset[Source], below: Names = ()) -> Length:
    """Return how many items the arrays have that a reference, or some fields of its values, can be; `inner` are items
    that these are behind."""
    resolution = types.reading.lookup.resolve(names)
    bounds: list[Length] = []
    for source in () if resolution is None else resolution.sources:
        assert resolution is not None
        fields = (*resolution.fields, *below)
        listed = list_of(types.reading, source) if source.kind == "item" and source not in inner else None
        if listed is not None:
            bounds.append(_of_reference(types, listed, inner | {source}, (ITEMS, *fields)))
        else:
            bounds.append(_of_declared(types, source, fields))
    known = [one.most for one in bounds if one.most is not None]
    least = min((one.least for one in bounds), default=0)
    return Length(least, max(known) if known and len(known) == len(bounds) else None)


def _of_declared(types: Declared, source: Source, fields: Names) -> Length:
    if _is_of_for_each(types, source):
        return Length()  # it may be the step that is asked about
    spec = types.declared((source, fields))
    return Length() if spec is None else Length(spec.min_items or 0, spec.max_items)


def _is_of_for_each(types: Declared, source: Source) -> bool:
    if source.kind != "output":
        return source.kind in ("errors", "index")
    step = types.reading.steps[source.step]
    return isinstance(step, ForEachStep) and not step.is_once


def of_outputs(types: Declared, step: ForEachStep) -> TypeSpec:
    """Return the type of the list of outputs: one for each item."""
    length = _length(types, step)
    return TypeSpec.model_construct(type=("array",), min_items=length.least, max_items=length.most)


def of_number(types: Declared, step: ForEachStep) -> TypeSpec:
    """Return the type of the number of an item."""
    most = most_items(types, step)
    return TypeSpec.model_construct(type=("integer",), minimum=0, maximum=most - 1 if most else None)


def of_errors(types: Declared, step: ForEachStep) -> TypeSpec:
    """Return the type of the errors of items: at most one for each, with the names that its steps can end it with."""
    names = errors_of_items(step, types.reading.tool)
    name = TypeSpec.model_construct(type=("string",), enum=names) if names else _TEXT
    fields = {"index": of_number(types, step), "error": _TEXT, "error_name": name}
    error = TypeSpec.model_construct(type=("object",), properties=fields, required=tuple(fields))
    return TypeSpec.model_construct(type=("array",), items=error, max_items=most_items(types, step))
