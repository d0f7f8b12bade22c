"""The fields that a value always has where it is an object, also one that the program copies or builds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple, Protocol

from stepward.vm.expressions.fields import index_of, of_type
from stepward.vm.expressions.inside import Leaf, leaves
from stepward.vm.expressions.syntax import Built, Constant, Expression, Reference
from stepward.vm.language.made import is_joined, made_of, meaning_of
from stepward.vm.language.names import Names, Resolution, Source
from stepward.vm.language.read_paths import ReadPaths
from stepward.vm.language.types import TypeSpec

Location = tuple[Source, tuple[str, ...]]

MAX_PARTS: Final = 100
"""Values that are followed behind one. Copies of fields of copies can ask for exponentially many."""


class Types(Protocol):
    """The types of a program's names, and what it copies and builds."""

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
        yield Part(frozenset(typing.reads.asked_of(location)))
    elif (copied := typing.copied(source)) is not None:
        yield from (Part(beside=(one, of_type(copied.fields) + path)) for one in copied.sources)
    else:
        tree, inside = typing.made(source, path)
        found = made_of(tree, of_type(inside) if is_joined(tree) else inside)
        found = found or list(leaves(typing.constant(source), path))
        yield from (part for leaf in found for part in _of_leaf(typing, leaf))


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
    meant = meaning_of(typing.names, tree)
    yield from [Part()] if meant is None else (Part(beside=(one, of_type(meant.fields))) for one in meant.sources)
