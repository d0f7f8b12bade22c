"""Maps: entries by key, also in nested maps and vectors. A keyword and the text of the same name find one entry."""

from __future__ import annotations

from typing import Any, Final

from stepward.vm.lisp.context import Context
from stepward.vm.lisp.faults import Fault, type_fault
from stepward.vm.lisp.functions.collections import added, index, pair
from stepward.vm.lisp.functions.function_table import FunctionTable
from stepward.vm.lisp.values import Items, Map, Steps, Vector, kind, wrapped

SHELF: Final = FunctionTable("maps")


def _map(value: Any, function: str) -> Map | None:
    if value is not None and not isinstance(value, Map):
        raise type_fault(function, "a map", kind(value))
    return value


def put(ctx: Context, holder: Any, key: Any, value: Any, function: str) -> Any:
    """Return a map or a vector with a value at a key; nil is an empty map."""
    if holder is None:
        return ctx.map(((key, value),))
    if isinstance(holder, Map):
        return holder.with_entries(((ctx.other_key(holder, key), value),))
    if isinstance(holder, Vector):
        at = index(key, function)
        if at == len(holder):
            return holder.with_last(value)
        if not 0 <= at < len(holder):
            hint = "add items at the end with `conj`"
            raise Fault(
                "bounds_error", f"there is no item {at} among {len(holder)}", hint, position=at, count=len(holder)
            )
        ctx.meter.step(len(holder) // 64)
        items = list(holder)
        items[at] = value
        return ctx.vector(items)
    raise type_fault(function, "a map, a vector or nil", kind(holder))


@SHELF.function("assoc", "m k v …", 3, None)
def assoc(ctx: Context, holder: Any, *args: Any) -> Any:
    """Return a map or a vector with values at keys."""
    if len(args) % 2:
        raise Fault("arity_error", "the last key has no value", "write `(assoc m k v)`")
    for key, value in zip(args[::2], args[1::2], strict=True):
        holder = put(ctx, holder, key, value, "assoc")
    return holder


@SHELF.function("dissoc", "m k …", 1, None)
def dissoc(ctx: Context, holder: Any, *keys: Any) -> Any:
    """Return a map without keys."""
    found = _map(holder, "dissoc")
    return None if found is None else found.without([ctx.other_key(found, key) for key in keys])


@SHELF.function("keys", "m", 1, 1)
def keys(ctx: Context, holder: Any) -> Any:
    """Return the keys of a map, nil if there are none."""
    found = _map(holder, "keys")
    return ctx.list(found) if found else None


@SHELF.function("vals", "m", 1, 1)
def vals(ctx: Context, holder: Any) -> Any:
    """Return the values of a map, nil if there are none."""
    found = _map(holder, "vals")
    return ctx.list(found.entries.values()) if found else None


def _entry(entry: Any, function: str) -> Items:
    if not isinstance(entry, Vector) or len(entry) != 2:
        raise type_fault(function, "an entry `[key value]`", kind(entry))
    return entry


@SHELF.function("key", "entry", 1, 1)
def key(ctx: Context, entry: Any) -> Any:
    """Return the key of an entry."""
    return _entry(entry, "key").at(0)


@SHELF.function("val", "entry", 1, 1)
def val(ctx: Context, entry: Any) -> Any:
    """Return the value of an entry."""
    return _entry(entry, "val").at(1)


@SHELF.function("find", "m k", 2, 2)
def find(ctx: Context, holder: Any, key: Any) -> Any:
    """Return the entry `[key value]` of a map or a vector, nil without one."""
    if holder is None:
        return None
    if not isinstance(holder, Map | Vector):
        raise type_fault(
            "find", "a map or a vector", kind(holder), "to search for an item: `(first (filter pred coll))`"
        )
    if not ctx.has(holder, key):
        return None
    shown = ctx.other_key(holder, key) if isinstance(holder, Map) else key
    return ctx.vector((shown, ctx.lookup(holder, key, None)))


@SHELF.function("get-in", "m path default", 2, 3)
def get_in(ctx: Context, holder: Any, path: Any, *default: Any) -> Any:
    """Return what stands at a path of keys; else the default or nil."""
    for one in ctx.items(path, "get-in"):
        if not ctx.has(holder, one):
            return default[0] if default else None
        holder = ctx.lookup(holder, one, None)
    return holder


def _path(ctx: Context, path: Any, function: str) -> list[Any]:
    steps = list(ctx.items(path, function))
    return steps or [None]


def _holders(ctx: Context, holder: Any, steps: list[Any]) -> list[Any]:
    """Return what stands at each beginning of a path, the whole first."""
    found = [holder]
    for one in steps[:-1]:
        found.append(ctx.lookup(found[-1], one, None))
    return found


def _rebuilt(ctx: Context, found: list[Any], steps: list[Any], value: Any, function: str) -> Any:
    for holder, one in zip(reversed(found), reversed(steps), strict=True):
        ctx.meter.step()
        value = put(ctx, holder, one, value, function)
    return value


@SHELF.function("assoc-in", "m path v", 3, 3)
def assoc_in(ctx: Context, holder: Any, path: Any, value: Any) -> Any:
    """Return a map or a vector with a value at a path of keys; maps that are missing are made."""
    steps = _path(ctx, path, "assoc-in")
    return _rebuilt(ctx, _holders(ctx, holder, steps), steps, value, "assoc-in")


@SHELF.function("update", "m k f x …", 3, None)
def update(ctx: Context, holder: Any, key: Any, function: Any, *args: Any) -> Steps:
    """Return a map or a vector with what a function gives for the value at a key."""
    value = yield from ctx.apply(function, ctx.lookup(holder, key, None), *args)
    return put(ctx, holder, key, value, "update")


@SHELF.function("update-in", "m path f x …", 3, None)
def update_in(ctx: Context, holder: Any, path: Any, function: Any, *args: Any) -> Steps:
    """Return a map or a vector with what a function gives for the value at a path."""
    steps = _path(ctx, path, "update-in")
    found = _holders(ctx, holder, steps)
    value = yield from ctx.apply(function, ctx.lookup(found[-1], steps[-1], None), *args)
    return _rebuilt(ctx, found, steps, value, "update-in")


@SHELF.function("merge", "m …", 0, None)
def merge(ctx: Context, *maps: Any) -> Any:
    """Return a map with the entries of all; the last one wins."""
    if not any(one is not None and one is not False for one in maps):
        return None
    result = maps[0] if maps[0] is not None else ctx.map(())
    if len(maps) == 1:
        return result
    if isinstance(result, Map):
        merged = result.with_entries(())
        for one in maps[1:]:
            if one is None:
                continue
            for known, value in one.items() if isinstance(one, Map) else (pair(ctx, one, "merge"),):
                ctx.meter.step()
                merged.put(ctx.other_key(merged, known), value)
        return merged
    return added(ctx, result, maps[1:], "merge")


@SHELF.function("merge-with", "f m …", 1, None)
def merge_with(ctx: Context, function: Any, *maps: Any) -> Steps:
    """Return a map with the entries of all; a function combines the values of one key."""
    if len(maps) == 1 and maps[0] is not False:
        return maps[0]
    found = [one for one in (_map(one, "merge-with") for one in maps) if one is not None]
    if not found:
        return None
    result = ctx.map(())
    for one in found:
        for known, value in one.items():
            at = ctx.other_key(result, known)
            if wrapped(at) in result.entries:
                value = yield from ctx.apply(function, result.entries[wrapped(at)], value)  # noqa: PLW2901
            ctx.meter.step()
            result.put(at, value)
    return result


@SHELF.function("select-keys", "m keys", 2, 2)
def select_keys(ctx: Context, holder: Any, names: Any) -> Map:
    """Return a map with only some keys."""
    if holder is not None and not isinstance(holder, Map | Vector):
        raise type_fault("select-keys", "a map or a vector", kind(holder))
    pairs = []
    for one in ctx.items(names, "select-keys"):
        ctx.meter.step()
        if ctx.has(holder, one):
            pairs.append((one, ctx.lookup(holder, one, None)))
    return ctx.map(pairs)


@SHELF.function("zipmap", "keys vals", 2, 2)
def zipmap(ctx: Context, names: Any, values: Any) -> Steps:
    """Return a map of keys to values, as long as there are both."""
    result = ctx.map(())
    left, right = ctx.source(names, "zipmap"), ctx.source(values, "zipmap")
    while (one := (yield from left.pull())) is not ctx.END and (value := (yield from right.pull())) is not ctx.END:
        result.put(one, value)
    return result


@SHELF.function("update-vals", "m f", 2, 2)
def update_vals(ctx: Context, holder: Any, function: Any) -> Steps:
    """Return a map with what a function gives for each value."""
    result = ctx.map(())
    for known, value in _pairs(holder, "update-vals"):
        result.put(known, (yield from ctx.apply(function, value)))
    return _like(ctx, holder, result)


@SHELF.function("update-keys", "m f", 2, 2)
def update_keys(ctx: Context, holder: Any, function: Any) -> Steps:
    """Return a map with what a function gives for each key."""
    result = ctx.map(())
    for known, value in _pairs(holder, "update-keys"):
        result.put((yield from ctx.apply(function, known)), value)
    return result


def _pairs(holder: Any, function: str) -> list[tuple[Any, Any]]:
    if holder is None:
        return []
    if isinstance(holder, Map):
        return list(holder.items())
    if isinstance(holder, Vector):
        return list(enumerate(holder))
    raise type_fault(function, "a map or a vector", kind(holder))


def _like(ctx: Context, holder: Any, result: Map) -> Any:
    return ctx.vector(result.entries.values()) if isinstance(holder, Vector) else result
