"""Whether a value may be larger than a machine takes: then a step of a body fails, and somebody may go on behind it.

The answer is no only where the types of what a step reads bound the value. Numbers have at most a thousand digits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any, Final

from stepward.validator.analysis.given_types import DEEPEST, GivenTypes
from stepward.vm.expressions.building import built
from stepward.vm.expressions.inside import Leaf, leaves
from stepward.vm.expressions.operands import result_kinds
from stepward.vm.expressions.syntax import Arithmetic, Built, Constant, Expression, Reference, Template
from stepward.vm.language.meaning import Meaning
from stepward.vm.language.name_types import Location
from stepward.vm.language.names import Resolution, Source
from stepward.vm.language.steps import EndStep, ForEachStep, SetStep
from stepward.vm.language.types import TypeSpec, implies
from stepward.vm.values import MAX_DIGITS

MOST_BYTES: Final = 1 << 20
"""The bytes of an output that a machine takes unless it is told otherwise."""

OF_SCALAR: Final = MAX_DIGITS + 10
OF_CHARACTER: Final = 6
"""The most bytes of a character in canonical JSON: `\\u001f`."""

_SCALARS: Final = frozenset({"number", "integer", "boolean", "null"})
_LONGEST: Final = 10_000
"""The characters of a text that a pattern bounds."""


class LargeValues:
    """The sizes of what the steps of one program assign and give."""

    def __init__(self, meaning: Meaning, types: GivenTypes) -> None:
        self._meaning, self._types = meaning, types
        self._layout = meaning.flow.layout

    @cached_property
    def steps(self) -> frozenset[int]:
        """The steps that fail in some run, because the value that they assign, or give as an output, is too large.

        A `set` or an `end` step outside of all bodies ends the run then.
        """
        return frozenset(number for number in range(len(self._layout.steps)) if self._may_be_too_large(number))

    def _may_be_too_large(self, number: int) -> bool:
        sizes = [self._bytes(tree, frozenset()) for tree in self._values(number)]
        known = [size for size in sizes if size is not None]
        return len(known) < len(sizes) or sum(known) > MOST_BYTES

    def _values(self, number: int) -> Iterator[Expression]:
        step = self._layout.steps[number]
        if isinstance(step, ForEachStep) or (isinstance(step, SetStep) and self._layout.owner(number) is not None):
            trees = {clause.name: clause.tree for clause in self._meaning.clauses_of.get(number, ())}
            for name, value in step.assigns.items():
                tree = trees.get(name)
                yield Constant(0, 0, value) if tree is None else tree
        elif isinstance(step, EndStep) and self._layout.owner(number) is not None:
            yield built(step.output)

    # -- the most bytes of a value -------------------------------------------------------------------------------------

    def _bytes(self, tree: Expression, visited: frozenset[Location]) -> int | None:
        """Return the most bytes of what an expression gives, None without a bound."""
        match tree:
            case Constant(value=value):
                return _written(value)
            case Reference(names=names):
                return self._of(self._meaning.names.meaning(names), visited)
            case Built(names=names, parts=parts, base=base):
                whole = (*parts, *(() if base is None else (base,)))
                return _sum((sum(len(name) + 3 for name in names), *(self._bytes(one, visited) for one in whole)))
            case Template(parts=parts):
                return _sum(self._bytes(one, visited) for one in parts)
            case Arithmetic(first=first, rest=rest) if not self._is_scalar(tree, set()):
                return _sum(self._bytes(one, visited) for one in (first, *(operand for _, operand in rest)))
            case _:
                return OF_SCALAR if self._is_scalar(tree, set()) else None

    def _of(self, resolution: Resolution | None, visited: frozenset[Location]) -> int | None:
        sizes = (
            [self._at((source, resolution.fields), visited) for source in resolution.sources]
            if resolution is not None
            else [None]
        )
        return _most(sizes)

    def _at(self, location: Location, visited: frozenset[Location]) -> int | None:
        if self._is_scalar_at(location, set()):
            return OF_SCALAR
        stated = self._meaning.typing.spec(location)
        if stated is not None or location in visited or len(location[1]) > DEEPEST:
            return None if stated is None else bytes_of(stated)
        source, fields = location
        if (listed := self._listed(source)) is not None:
            return self._of(listed._replace(fields=(*listed.fields, *fields)), visited | {location})
        leaves = self._leaves(source, fields)
        return _most(self._of_leaf(leaf, visited | {location}) for leaf in leaves) if leaves else None

    def _listed(self, source: Source) -> Resolution | None:
        """Return the items of the list that an item is one of; None for a list that is written down, and no item."""
        return self._meaning.typing.copied(source) if source.kind == "item" else None

    def _leaves(self, source: Source, fields: tuple[str, ...]) -> list[Leaf]:
        """Return what the program gives a source; nothing for values from outside."""
        trees = list(self._types.trees(source, fields))
        step = None if source.step is None else self._layout.steps[source.step]
        if source.kind == "item" and source.step is not None:
            owner = self._layout.steps[self._layout.body_of(source.step).owner]
            written = owner.items if isinstance(owner, ForEachStep) and isinstance(owner.items, tuple) else ()
            trees = [(built(one), fields) for one in written]
        elif not trees and source.kind == "set" and isinstance(step, ForEachStep) and source.name in step.carry:
            trees = [(Constant(0, 0, step.carry[source.name]), fields)]
        return [leaf for tree, inner in trees for leaf in leaves(tree, inner)]

    def _of_leaf(self, leaf: Leaf, visited: frozenset[Location]) -> int | None:
        """Return the most bytes of the value of a variable: of a copy or a constant; a computed value has no bound."""
        if leaf.tree is None:
            return 0
        is_given = isinstance(leaf.tree, Reference | Constant) and not leaf.fields
        return self._bytes(leaf.tree, visited) if is_given else None

    # -- numbers, truth values and null --------------------------------------------------------------------------------

    def _is_scalar(self, tree: Expression, visited: set[Location]) -> bool:
        match tree:
            case Constant(value=value):
                return value is None or isinstance(value, bool) or not isinstance(value, str | list | tuple | dict)
            case Reference(names=names):
                resolution = self._meaning.names.meaning(names)
                return resolution is not None and all(
                    self._is_scalar_at((source, resolution.fields), visited) for source in resolution.sources
                )
            case Built() | Template():
                return False
            case Arithmetic(first=first, rest=rest):  # `+` takes two of a kind
                is_sum = all(sign == "+" for sign, _ in rest)
                return not is_sum or any(self._is_scalar(one, visited) for one in (first, *(one for _, one in rest)))
            case _:
                return result_kinds(tree) <= _SCALARS

    def _is_scalar_at(self, location: Location, visited: set[Location]) -> bool:
        """Return whether all values at a location are scalars; names that copy one another add no values."""
        stated = self._meaning.typing.spec(location)
        if stated is not None or location in visited:
            return stated is None or frozenset(stated.kinds) <= _SCALARS
        source, fields = location
        if len(fields) > DEEPEST:
            return False
        visited.add(location)
        if (listed := self._listed(source)) is not None:
            return all(self._is_scalar_at((one, (*listed.fields, *fields)), visited) for one in listed.sources)
        leaves = self._leaves(source, fields)
        return bool(leaves) and all(
            leaf.tree is None or (not leaf.fields and self._is_scalar(leaf.tree, visited)) for leaf in leaves
        )


def bytes_of(spec: TypeSpec) -> int | None:
    """Return the most bytes of the values of a type, None without a bound."""
    if spec.enum is not None:
        return max(map(_written, spec.enum))
    return _most(_bytes_of_kind(spec, kind) for kind in spec.kinds)


def _written(value: Any) -> int:
    """Return the most bytes of a value of the program."""
    match value:
        case str():
            return len(value) * OF_CHARACTER + 2
        case list() | tuple():
            return 2 + sum(_written(one) + 1 for one in value)
        case dict():
            return 2 + sum(_written(name) + _written(one) + 2 for name, one in value.items())
        case _:
            return OF_SCALAR


def _bytes_of_kind(spec: TypeSpec, kind: str) -> int | None:
    if kind == "string":
        if spec.max_length is None and spec.pattern is not None:
            is_short = implies(TypeSpec(type=("string",), pattern=spec.pattern), _SHORT)
            return _LONGEST * OF_CHARACTER if is_short else None
        return None if spec.max_length is None else spec.max_length * OF_CHARACTER + 2
    if kind == "array":
        item = None if spec.items is None else bytes_of(spec.items)
        return (
            2
            if spec.max_items == 0
            else None
            if spec.max_items is None or item is None
            else spec.max_items * (item + 1) + 2
        )
    if kind == "object":
        if spec.additional_properties is not False:
            return None
        fields = (spec.properties or {}).items()
        return _sum((2, *(None if (size := bytes_of(one)) is None else size + len(name) + 4 for name, one in fields)))
    return OF_SCALAR


_SHORT: Final = TypeSpec(type=("string",), maxLength=_LONGEST)


def _sum(sizes: Iterable[int | None]) -> int | None:
    known = list(sizes)
    return None if None in known else sum(one for one in known if one is not None)


def _most(sizes: Iterable[int | None]) -> int | None:
    known = list(sizes)
    return None if None in known else max((one for one in known if one is not None), default=0)
