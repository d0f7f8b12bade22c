"""Sets."""

from __future__ import annotations

from typing import Any, Final

from stepward.vm.lisp.context import Context
from stepward.vm.lisp.faults import type_fault
from stepward.vm.lisp.functions.function_table import FunctionTable
from stepward.vm.lisp.values import Set, kind, unwrapped

SHELF: Final = FunctionTable("sets", "set")


def _set(ctx: Context, value: Any, function: str) -> Set:
    if isinstance(value, Set):
        return value
    return ctx.set(ctx.items(value, function))


@SHELF.function("union", "set …", 0, None)
def union(ctx: Context, *sets: Any) -> Any:
    """Return the members of all sets."""
    if len(sets) == 1 or all(one is None for one in sets):
        return sets[0] if sets else ctx.set(())
    result = _set(ctx, sets[0], "union")
    for one in sets[1:]:
        result = result.with_members(ctx.items(one, "union"))
    return result


@SHELF.function("intersection", "set …", 1, None)
def intersection(ctx: Context, *sets: Any) -> Any:
    """Return the members that all sets have."""
    if len(sets) == 1:
        return sets[0]
    if any(one is None for one in sets):
        return None
    found = [_set(ctx, one, "intersection") for one in sets]
    ctx.meter.step(sum(map(len, found)))
    return ctx.set(unwrapped(one) for one in found[0].members if all(one in other.members for other in found[1:]))


@SHELF.function("difference", "set …", 1, None)
def difference(ctx: Context, *sets: Any) -> Any:
    """Return the members of the first set that no other has."""
    if len(sets) == 1 or sets[0] is None:
        return sets[0]
    found = [_set(ctx, one, "difference") for one in sets]
    ctx.meter.step(sum(map(len, found)))
    return ctx.set(unwrapped(one) for one in found[0].members if not any(one in other.members for other in found[1:]))


@SHELF.function("subset?", "set set", 2, 2)
def is_subset(ctx: Context, left: Any, right: Any) -> bool:
    """Return whether the second set has all members of the first."""
    inner, outer = _set(ctx, left, "subset?"), _set(ctx, right, "subset?")
    ctx.meter.step(len(inner))
    return all(member in outer.members for member in inner.members)


@SHELF.function("superset?", "set set", 2, 2)
def is_superset(ctx: Context, left: Any, right: Any) -> bool:
    """Return whether the first set has all members of the second."""
    return bool(is_subset(ctx, right, left))


@SHELF.function("disj", "set x …", 1, None, space="core")
def disj(ctx: Context, collection: Any, *values: Any) -> Any:
    """Return a set without members."""
    if collection is None:
        return None
    if not isinstance(collection, Set):
        raise type_fault("disj", "a set", kind(collection))
    left_out = ctx.set(values)
    ctx.meter.step(len(collection) // 64)
    return ctx.set(unwrapped(one) for one in collection.members if one not in left_out.members)
