"""Functions that take parts of sequences: first and last items, slices, groups, and numbers in a row."""

from __future__ import annotations

from itertools import combinations as all_combinations
from math import comb
from typing import Any, Final

from stepward.vm.lisp.context import Context
from stepward.vm.lisp.endless import counting, cycled, iterated, repeated
from stepward.vm.lisp.faults import Fault, type_fault
from stepward.vm.lisp.functions.arithmetic import add, compared
from stepward.vm.lisp.functions.collections import index, nth_of_endless
from stepward.vm.lisp.functions.function_table import FunctionTable
from stepward.vm.lisp.streams import Endless
from stepward.vm.lisp.values import Items, List, Map, Steps, equal, kind, number, wrapped

SHELF: Final = FunctionTable("sequences")


def _item(ctx: Context, collection: Any, at: int) -> Any:
    items = ctx.sized(collection, "first")
    return items.at(at) if at < len(items) else None


def _behind(ctx: Context, collection: Any, count: int, function: str) -> List:
    """Return the items behind the first ones."""
    items = ctx.sized(collection, function)
    return List(items.store, min(items.start + max(count, 0), items.stop), items.stop)


def _or_nil(items: List) -> List | None:
    return items if len(items) else None


@SHELF.function("first", "coll", 1, 1)
def first(ctx: Context, collection: Any) -> Any:
    """Return the first item, nil without one."""
    if isinstance(collection, Endless):
        return nth_of_endless(ctx, collection, 0)
    if isinstance(collection, str):
        return collection[:1] or None
    return _item(ctx, collection, 0)


@SHELF.function("second", "coll", 1, 1, also=("fnext",))
def second(ctx: Context, collection: Any) -> Any:
    """Return the second item, nil without one."""
    if isinstance(collection, Endless):
        return nth_of_endless(ctx, collection, 1)
    return _item(ctx, collection, 1)


@SHELF.function("last", "coll", 1, 1)
def last(ctx: Context, collection: Any) -> Any:
    """Return the last item, nil without one."""
    items = ctx.sized(collection, "last")
    return items.at(len(items) - 1) if len(items) else None


@SHELF.function("rest", "coll", 1, 1)
def rest(ctx: Context, collection: Any) -> Any:
    """Return the items behind the first one."""
    return drop(ctx, 1, collection)


@SHELF.function("next", "coll", 1, 1)
def next_(ctx: Context, collection: Any) -> Any:
    """Return the items behind the first one, nil if there are none."""
    if isinstance(collection, Endless):
        return drop(ctx, 1, collection)
    return _or_nil(_behind(ctx, collection, 1, "next"))


@SHELF.function("ffirst", "coll", 1, 1)
def ffirst(ctx: Context, collection: Any) -> Any:
    """Return the first item of the first item."""
    return first(ctx, _item(ctx, collection, 0))


@SHELF.function("nfirst", "coll", 1, 1)
def nfirst(ctx: Context, collection: Any) -> Any:
    """Return what is behind the first item of the first item."""
    return next_(ctx, _item(ctx, collection, 0))


@SHELF.function("nnext", "coll", 1, 1)
def nnext(ctx: Context, collection: Any) -> Any:
    """Return the items behind the second one, nil if there are none."""
    return _or_nil(_behind(ctx, collection, 2, "nnext"))


@SHELF.function("butlast", "coll", 1, 1)
def butlast(ctx: Context, collection: Any) -> Any:
    """Return the items before the last one, nil if there are none."""
    return _or_nil(drop_last(ctx, collection))


@SHELF.function("take", "n coll", 2, 2)
def take(ctx: Context, count: Any, collection: Any) -> Any:
    """Return the first items."""
    most = index(count, "take")
    if isinstance(collection, Endless):
        return _take_of_endless(ctx, most, collection)
    items = ctx.sized(collection, "take")
    return List(items.store, items.start, items.start + min(max(most, 0), len(items)))


def _take_of_endless(ctx: Context, most: int, collection: Any) -> Steps:
    out = ctx.store()
    for _ in range(most):
        item, collection = yield from collection.next(ctx)
        out.add(item)
    return out.list()


@SHELF.function("drop", "n coll", 2, 2)
def drop(ctx: Context, count: Any, collection: Any) -> Any:
    """Return the items behind the first ones."""
    most = index(count, "drop")
    if isinstance(collection, Endless):
        return _drop_of_endless(ctx, most, collection)
    return _behind(ctx, collection, most, "drop")


def _drop_of_endless(ctx: Context, most: int, collection: Any) -> Steps:
    for _ in range(most):
        _, collection = yield from collection.next(ctx)
    return collection


@SHELF.function("nthrest", "coll n", 2, 2)
def nthrest(ctx: Context, collection: Any, count: Any) -> Any:
    """Return the items behind the first ones."""
    if index(count, "nthrest") <= 0:
        return collection
    return drop(ctx, count, collection)


@SHELF.function("nthnext", "coll n", 2, 2)
def nthnext(ctx: Context, collection: Any, count: Any) -> Any:
    """Return the items behind the first ones, nil if there are none."""
    if isinstance(collection, Endless):
        return drop(ctx, count, collection)
    return _or_nil(_behind(ctx, collection, index(count, "nthnext"), "nthnext"))


@SHELF.function("take-last", "n coll", 2, 2)
def take_last(ctx: Context, count: Any, collection: Any) -> Any:
    """Return the last items, nil if there are none."""
    items = ctx.sized(collection, "take-last")
    return _or_nil(_behind(ctx, items, len(items) - max(index(count, "take-last"), 0), "take-last"))


@SHELF.function("drop-last", "n coll", 1, 2)
def drop_last(ctx: Context, *args: Any) -> List:
    """Return the items before the last ones; without a number before the last one."""
    items = ctx.sized(args[-1], "drop-last")
    count = index(args[0], "drop-last") if len(args) == 2 else 1
    return List(items.store, items.start, items.start + max(len(items) - max(count, 0), 0))


@SHELF.function("split-at", "n coll", 2, 2)
def split_at(ctx: Context, count: Any, collection: Any) -> Any:
    """Return the first items and those behind them."""
    return ctx.vector((take(ctx, count, collection), drop(ctx, count, collection)))


@SHELF.function("distinct", "coll", 1, 1)
def distinct(ctx: Context, collection: Any) -> List:
    """Return each item once, in the order in which they come first."""
    seen: set[Any] = set()
    out = ctx.store()
    for item in ctx.items(collection, "distinct"):
        ctx.meter.step()
        key = wrapped(item)
        if key not in seen:
            seen.add(key)
            out.add(item)
    return out.list()


@SHELF.function("dedupe", "coll", 1, 1)
def dedupe(ctx: Context, collection: Any) -> List:
    """Return the items without those that equal the one before."""
    out, before = ctx.store(), object()
    for item in ctx.items(collection, "dedupe"):
        ctx.meter.step()
        if not equal(before, item):
            out.add(item)
        before = item
    return out.list()


@SHELF.function("interpose", "separator coll", 2, 2)
def interpose(ctx: Context, separator: Any, collection: Any) -> List:
    """Return the items with a separator between them."""
    out = ctx.store()
    for number_of, item in enumerate(ctx.items(collection, "interpose")):
        ctx.meter.step()
        if number_of:
            out.add(separator)
        out.add(item)
    return out.list()


@SHELF.function("interleave", "coll …", 0, None)
def interleave(ctx: Context, *collections: Any) -> Steps:
    """Return the first items of all collections, then the second ones, as long as all have some."""
    out = ctx.store()
    sources = [ctx.source(one, "interleave") for one in collections]
    if sources and all(isinstance(one, Endless) for one in collections):
        raise type_fault("interleave", "a collection that has an end", "endless sequences only")
    while sources:
        row = []
        for source in sources:
            item = yield from source.pull()
            if item is ctx.END:
                return out.list()
            row.append(item)
        for item in row:
            out.add(item)
    return out.list()


@SHELF.function("zip", "coll coll …", 2, None)
def zip_(ctx: Context, *collections: Any) -> List:
    """Return vectors of the first items of all collections, of the second ones, and so on."""
    out = ctx.store()
    for row in zip(*(ctx.items(one, "zip") for one in collections), strict=False):
        ctx.meter.step()
        out.add(ctx.vector(row))
    return out.list()


# -- groups ------------------------------------------------------------------------------------------------------------


def _groups(ctx: Context, args: tuple[Any, ...], function: str) -> tuple[int, int, Items]:
    """Return the size and the step of groups, and the items that are grouped."""
    size = index(args[0], function)
    step = index(args[1], function) if len(args) > 2 else size
    items = ctx.sized(args[-1], function)
    if step < 1 and size > 0:
        raise Fault("bounds_error", f"`{function}` needs a step of at least 1", "give a positive number")
    return size, step, items


@SHELF.function("partition", "n step pad coll", 2, 4)
def partition(ctx: Context, *args: Any) -> List:
    """Return groups of n items; the last one only if it is full, or filled from `pad`."""
    pad = list(ctx.items(args[2], "partition")) if len(args) == 4 else None
    if pad is not None:
        args = (args[0], args[1], args[3])
    size, step, items = _groups(ctx, args, "partition")
    out = ctx.store()
    if size < 1:
        return out.list()
    for start in range(0, len(items), step):
        ctx.meter.step()
        stop = start + size
        if stop <= len(items):
            out.add(List(items.store, items.start + start, items.start + stop))
        elif pad is not None:
            left = list(items)[start:]
            out.add(ctx.list([*left, *pad[: size - len(left)]]))
            break
        else:
            break
    return out.list()


@SHELF.function("partition-all", "n step coll", 2, 3)
def partition_all(ctx: Context, *args: Any) -> List:
    """Return groups of n items; the last ones may have fewer."""
    size, step, items = _groups(ctx, args, "partition-all")
    out = ctx.store()
    if size < 1:
        raise Fault("bounds_error", "`partition-all` needs groups of at least 1 item", "give a positive number")
    for start in range(0, len(items), step):
        ctx.meter.step()
        out.add(List(items.store, items.start + start, min(items.start + start + size, items.stop)))
    return out.list()


@SHELF.function("combinations", "coll n", 2, 2)
def combinations(ctx: Context, collection: Any, count: Any) -> List:
    """Return all choices of n items, in the order of the items."""
    items, size = list(ctx.items(collection, "combinations")), index(count, "combinations")
    out = ctx.store()
    if 0 <= size <= len(items):
        ctx.meter.step(min(comb(len(items), size), ctx.limits.steps + 1))
        for chosen in all_combinations(items, size):
            out.add(ctx.vector(chosen))
    return out.list()


# -- rows of values ----------------------------------------------------------------------------------------------------


@SHELF.function("range", "start end step", 0, 3)
def range_(ctx: Context, *args: Any) -> Any:
    """Return the numbers from start (0) to before end, by step (1); without an end they go on for ever."""
    for one in args:
        number(one, "range")
    if not args:
        return counting(ctx, 0, 1)
    start, end, step = (0, args[0], 1) if len(args) == 1 else (args[0], args[1], args[2] if len(args) > 2 else 1)
    up = compared(step, 0)
    if up == 0:
        return repeated(ctx, start) if compared(start, end) else ctx.list(())
    out = ctx.store()
    value = start
    while compared(value, end) == -up:
        ctx.meter.step()
        out.add(value)
        value = add(ctx, value, step)
    return out.list()


@SHELF.function("repeat", "n x", 1, 2)
def repeat(ctx: Context, *args: Any) -> Any:
    """Return a value n times; without n it goes on for ever."""
    if len(args) == 1:
        return repeated(ctx, args[0])
    out = ctx.store()
    for _ in range(index(args[0], "repeat")):
        ctx.meter.step()
        out.add(args[1])
    return out.list()


@SHELF.function("cycle", "coll", 1, 1)
def cycle(ctx: Context, collection: Any) -> Any:
    """Return the items again and again."""
    items = ctx.sized(collection, "cycle")
    return cycled(ctx, items) if len(items) else ctx.list(items)


@SHELF.function("iterate", "f x", 2, 2)
def iterate(ctx: Context, function: Any, value: Any) -> Endless:
    """Return x, (f x), (f (f x)) and so on."""
    return iterated(ctx, function, value)


@SHELF.function("entries", "m", 1, 1)
def entries(ctx: Context, collection: Any) -> Any:
    """Return the entries of a map as vectors `[key value]`."""
    if not isinstance(collection, Map) and collection is not None:
        raise type_fault("entries", "a map", kind(collection))
    return ctx.list(ctx.items(collection, "entries"))
