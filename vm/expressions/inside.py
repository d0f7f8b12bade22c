"""What is inside of built values: the expression that gives a field of a list or an object."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from stepward.vm.expressions.fields import ITEMS, part
from stepward.vm.expressions.syntax import Built, Constant, Expression, Reference


class Leaf(NamedTuple):
    """An expression that gives a field of a value; None where there is none.

    `fields` are the fields below an expression that calculates. `is_field` says that the expression is a reference to a
    field of what the value was built from: it may be undefined.
    """

    tree: Expression | None
    fields: tuple[str, ...] = ()
    is_field: bool = False


_ABSENT = object()
_NONE = Leaf(None)


def leaves(tree: Expression, fields: tuple[str, ...]) -> Iterator[Leaf]:
    """Yield the expressions that give some fields of the value of `tree`; several where a name is `[]`, any item.

    A field of a constant is a constant, one of a reference a reference. Fields are left only below an expression that
    calculates: all its fields are its own.
    """
    if not fields or not isinstance(tree, Built | Constant | Reference):
        yield Leaf(tree, fields)
    elif isinstance(tree, Reference):
        yield Leaf(Reference(tree.start, tree.end, (*tree.names, *fields)), is_field=True)
    elif isinstance(tree, Constant):
        yield from (
            Leaf(Constant(tree.start, tree.end, value)) if value is not _ABSENT else _NONE
            for value in _within(tree.value, fields)
        )
    elif fields[0] == ITEMS:
        for one in tree.parts if tree.is_list else ():
            yield from leaves(one, fields[1:])
    else:
        inner = tree.part(fields[0])
        yield from [_NONE] if inner is None else leaves(inner, fields[1:])


def leaf(tree: Expression, fields: tuple[str, ...]) -> Leaf:
    """Return the expression that gives some fields of the value of `tree`; none of the fields is `[]`."""
    return next(leaves(tree, fields))


def _within(value: Any, fields: tuple[str, ...]) -> Iterator[Any]:
    if not fields:
        yield value
    elif fields[0] == ITEMS:
        for item in value if isinstance(value, list | tuple) else ():
            yield from _within(item, fields[1:])
    else:
        found = part(value, fields[0], _ABSENT)
        yield from [_ABSENT] if found is _ABSENT else _within(found, fields[1:])
