"""Functions that go through nested values; a value has at most MAX_DEPTH levels, and so has their recursion."""

from __future__ import annotations

from typing import Any, Final

from stepward.vm.lisp.context import Context
from stepward.vm.lisp.functions.function_table import FunctionTable
from stepward.vm.lisp.functions.higher_order import holds
from stepward.vm.lisp.values import Items, Keyword, List, Map, Set, Steps, Store, Vector, too_deep
from stepward.vm.values import MAX_DEPTH

SHELF: Final = FunctionTable("nested values", "walk")


@SHELF.function("flatten", "coll", 1, 1, space="core")
def flatten(ctx: Context, collection: Any) -> List:
    """Return the items of nested vectors and lists as one list."""
    out = ctx.store()
    if isinstance(collection, Items):
        _flatten(ctx, collection, out)
    return out.list()


def _flatten(ctx: Context, items: Items, out: Store) -> None:
    for item in items:
        ctx.meter.step()
        if isinstance(item, Items):
            _flatten(ctx, item, out)
        else:
            out.add(item)


def _changed(ctx: Context, inner: Any, form: Any) -> Steps:
    """Return a collection of the same kind with what a function gives for each part."""
    if not isinstance(form, Items | Map | Set):
        return form
    out = ctx.store()
    for part in ctx.items(form, "walk"):
        out.add((yield from ctx.apply(inner, part)))
    match form:
        case Vector():
            return out.vector()
        case Map():
            return ctx.functions["into"].run(ctx, ctx.map(()), out.list())
        case Set():
            return ctx.set(out.cells)
        case _:
            return out.list()


@SHELF.function("walk", "inner outer form", 3, 3)
def walk(ctx: Context, inner: Any, outer: Any, form: Any) -> Steps:
    """Return what `outer` gives for a collection of what `inner` gives for each part."""
    return (yield from ctx.apply(outer, (yield from _changed(ctx, inner, form))))


@SHELF.function("postwalk", "f form", 2, 2)
def postwalk(ctx: Context, function: Any, form: Any) -> Steps:
    """Change a nested value from the inside: the parts first, then the whole."""

    # A function of its own for each level: one that knew itself would never be given back.
    inner = ctx.native("postwalk", lambda ctx, part: postwalk(ctx, function, part), 1, 1)
    return (yield from walk(ctx, inner, function, form))


@SHELF.function("prewalk", "f form", 2, 2)
def prewalk(ctx: Context, function: Any, form: Any) -> Steps:
    """Change a nested value from the outside: the whole first, then the parts of what it became."""
    return (yield from _prewalk(ctx, function, form, 0))


def _prewalk(ctx: Context, function: Any, form: Any, level: int) -> Steps:
    if level > MAX_DEPTH:
        raise too_deep()
    changed = yield from ctx.apply(function, form)
    inner = ctx.native("prewalk", lambda ctx, part: _prewalk(ctx, function, part, level + 1), 1, 1)
    return (yield from _changed(ctx, inner, changed))


@SHELF.function("tree-seq", "branch? children root", 3, 3, space="core")
def tree_seq(ctx: Context, branch: Any, children: Any, root: Any) -> Steps:
    """Return all nodes of a tree: each before its children."""
    out = ctx.store()
    waiting = [root]
    while waiting:
        ctx.meter.step()
        node = waiting.pop()
        out.add(node)
        if holds((yield from ctx.apply(branch, node))):
            parts = list(ctx.items((yield from ctx.apply(children, node)), "tree-seq"))
            ctx.meter.expect(8 * (len(waiting) + len(parts)), "the nodes of a tree that wait to be visited")
            waiting.extend(reversed(parts))
    return out.list()


@SHELF.function("keywordize-keys", "form", 1, 1)
def keywordize_keys(ctx: Context, form: Any) -> Any:
    """Return a nested value in which all keys that are texts are keywords."""
    return _with_keys(ctx, form, lambda key: ctx.keyword(key) if isinstance(key, str) else key)


@SHELF.function("stringify-keys", "form", 1, 1)
def stringify_keys(ctx: Context, form: Any) -> Any:
    """Return a nested value in which all keys that are keywords are texts."""
    return _with_keys(ctx, form, lambda key: key.name if isinstance(key, Keyword) else key)


def _with_keys(ctx: Context, form: Any, change: Any) -> Any:
    ctx.meter.step()
    match form:
        case Vector():
            return ctx.vector(_with_keys(ctx, item, change) for item in form)
        case List():
            return ctx.list(_with_keys(ctx, item, change) for item in form)
        case Set():
            return ctx.set(_with_keys(ctx, item, change) for item in form)
        case Map():
            return ctx.map((change(key), _with_keys(ctx, item, change)) for key, item in form.items())
        case _:
            return form
