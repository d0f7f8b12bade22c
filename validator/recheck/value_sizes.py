"""By how many bytes values are written: what the second checker knows of values that may be too large for a machine.

A machine takes outputs of a mebibyte, unless it is told otherwise. A larger one fails its step; in a body, somebody may
go on behind that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Protocol

from stepward.validator.recheck.blocks import Block
from stepward.validator.recheck.evaluation import result_blocks
from stepward.validator.recheck.languages import covers
from stepward.validator.recheck.names import Names
from stepward.validator.recheck.parsed import Parsed
from stepward.validator.recheck.types import words
from stepward.vm.expressions.building import built
from stepward.vm.expressions.syntax import Arithmetic, Built, Constant, Expression, Reference, Template
from stepward.vm.language.steps import EndStep
from stepward.vm.language.types import TypeSpec

TAKEN: Final = 1 << 20
PER_CHARACTER: Final = 6
"""A control character is written as `\\u001f`."""

SCALAR: Final = 1_010
"""The most bytes of a number, `true`, `false` and `null`."""

PATTERNED: Final = 10_000
"""The characters up to which a pattern is asked whether it bounds a text."""

_SMALL: Final = frozenset({"number", "integer", "boolean", "null"})

Bytes = int | None
"""The most bytes of a value; None where nothing bounds them."""


class Origins(Protocol):
    """What gives the references of a program their values."""

    def behind(self, names: Names) -> Iterator[TypeSpec | Constant | Block | None]:
        """Yield what gives a reference its values: types, constants, blocks; None for any value."""


class Steps(Protocol):
    """The steps of a program, as far as the sizes of their values are asked for."""

    @property
    def reading(self) -> Parsed:
        """The program."""

    @property
    def origins(self) -> Origins:
        """What gives its references their values."""


def assigns_too_large(steps: Steps, number: int) -> bool:
    """Return whether the values that a `set` assigns, or the first values of carried variables, may be too large
    together."""
    trees = steps.reading.put_by_set(number).values()
    return any(tree is None for tree in trees) or _is_too_large(_sum([_of(steps.origins, one) for one in trees if one]))


def sets_too_large(steps: Steps, number: int) -> bool:
    """Return whether a `set` in a body may assign too much; outside of all bodies it ends the run then."""
    return steps.reading.layout.owner(number) is not None and assigns_too_large(steps, number)


def ends_too_large(steps: Steps, number: int, end: EndStep) -> bool:
    """Return whether the output that an `end` step gives a body may be too large."""
    is_in_body = steps.reading.layout.owner(number) is not None
    return is_in_body and _is_too_large(_of(steps.origins, built(end.output)))


def _is_too_large(size: Bytes) -> bool:
    return size is None or size > TAKEN


def _of(origins: Origins, tree: Expression) -> Bytes:
    match tree:
        case Constant(value=value):
            return _of_value(value)
        case Reference(names=names):
            return _most(map(_of_given, origins.behind(names)))
        case Built(names=names, parts=parts, base=base):
            inner = [*parts, *([] if base is None else [base])]
            return _sum([2, *(len(name) + 3 for name in names), *(_of(origins, one) for one in inner)])
        case Template(parts=parts):
            return _sum([_of(origins, one) for one in parts])
        case Arithmetic(first=first, rest=rest):
            operands = [first, *(operand for _, operand in rest)]
            if any(sign != "+" for sign, _ in rest) or any(_is_small(origins, one) for one in operands):
                return SCALAR
            return _sum([_of(origins, one) for one in operands])
        case _:
            return SCALAR if _are_small(result_blocks(tree)) else None


def _is_small(origins: Origins, tree: Expression) -> bool:
    """Return whether an expression gives a number, a truth value or null; a sum does if one of its operands does."""
    if isinstance(tree, Reference):
        return all(map(_is_scalar, origins.behind(tree.names)))
    if isinstance(tree, Constant):
        return _is_scalar(tree)
    if isinstance(tree, Arithmetic) and all(sign == "+" for sign, _ in tree.rest):
        return any(_is_small(origins, one) for one in (tree.first, *(operand for _, operand in tree.rest)))
    return _are_small(result_blocks(tree))


def _is_scalar(value: TypeSpec | Constant | Block | None) -> bool:
    match value:
        case TypeSpec():
            return set(words(value)) <= _SMALL
        case Constant(value=constant):
            return not isinstance(constant, str | list | tuple | Mapping)
        case None:
            return False
        case _:
            return _are_small([value])


def _are_small(blocks: Iterable[Block]) -> bool:
    return all(block.kind in ("number", "boolean", "null", "undefined") for block in blocks)


def _of_given(value: TypeSpec | Constant | Block | None) -> Bytes:
    match value:
        case TypeSpec():
            return of_type(value)
        case Constant(value=constant):
            return _of_value(constant)
        case None:
            return None
        case _ if value.single:
            return _of_value(value.value)
        case _:
            return SCALAR if _are_small([value]) else None


def _of_value(value: Any) -> int:
    """Return a bound of the bytes of a value that is written down."""
    if isinstance(value, str):
        return len(value) * PER_CHARACTER + 2
    if isinstance(value, list | tuple):
        return 2 + sum(_of_value(one) + 1 for one in value)
    if isinstance(value, Mapping):
        return 2 + sum(_of_value(name) + _of_value(one) + 2 for name, one in value.items())
    return SCALAR


def of_type(spec: TypeSpec) -> Bytes:
    """Return the most bytes of the values of a type."""
    if spec.enum is not None:
        return max(map(_of_value, spec.enum))
    return _most(_of_word(spec, kind) for kind in words(spec))


def _of_word(spec: TypeSpec, kind: str) -> Bytes:
    if kind == "string":
        longest = spec.max_length if spec.max_length is not None else _patterned(spec.pattern)
        return None if longest is None else longest * PER_CHARACTER + 2
    if kind == "array":
        item = None if spec.items is None else of_type(spec.items)
        if spec.max_items is None or (item is None and spec.max_items):
            return None
        return 2 + spec.max_items * ((item or 0) + 1)
    if kind == "object":
        if spec.additional_properties is not False:
            return None
        fields = (spec.properties or {}).items()
        return _sum([2, *(_sum([_of_value(name) + 2, of_type(one)]) for name, one in fields)])
    return SCALAR


def _patterned(pattern: str | None) -> int | None:
    """Return the most characters of a text with a pattern, None where it does not bound them."""
    return PATTERNED if pattern is not None and covers(None, pattern, None, PATTERNED) else None


def _sum(sizes: Iterable[Bytes]) -> Bytes:
    total = 0
    for size in sizes:
        if size is None:
            return None
        total += size
    return total


def _most(sizes: Iterable[Bytes]) -> Bytes:
    known = list(sizes)
    return None if None in known else max((size for size in known if size is not None), default=0)
