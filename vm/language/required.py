"""The fields that a value always has where it is an object, also one that the program copies or builds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple, Protocol

from stepward.vm.expressions.fields import ITEMS, index_of, of_type
from stepward.vm.expressions.inside import Leaf, leaves
from stepward.vm.expressions.syntax import Built, Constant, Expression, Reference
from stepward.vm.expressions.template import lone_reference
from stepward.vm.language.made import is_joined, made_of, meaning_of
from stepward.vm.language.names import Names, Resolution, Source
from stepward.vm.language.program import Program
from stepward.vm.language.read_paths import ReadPaths
from stepward.vm.language.steps import EndStep, InvokeStep
from stepward.vm.language.types import TypeSpec

Location = tuple[Source, tuple[str, ...]]

MAX_PARTS: Final = 100
"""Values that are followed behind one. Copies of fields of copies can ask for exponentially many."""


class Types(Protocol):
    """The types of a program's names, and what it copies and builds."""

    program: Program
    names: Names
    reads: ReadPaths

    def spec(self, location: Location) -> TypeSpec | None:
        """Return the declared type at a location; None if there is none."""

    def copied(self, source: Source) -> Resolution | None:
        """Return the resolved reference that a `set` name or an item copies; None if it is none."""

    def made(self, source: Source, fields: tuple[str, ...]) -> tuple[Expression | None, tuple[str, ...]]:
        """Return the expression of a `set` name or of the written list of an item, and where in it some fields are."""

    def constant(self, source: Source) -> Constant:
        """Return the constant that a `set` assigns; null, which has no fields, for an expression that calculates."""


class Part(NamedTuple):
    """The fields that some values have: those of `fields`, and those that the values at a location have."""

    fields: frozenset[str] = frozenset()
    beside: Location | None = None


def required(typing: Types, location: Location) -> frozenset[str]:
    """Return the fields that a value at a location always has, if it is an object."""
    found: frozenset[str] | None = None
    pending = [Part(beside=location)]
    for one in pending:  # it grows by what is copied
        if one.beside is None:
            found = one.fields if found is None else found & one.fields
        else:
            behind = (part._replace(fields=part.fields | one.fields) for part in _at(typing, one.beside))
            pending += [part for part in dict.fromkeys(behind) if part not in pending]
        if found == frozenset() or len(pending) > MAX_PARTS:
            return frozenset()
    return found or frozenset()


def _at(typing: Types, location: Location) -> Iterator[Part]:
    """Yield what the values at a location have: each of them has what one of the parts says."""
    source, path = location
    spec = typing.spec(location)
    if spec is not None:
        yield Part(frozenset(name for name in spec.required if index_of(name) is None))
    elif source.kind not in ("set", "item"):
        read_fields = frozenset(typing.reads.asked_of(location))
        behind = [part for value in _end_outputs(typing.program, source) for part in _of_value(typing, value, path)]
        yield from (part._replace(fields=part.fields | read_fields) for part in behind or [Part()])
    elif (copied := typing.copied(source)) is not None:
        yield from (Part(beside=(one, of_type(copied.fields) + path)) for one in copied.sources)
    else:
        tree, inside = typing.made(source, path)
        found = made_of(tree, of_type(inside) if is_joined(tree) else inside)
        found = found or list(leaves(typing.constant(source), path))
        yield from (part for leaf in found for part in _of_leaf(typing, leaf))


def _end_outputs(program: Program, source: Source) -> list[Any]:
    """Return what the `end` steps of a called program give; nothing for another source.

    The machine holds it to the type that the caller needs, so that the caller's readings count, too.
    """
    steps = program.layout.steps
    if source.kind != "output" or source.step is None or not isinstance(steps[source.step], InvokeStep):
        return []
    inside = [steps[one] for one in program.layout.inside(source.step) if program.layout.owner(one) == source.step]
    return [one.output for one in inside if isinstance(one, EndStep) and one.outcome == "success"]


def _of_value(typing: Types, value: Any, path: tuple[str, ...]) -> Iterator[Part]:
    """Yield what the values have at some fields of a value with references."""
    names = lone_reference(value)
    if names is not None:
        resolution = typing.names.meaning(names)
        fields = () if resolution is None else of_type(resolution.fields) + path
        yield from [Part()] if resolution is None else (Part(beside=(one, fields)) for one in resolution.sources)
    elif not path:
        yield Part(frozenset(value) if isinstance(value, Mapping) else frozenset())
    elif isinstance(value, Mapping) and path[0] in value:
        yield from _of_value(typing, value[path[0]], path[1:])
    elif isinstance(value, list | tuple) and path[0] == ITEMS:
        for item in value:
            yield from _of_value(typing, item, path[1:])
    else:
        yield Part()


def _of_leaf(typing: Types, leaf: Leaf) -> Iterator[Part]:
    """Yield the same of a part of a built value; nothing where it can't be an object."""
    match leaf.tree:
        case Reference():
            yield from _copied(typing, leaf.tree)
        case Built(is_list=False, base=base, names=names):
            behind = [Part()] if base is None else _copied(typing, base)
            yield from (part._replace(fields=part.fields.union(names)) for part in behind)
        case Constant(value=dict() as value):
            yield Part(frozenset(value))
        case tree if leaf.fields and is_joined(tree):
            yield Part()


def _copied(typing: Types, tree: Reference) -> Iterator[Part]:
    resolution = meaning_of(typing.names, tree)
    yield from (
        [Part()]
        if resolution is None
        else (Part(beside=(one, of_type(resolution.fields))) for one in resolution.sources)
    )
