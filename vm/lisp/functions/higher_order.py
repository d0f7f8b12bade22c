"""Functions that call a function for each item of a collection."""

from __future__ import annotations

from typing import Any, Final

from stepward.vm.lisp.context import Context
from stepward.vm.lisp.endless import chosen, counting, mapped
from stepward.vm.lisp.faults import Fault, type_fault
from stepward.vm.lisp.functions.function_table import FunctionTable
from stepward.vm.lisp.streams import Endless
from stepward.vm.lisp.values import Items, Map, Reduced, Steps, Store, Vector, kind

SHELF: Final = FunctionTable("functions of functions")


def holds(value: Any) -> bool:
    """Return whether a value counts as true: all do but nil and false."""
    return value is not None and value is not False


def _mapped(ctx: Context, function: Any, collections: tuple[Any, ...], name: str) -> Steps:
    """Return the cells of what a function gives for the items, one from each collection."""
    out = ctx.store()
    if len(collections) == 1:
        for item in ctx.items(collections[0], name):
            out.add((yield from ctx.apply(function, item)))
        return out
    sources = [ctx.source(one, name) for one in collections]
    while True:
        row = []
        for source in sources:
            item = yield from source.pull()
            if item is ctx.END:
                return out
            row.append(item)
        out.add((yield from ctx.apply(function, *row)))


@SHELF.function("map", "f coll …", 2, None)
def map_(ctx: Context, function: Any, *collections: Any) -> Any:
    """Return what a function gives for each item; of several collections it gets one item each."""
    if all(isinstance(one, Endless) for one in collections):
        return mapped(ctx, function, list(collections))
    return _map_all(ctx, function, collections)


def _map_all(ctx: Context, function: Any, collections: tuple[Any, ...]) -> Steps:
    store: Store = yield from _mapped(ctx, function, collections, "map")
    return store.list()


@SHELF.function("pmap", "f coll …", 2, None)
def pmap(ctx: Context, function: Any, *collections: Any) -> Any:
    """Do the same as `map`: nothing runs side by side in an expression without effects."""
    return map_(ctx, function, *collections)


@SHELF.function("pcalls", "f …", 0, None)
def pcalls(ctx: Context, *functions: Any) -> Steps:
    """Call functions without arguments, and return what they give."""
    out = ctx.store()
    for function in functions:
        out.add((yield from ctx.apply(function)))
    return out.list()


@SHELF.function("mapv", "f coll …", 2, None)
def mapv(ctx: Context, function: Any, *collections: Any) -> Steps:
    """Do the same as `map`, and return a vector."""
    if all(isinstance(one, Endless) for one in collections):
        ctx.items(collections[0], "mapv")
    store: Store = yield from _mapped(ctx, function, collections, "mapv")
    return store.vector()


@SHELF.function("map-indexed", "f coll", 2, 2)
def map_indexed(ctx: Context, function: Any, collection: Any) -> Any:
    """Return what a function gives for each position and item."""
    if isinstance(collection, Endless):
        return mapped(ctx, function, [counting(ctx, 0, 1), collection])
    return _map_indexed(ctx, function, collection)


def _map_indexed(ctx: Context, function: Any, collection: Any) -> Steps:
    out = ctx.store()
    for position, item in enumerate(ctx.items(collection, "map-indexed")):
        out.add((yield from ctx.apply(function, position, item)))
    return out.list()


@SHELF.function("mapcat", "f coll …", 2, None)
def mapcat(ctx: Context, function: Any, *collections: Any) -> Steps:
    """Return the items of all that a function gives, as one list."""
    store: Store = yield from _mapped(ctx, function, collections, "mapcat")
    out = ctx.store()
    for part in store.cells:
        for item in ctx.items(part, "mapcat"):
            ctx.meter.step()
            out.add(item)
    return out.list()


@SHELF.function("run!", "f coll", 2, 2)
def run(ctx: Context, function: Any, collection: Any) -> Steps:
    """Call a function for each item, and return nil."""
    for item in ctx.items(collection, "run!"):
        yield from ctx.apply(function, item)


# -- choosing ----------------------------------------------------------------------------------------------------------


def _filtered(ctx: Context, function: Any, collection: Any, *, keeps: bool, name: str) -> Steps:
    out = ctx.store()
    for item in ctx.items(collection, name):
        if holds((yield from ctx.apply(function, item))) is keeps:
            out.add(item)
    return out


def _choose(ctx: Context, function: Any, collection: Any, *, keeps: bool, name: str) -> Any:
    if isinstance(collection, Endless):

        def choose(ctx: Context, item: Any) -> Steps:
            return holds((yield from ctx.apply(function, item))) is keeps, item

        return chosen(ctx, choose, collection)
    return _chosen_list(ctx, function, collection, keeps, name)


def _chosen_list(ctx: Context, function: Any, collection: Any, keeps: bool, name: str) -> Steps:
    store: Store = yield from _filtered(ctx, function, collection, keeps=keeps, name=name)
    return store.list()


@SHELF.function("filter", "pred coll", 2, 2)
def filter_(ctx: Context, function: Any, collection: Any) -> Any:
    """Return the items for which a function holds."""
    return _choose(ctx, function, collection, keeps=True, name="filter")


@SHELF.function("remove", "pred coll", 2, 2)
def remove(ctx: Context, function: Any, collection: Any) -> Any:
    """Return the items for which a function does not hold."""
    return _choose(ctx, function, collection, keeps=False, name="remove")


@SHELF.function("filterv", "pred coll", 2, 2)
def filterv(ctx: Context, function: Any, collection: Any) -> Steps:
    """Do the same as `filter`, and return a vector."""
    store: Store = yield from _filtered(ctx, function, collection, keeps=True, name="filterv")
    return store.vector()


@SHELF.function("keep", "f coll", 2, 2)
def keep(ctx: Context, function: Any, collection: Any) -> Any:
    """Return what a function gives for each item, without nil."""
    if isinstance(collection, Endless):

        def choose(ctx: Context, item: Any) -> Steps:
            value = yield from ctx.apply(function, item)
            return value is not None, value

        return chosen(ctx, choose, collection)
    return _keep(ctx, function, collection)


def _keep(ctx: Context, function: Any, collection: Any) -> Steps:
    out = ctx.store()
    for item in ctx.items(collection, "keep"):
        value = yield from ctx.apply(function, item)
        if value is not None:
            out.add(value)
    return out.list()


@SHELF.function("keep-indexed", "f coll", 2, 2)
def keep_indexed(ctx: Context, function: Any, collection: Any) -> Steps:
    """Return what a function gives for each position and item, without nil."""
    out = ctx.store()
    for position, item in enumerate(ctx.items(collection, "keep-indexed")):
        value = yield from ctx.apply(function, position, item)
        if value is not None:
            out.add(value)
    return out.list()


@SHELF.function("take-while", "pred coll", 2, 2)
def take_while(ctx: Context, function: Any, collection: Any) -> Steps:
    """Return the items before the first one for which a function does not hold."""
    source = ctx.source(collection, "take-while")
    out = ctx.store()
    while (item := (yield from source.pull())) is not ctx.END:
        if not holds((yield from ctx.apply(function, item))):
            break
        out.add(item)
    return out.list()


def _first_that_fails(ctx: Context, function: Any, items: Items) -> Steps:
    for position, item in enumerate(items):
        if not holds((yield from ctx.apply(function, item))):
            return position
    return len(items)


@SHELF.function("drop-while", "pred coll", 2, 2)
def drop_while(ctx: Context, function: Any, collection: Any) -> Steps:
    """Return the items from the first one on for which a function does not hold."""
    if isinstance(collection, Endless):
        while True:
            item, behind = yield from collection.next(ctx)
            if not holds((yield from ctx.apply(function, item))):
                return collection
            collection = behind
    items = ctx.sized(collection, "drop-while")
    start = yield from _first_that_fails(ctx, function, items)
    return ctx.list(items.part(start, len(items)))


@SHELF.function("split-with", "pred coll", 2, 2)
def split_with(ctx: Context, function: Any, collection: Any) -> Steps:
    """Return what `take-while` gives, and the items behind it."""
    items = ctx.sized(collection, "split-with")
    start = yield from _first_that_fails(ctx, function, items)
    return ctx.vector((ctx.list(items.part(0, start)), ctx.list(items.part(start, len(items)))))


# -- questions ---------------------------------------------------------------------------------------------------------


@SHELF.function("some", "pred coll", 2, 2)
def some(ctx: Context, function: Any, collection: Any) -> Steps:
    """Return the first value that holds of what a function gives for the items, else nil."""
    source = ctx.source(collection, "some")
    while (item := (yield from source.pull())) is not ctx.END:
        value = yield from ctx.apply(function, item)
        if holds(value):
            return value
    return None


@SHELF.function("every?", "pred coll", 2, 2)
def is_every(ctx: Context, function: Any, collection: Any) -> Steps:
    """Return whether a function holds for all items."""
    source = ctx.source(collection, "every?")
    while (item := (yield from source.pull())) is not ctx.END:
        if not holds((yield from ctx.apply(function, item))):
            return False
    return True


@SHELF.function("not-every?", "pred coll", 2, 2)
def is_not_every(ctx: Context, function: Any, collection: Any) -> Steps:
    """Return whether a function does not hold for some item."""
    return not (yield from is_every(ctx, function, collection))


@SHELF.function("not-any?", "pred coll", 2, 2)
def is_not_any(ctx: Context, function: Any, collection: Any) -> Steps:
    """Return whether a function holds for no item."""
    return not holds((yield from some(ctx, function, collection)))


# -- folding -----------------------------------------------------------------------------------------------------------


@SHELF.function("reduce", "f init coll", 2, 3)
def reduce(ctx: Context, function: Any, *args: Any) -> Steps:
    """Combine all items: `(f (f init a) b)`; without init the first item begins. `(reduced x)` ends it with x."""
    source = ctx.source(args[-1], "reduce")
    value: Any = args[0]
    if len(args) == 1:
        value = yield from source.pull()
        if value is ctx.END:
            return (yield from ctx.apply(function))
    while (item := (yield from source.pull())) is not ctx.END:
        value = yield from ctx.apply(function, value, item)
        if type(value) is Reduced:
            return value.value
    return value


@SHELF.function("reductions", "f init coll", 2, 3)
def reductions(ctx: Context, function: Any, *args: Any) -> Steps:
    """Return all the values that `reduce` goes through."""
    source = ctx.source(args[-1], "reductions")
    out = ctx.store()
    value: Any = args[0]
    if len(args) == 1:
        value = yield from source.pull()
        if value is ctx.END:
            out.add((yield from ctx.apply(function)))
            return out.list()
    out.add(value)
    while (item := (yield from source.pull())) is not ctx.END:
        value = yield from ctx.apply(function, value, item)
        if type(value) is Reduced:
            out.add(value.value)
            break
        out.add(value)
    return out.list()


@SHELF.function("reduce-kv", "f init m", 3, 3)
def reduce_kv(ctx: Context, function: Any, value: Any, holder: Any) -> Steps:
    """Combine all entries of a map, or positions and items of a vector: `(f value key item)`."""
    if isinstance(holder, Map):
        entries = holder.items()
    elif isinstance(holder, Vector):
        entries = enumerate(holder)
    elif holder is None:
        return value
    else:
        raise type_fault("reduce-kv", "a map or a vector", kind(holder))
    for key, item in entries:
        value = yield from ctx.apply(function, value, key, item)
        if type(value) is Reduced:
            return value.value
    return value


@SHELF.function("reduced", "x", 1, 1)
def reduced(ctx: Context, value: Any) -> Reduced:
    """End the `reduce` around it with a value."""
    return Reduced(value)


@SHELF.function("apply", "f x … coll", 2, None)
def apply(ctx: Context, function: Any, *args: Any) -> Any:
    """Call a function with the arguments, the last of which is a collection of further ones."""
    items = list(ctx.items(args[-1], "apply"))
    ctx.meter.step(len(items))
    return ctx.begin(function, [*args[:-1], *items])


@SHELF.function("return", "x", 1, 1)
def return_(ctx: Context, value: Any) -> Any:
    """End the program with a value."""
    raise Returned(value)


@SHELF.function("fail", "x", 1, 1)
def fail(ctx: Context, value: Any) -> Any:
    """End the program with an error; a text is its message."""
    if isinstance(value, str):
        raise Fault("failed", value[:1000])
    raise Fault("failed", ctx.shown(value), value=ctx.shown(value))


class Returned(Exception):  # noqa: N818 - it is no error
    """What `return` raises: the value of the program."""

    def __init__(self, value: Any) -> None:
        super().__init__("the program returned")
        self.value = value


@SHELF.function("println", "x …", 0, None)
def println(ctx: Context, *values: Any) -> None:
    """Print values with a space between them: the caller gets the lines beside the value."""
    ctx.print(ctx.written(values, readable=False, separator=" "))
