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
        if inner is not None:
            yield from leaves(inner, fields[1:])
        else:
            yield from [_NONE] if tree.base is None else leaves(tree.base, fields)


def assigned_paths(tree: Expression) -> Iterator[tuple[str, ...]]:
    """Yield the paths that an object with a base changes: the names of the variable and of the fields below it."""
    if isinstance(tree, Built) and tree.base is not None:
        for name, part in zip(tree.names, tree.parts, strict=True):
            inner = list(assigned_paths(part))
            yield from inner or [(*tree.base.names, name)]


def asked_parts(tree: Expression) -> Iterator[Expression]:
    """Yield what an evaluation evaluates by itself: the parts of a built value, or the whole of any other expression.

    The objects that it copies are not among them: see `bases`.
    """
    if isinstance(tree, Built):
        for part in tree.parts:
            yield from asked_parts(part)
    else:
        yield tree


def bases(tree: Expression) -> Iterator[Reference]:
    """Yield the references to the objects of which fields are assigned."""
    if isinstance(tree, Built):
        yield from [tree.base] if tree.base is not None else ()
        for part in tree.parts:
            yield from bases(part)


def keeps(tree: Expression, fields: tuple[str, ...]) -> bool:
    """Return whether the value at some fields of `tree`, or a part of it, is that of the object that it copies."""
    for name in fields:
        inner = tree.part(name) if isinstance(tree, Built) else None
        if inner is None:
            return isinstance(tree, Built) and tree.base is not None
        tree = inner
    return isinstance(tree, Built) and tree.base is not None


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
