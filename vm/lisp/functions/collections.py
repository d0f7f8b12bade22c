"""Functions that make collections, and ask or change any of them."""

from __future__ import annotations

from typing import Any, Final

from stepward.vm.lisp.context import Context
from stepward.vm.lisp.faults import Fault, type_fault
from stepward.vm.lisp.functions.function_table import FunctionTable
from stepward.vm.lisp.streams import Endless, refused
from stepward.vm.lisp.values import Items, List, Map, Set, Steps, Vector, is_number, kind

SHELF: Final = FunctionTable("collections")


def index(value: Any, function: str) -> int:
    """Return a number as a count or a position: its fraction is cut off."""
    if not is_number(value):
        raise type_fault(function, "a number", kind(value))
    return int(value)


@SHELF.function("list", "x …", 0, None)
def list_(ctx: Context, *items: Any) -> List:
    """Make a list."""
    return ctx.list(items)


@SHELF.function("vector", "x …", 0, None)
def vector(ctx: Context, *items: Any) -> Vector:
    """Make a vector."""
    return ctx.vector(items)


@SHELF.function("vec", "coll", 1, 1)
def vec(ctx: Context, collection: Any) -> Vector:
    """Make a vector of the items of a collection."""
    if isinstance(collection, Vector):
        return collection
    return ctx.vector(ctx.items(collection, "vec"))


@SHELF.function("hash-map", "k v …", 0, None, also=("array-map",))
def hash_map(ctx: Context, *items: Any) -> Map:
    """Make a map of keys and values."""
    if len(items) % 2:
        raise Fault("arity_error", "the last key has no value", "write keys and values in turn")
    return ctx.map(zip(items[::2], items[1::2], strict=True))


@SHELF.function("hash-set", "x …", 0, None)
def hash_set(ctx: Context, *items: Any) -> Set:
    """Make a set."""
    return ctx.set(items)


@SHELF.function("set", "coll", 1, 1)
def set_(ctx: Context, collection: Any) -> Set:
    """Make a set of the items of a collection."""
    return collection if isinstance(collection, Set) else ctx.set(ctx.items(collection, "set"))


@SHELF.function("count", "coll", 1, 1)
def count(ctx: Context, collection: Any) -> int:
    """Return the number of items; of a text the code points."""
    if isinstance(collection, Map | str):
        return len(collection)
    if collection is None:
        return 0
    if isinstance(collection, Items | Set):
        return len(collection)
    raise (
        refused("count")
        if isinstance(collection, Endless)
        else type_fault("count", "a collection, a text or nil", kind(collection))
    )


@SHELF.function("empty?", "coll", 1, 1)
def is_empty(ctx: Context, collection: Any) -> bool:
    """Return whether there are no items; nil has none."""
    return not isinstance(collection, Endless) and count(ctx, collection) == 0


@SHELF.function("not-empty", "coll", 1, 1)
def not_empty(ctx: Context, collection: Any) -> Any:
    """Return the collection, nil if it has no items."""
    return None if is_empty(ctx, collection) else collection


@SHELF.function("empty", "coll", 1, 1)
def empty(ctx: Context, collection: Any) -> Any:
    """Return a collection of the same kind without items, nil for what is no collection."""
    match collection:
        case Vector():
            return ctx.vector(())
        case List():
            return ctx.list(())
        case Map():
            return ctx.map(())
        case Set():
            return ctx.set(())
        case _:
            return None


def pair(ctx: Context, entry: Any, function: str) -> tuple[Any, Any]:
    """Return the key and the value of an entry that is added to a map."""
    if isinstance(entry, Vector) and len(entry) == 2:
        return entry.at(0), entry.at(1)
    raise Fault(
        "type_error", f"`{function}` adds entries `[key value]` or a map to a map, not `{ctx.shown(entry)}`", ""
    )


def added(ctx: Context, collection: Any, items: Any, function: str) -> Any:
    """Return a collection with items added: to a vector at the end, to a list at the start."""
    match collection:
        case Vector():
            for item in items:
                collection = collection.with_last(item)
            return collection
        case Map():
            result = collection.with_entries(())
            for item in items:
                if item is None:
                    continue
                if isinstance(item, Map):
                    for key, value in item.items():
                        result.put(key, value)
                else:
                    result.put(*pair(ctx, item, function))
            return result
        case Set():
            return collection.with_members(items)
        case List() | None:
            return ctx.list([*reversed(list(items)), *(collection or ())])
        case _:
            raise type_fault(function, "a collection", kind(collection))


@SHELF.function("conj", "coll x …", 0, None)
def conj(ctx: Context, *args: Any) -> Any:
    """Add items: to a vector at the end, to a list at the start, to a map as `[key value]`."""
    if not args:
        return ctx.vector(())
    if args[0] is None and len(args) == 1:
        return None
    if isinstance(args[0], Items | Set | Map):
        ctx.meter.step(len(args[0]) // 64 if isinstance(args[0], List) else 0)
    return added(ctx, args[0], args[1:], "conj")


@SHELF.function("into", "to from", 0, 2)
def into(ctx: Context, *args: Any) -> Any:
    """Add all items of a collection to another one."""
    if not args:
        return ctx.vector(())
    if len(args) == 1:
        return args[0]
    to, source = args
    items = list(ctx.items(source, "into"))
    ctx.meter.step(len(items))
    if not items:
        return to
    return added(ctx, to, items, "into")


@SHELF.function("cons", "x coll", 2, 2)
def cons(ctx: Context, first: Any, collection: Any) -> List:
    """Return a list of an item and the items of a collection."""
    items = ctx.sized(collection, "cons")
    ctx.meter.step(len(items) // 64)
    return ctx.list((first, *items))


@SHELF.function("concat", "coll …", 0, None)
def concat(ctx: Context, *collections: Any) -> List:
    """Return the items of all collections as one list."""
    out = ctx.store()
    for collection in collections:
        for item in ctx.items(collection, "concat"):
            ctx.meter.step()
            out.add(item)
    return out.list()


@SHELF.function("peek", "coll", 1, 1)
def peek(ctx: Context, collection: Any) -> Any:
    """Return the last item of a vector, the first of a list, nil without one."""
    if collection is None:
        return None
    if not isinstance(collection, Items):
        raise type_fault("peek", "a vector or a list", kind(collection))
    if not len(collection):
        return None
    return collection.at(len(collection) - 1 if isinstance(collection, Vector) else 0)


@SHELF.function("pop", "coll", 1, 1)
def pop(ctx: Context, collection: Any) -> Any:
    """Return a vector without its last item, a list without its first."""
    if collection is None:
        return None
    if not isinstance(collection, Items):
        raise type_fault("pop", "a vector or a list", kind(collection))
    if not len(collection):
        raise Fault("bounds_error", "`pop` needs an item, and the collection is empty", "test with `empty?` before")
    if isinstance(collection, Vector):
        return collection.part(0, len(collection) - 1)
    return collection.part(1, len(collection))


@SHELF.function("subvec", "v start end", 2, 3)
def subvec(ctx: Context, collection: Any, *bounds: Any) -> Vector:
    """Return a part of a vector."""
    if not isinstance(collection, Vector):
        raise type_fault("subvec", "a vector", kind(collection))
    start = index(bounds[0], "subvec")
    stop = index(bounds[1], "subvec") if len(bounds) > 1 else len(collection)
    if not 0 <= start <= stop <= len(collection):
        hint = "use `(take n v)` and `(drop n v)`, which stop at the end"
        raise Fault("bounds_error", f"the part {start} to {stop} is not within the {len(collection)} items", hint)
    part: Vector = collection.part(start, stop)
    return part


@SHELF.function("nth", "coll n default", 2, 3)
def nth(ctx: Context, collection: Any, position: Any, *default: Any) -> Any:
    """Return the item at a position, counted from 0; without one the default, or an error."""
    at = index(position, "nth")
    if isinstance(collection, Endless):
        return nth_of_endless(ctx, collection, at)
    if isinstance(collection, Map | Set):
        raise type_fault("nth", "a vector, a list or a text", kind(collection), "make a list of it with `seq`")
    if collection is None:
        return default[0] if default else None
    items = collection if isinstance(collection, str) else ctx.sized(collection, "nth")
    if 0 <= at < len(items):
        return items[at] if isinstance(items, str) else items.at(at)
    if default:
        return default[0]
    hint = "give a default: `(nth coll n nil)`, or use `(get v n)`"
    raise Fault("bounds_error", f"there is no item {at} among {len(items)}", hint, position=at, count=len(items))


def nth_of_endless(ctx: Context, collection: Any, at: int) -> Steps:
    """Return the item at a position of an endless sequence."""
    item = None
    for _ in range(at + 1):
        item, collection = yield from collection.next(ctx)
    return item


@SHELF.function("seq", "coll", 1, 1)
def seq(ctx: Context, collection: Any) -> Any:
    """Return the items as a list, nil if there are none."""
    if isinstance(collection, Endless):
        return collection
    items = ctx.list(ctx.items(collection, "seq"))
    return items if len(items) else None


@SHELF.function("reverse", "coll", 1, 1)
def reverse(ctx: Context, collection: Any) -> List:
    """Return the items in reverse order."""
    items = list(ctx.items(collection, "reverse"))
    ctx.meter.step(len(items))
    items.reverse()
    return ctx.list(items)


@SHELF.function("contains?", "coll key", 2, 2)
def contains(ctx: Context, collection: Any, key: Any) -> bool:
    """Return whether a map has a key, a set a member, a vector or a text a position."""
    if collection is None:
        return False
    if isinstance(collection, List | Endless) or not isinstance(collection, Map | Set | Vector | str):
        raise type_fault("contains?", "a map, a set, a vector or a text", kind(collection), "use `(some #{x} coll)`")
    if isinstance(collection, str) and not is_number(key):
        raise type_fault("contains?", "a position in a text", kind(key), "use `(includes? text part)`")
    return ctx.has(collection, key)


@SHELF.function("get", "coll key default", 2, 3)
def get(ctx: Context, collection: Any, key: Any, *default: Any) -> Any:
    """Return what a map, a set, a vector or a text has at a key; else the default or nil."""
    if is_number(key) and type(key) is not int and isinstance(collection, Vector | str):
        key = int(key)
    return ctx.lookup(collection, key, default[0] if default else None)
