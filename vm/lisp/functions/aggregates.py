"""Sums, averages, extremes and groups of collections."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from stepward.vm.lisp.context import Context
from stepward.vm.lisp.faults import Fault
from stepward.vm.lisp.functions.arithmetic import calculate, compared, quotient
from stepward.vm.lisp.functions.function_table import FunctionTable
from stepward.vm.lisp.functions.ordering import key_of, natural
from stepward.vm.lisp.values import List, Map, Steps, Store, is_number, kind, number, wrapped
from stepward.vm.values import Number

SHELF: Final = FunctionTable("aggregates")


def _summed(ctx: Context, values: Any, function: str) -> tuple[Number, int]:
    """Return the sum of numbers, and how many there are; nil is left out."""
    total: Number = 0
    count = 0
    for value in values:
        ctx.meter.step()
        if value is not None:
            if not is_number(value):
                hint = "make numbers of texts before: `parse-long`, `parse-double`"
                raise Fault("type_error", f"`{function}` needs numbers, not {kind(value)}", hint, function=function)
            total = calculate("+", total, value)
            count += 1
    return total, count


@SHELF.function("sum", "coll", 1, 1)
def sum_(ctx: Context, collection: Any) -> Number:
    """Add the numbers of a collection; nil is left out."""
    return _summed(ctx, ctx.items(collection, "sum"), "sum")[0]


@SHELF.function("avg", "coll", 1, 1)
def avg(ctx: Context, collection: Any) -> Any:
    """Return the average of the numbers, nil without one; nil is left out."""
    total, count = _summed(ctx, ctx.items(collection, "avg"), "avg")
    return quotient(total, count, "avg") if count else None


def _keyed(ctx: Context, function: Any, items: Any) -> Steps:
    """Return what a function gives for each item."""
    out = ctx.store()
    for item in items:
        out.add((yield from ctx.apply(key_of(function), item)))
    return out.cells


@SHELF.function("sum-by", "f coll", 2, 2)
def sum_by(ctx: Context, function: Any, collection: Any) -> Steps:
    """Add what a function or a key gives for each item; nil is left out."""
    values = yield from _keyed(ctx, function, ctx.items(collection, "sum-by"))
    return _summed(ctx, values, "sum-by")[0]


@SHELF.function("avg-by", "f coll", 2, 2)
def avg_by(ctx: Context, function: Any, collection: Any) -> Steps:
    """Return the average of what a function or a key gives for each item; nil is left out."""
    values = yield from _keyed(ctx, function, ctx.items(collection, "avg-by"))
    total, count = _summed(ctx, values, "avg-by")
    return quotient(total, count, "avg-by") if count else None


def _best_by(name: str, sign: int) -> Callable[..., Any]:
    def best_by(ctx: Context, function: Any, *args: Any) -> Steps:
        items = list(ctx.items(args[0], name) if len(args) == 1 else args)
        values = yield from _keyed(ctx, function, items)
        best = None
        for at, value in enumerate(values):
            ctx.meter.step()
            if value is not None and (best is None or natural(value, values[best]) == sign):
                best = at
        return None if best is None else items[best]

    best_by.__doc__ = (
        f"Return the item for which a function or a key gives the {'greatest' if sign > 0 else 'least'} value."
    )
    return best_by


SHELF.function("max-by", "f coll", 2, None)(_best_by("max-by", 1))
SHELF.function("min-by", "f coll", 2, None)(_best_by("min-by", -1))


def _best_key(name: str, sign: int) -> Callable[..., Any]:
    def best_key(ctx: Context, function: Any, *items: Any) -> Steps:
        if len(items) == 1:
            return items[0]
        values = yield from _keyed(ctx, function, items)
        best = 0
        for at in range(1, len(values)):
            # Of equal ones the last counts, as in Clojure.
            if compared(number(values[at], name), number(values[best], name)) != -sign:
                best = at
        return items[best]

    best_key.__doc__ = (
        f"Return the argument for which a function gives the {'greatest' if sign > 0 else 'least'} number."
    )
    return best_key


SHELF.function("max-key", "f x …", 2, None)(_best_key("max-key", 1))
SHELF.function("min-key", "f x …", 2, None)(_best_key("min-key", -1))


@SHELF.function("frequencies", "coll", 1, 1)
def frequencies(ctx: Context, collection: Any) -> Map:
    """Return a map of each item to how often it is there."""
    counts: dict[Any, tuple[Any, int]] = {}
    for item in ctx.items(collection, "frequencies"):
        ctx.meter.step()
        key = wrapped(item)
        counts[key] = (item, counts[key][1] + 1 if key in counts else 1)
    return ctx.map(counts.values())


@SHELF.function("group-by", "f coll", 2, 2)
def group_by(ctx: Context, function: Any, collection: Any) -> Steps:
    """Return a map of what a function gives to the items for which it gives it."""
    groups: dict[Any, tuple[Any, Store]] = {}
    for item in ctx.items(collection, "group-by"):
        key = yield from ctx.apply(key_of(function), item)
        if wrapped(key) not in groups:
            groups[wrapped(key)] = (key, ctx.store())
        groups[wrapped(key)][1].add(item)
    return ctx.map((key, store.vector()) for key, store in groups.values())


@SHELF.function("distinct-by", "f coll", 2, 2)
def distinct_by(ctx: Context, function: Any, collection: Any) -> Steps:
    """Return the first item for each value that a function or a key gives."""
    seen: set[Any] = set()
    out = ctx.store()
    for item in ctx.items(collection, "distinct-by"):
        key = wrapped((yield from ctx.apply(key_of(function), item)))
        if key not in seen:
            seen.add(key)
            out.add(item)
    return out.list()


@SHELF.function("partition-by", "f coll", 2, 2)
def partition_by(ctx: Context, function: Any, collection: Any) -> Steps:
    """Return groups of items in a row for which a function gives one value."""
    out = ctx.store()
    group: Store | None = None
    before: Any = None
    for item in ctx.items(collection, "partition-by"):
        key = wrapped((yield from ctx.apply(function, item)))
        if group is None or key != before:
            if group is not None:
                out.add(group.list())
            group = ctx.store()
        group.add(item)
        before = key
    if group is not None:
        out.add(group.list())
    result: List = out.list()
    return result
