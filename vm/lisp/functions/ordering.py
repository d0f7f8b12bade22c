"""Order: equality, comparison and sorting."""

from __future__ import annotations

from collections.abc import Callable, Generator
from itertools import pairwise
from typing import Any, Final

from stepward.vm.lisp.context import Context
from stepward.vm.lisp.faults import Fault
from stepward.vm.lisp.functions.arithmetic import compared
from stepward.vm.lisp.functions.function_table import FunctionTable
from stepward.vm.lisp.values import Keyword, Steps, Vector, equal, is_number, kind, number

SHELF: Final = FunctionTable("order")


@SHELF.function("=", "x y …", 1, None)
def equals(ctx: Context, first: Any, *others: Any) -> bool:
    """Return whether all values are equal; numbers by value, a vector and a list by their items."""
    return all(equal(first, other) for other in others)


@SHELF.function("==", "x y …", 1, None)
def same_number(ctx: Context, first: Any, *others: Any) -> bool:
    """Return whether all numbers are equal."""
    if others:
        number(first, "==")
    return all(equal(first, number(other, "==")) for other in others)


@SHELF.function("not=", "x y …", 1, None)
def differs(ctx: Context, first: Any, *others: Any) -> bool:
    """Return whether not all values are equal."""
    return not equals(ctx, first, *others)


def _ordered(name: str, doc: str, holds: Callable[[int], bool]) -> None:
    def run(ctx: Context, *values: Any) -> bool:
        # As in Clojure, the first pair that is out of order ends it: what stands behind is not looked at.
        return all(holds(compared(number(left, name), number(right, name))) for left, right in pairwise(values))

    run.__doc__ = doc
    SHELF.function(name, "x y …", 1, None)(run)


_ordered("<", "Return whether the numbers rise.", lambda order: order < 0)
_ordered("<=", "Return whether the numbers never fall.", lambda order: order <= 0)
_ordered(">", "Return whether the numbers fall.", lambda order: order > 0)
_ordered(">=", "Return whether the numbers never rise.", lambda order: order >= 0)


def natural(left: Any, right: Any) -> int:
    """Return -1, 0 or 1: nil comes first; numbers, texts, keywords, booleans and vectors are compared among themselves.

    Raises a Fault for values that have no order.
    """
    if left is right:
        return 0
    if left is None or right is None:
        return -1 if left is None else 1
    if is_number(left) and is_number(right):
        return compared(left, right)
    if isinstance(left, bool) and isinstance(right, bool):
        return int(left) - int(right)
    if isinstance(left, str) and isinstance(right, str):
        return (left > right) - (left < right)
    if isinstance(left, Keyword) and isinstance(right, Keyword):
        return (left.name > right.name) - (left.name < right.name)
    if isinstance(left, Vector) and isinstance(right, Vector):
        return _of_vectors(left, right)
    raise Fault(
        "type_error", f"{kind(left)} and {kind(right)} have no order", "sort by a number or a text: `(sort-by f coll)`"
    )


def _of_vectors(left: Vector, right: Vector) -> int:
    if len(left) != len(right):
        return -1 if len(left) < len(right) else 1
    left.meter.step(len(left))
    return next((order for a, b in zip(left, right, strict=True) if (order := natural(a, b))), 0)


@SHELF.function("compare", "x y", 2, 2)
def compare(ctx: Context, left: Any, right: Any) -> int:
    """Return -1, 0 or 1: nil comes first; values of one kind have an order."""
    return natural(left, right)


def _comparator(ctx: Context, value: Any) -> Any:
    """Return the function that compares: `:asc` and `:desc` stand for the natural order and its reverse."""
    if value == Keyword("desc"):
        return ctx.native("desc", lambda _ctx, left, right: natural(right, left), 2, 2)
    if value is None or value == Keyword("asc"):
        return ctx.functions["compare"]
    return value


def _order(ctx: Context, comparator: Any, left: Any, right: Any) -> Steps:
    """Return the order of two values by a function that gives a number or a boolean."""
    result = yield from ctx.apply(comparator, left, right)
    if is_number(result):
        return int(result)
    if result is not None and result is not False:
        return -1
    result = yield from ctx.apply(comparator, right, left)
    return 1 if result is not None and result is not False else 0


Pair = tuple[Any, Any]
"""A key and the item that it orders."""


def _merging(pairs: list[Pair]) -> Generator[tuple[Any, Any], int, list[Pair]]:
    """Yield two keys at a time, the later one first, and get their order. Return the pairs in order; equal ones keep
    the order that they had.

    Python's own sort compares other keys, and more or fewer of them, in each version: steps and errors would differ.
    """
    runs = [[pair] for pair in pairs]
    while len(runs) > 1:
        longer = []
        for left, right in zip(runs[::2], [*runs[1::2], []], strict=False):
            run, at, other = [], 0, 0
            while at < len(left) and other < len(right):
                if (yield right[other][0], left[at][0]) < 0:
                    run.append(right[other])
                    other += 1
                else:
                    run.append(left[at])
                    at += 1
            longer.append(run + left[at:] + right[other:])
        runs = longer
    return runs[0] if runs else []


def merged(ctx: Context, comparator: Any, pairs: list[Pair]) -> Steps:
    """Return pairs in the order of their keys by a function; equal ones keep their order."""
    merging = _merging(pairs)
    try:
        compared = next(merging)
        while True:
            ctx.meter.step()
            compared = merging.send((yield from _order(ctx, comparator, *compared)))
    except StopIteration as stop:
        return stop.value


def merged_by_nature(ctx: Context, pairs: list[Pair]) -> list[Pair]:
    """Return pairs in the natural order of their keys; equal ones keep their order."""
    merging = _merging(pairs)
    try:
        compared = next(merging)
        while True:
            ctx.meter.step()
            compared = merging.send(natural(*compared))
    except StopIteration as stop:
        return list(stop.value)


@SHELF.function("sort", "comparator coll", 1, 2)
def sort(ctx: Context, *args: Any) -> Any:
    """Sort by nature, or by a comparator: a function, `:asc` or `:desc`."""
    items = list(ctx.items(args[-1], "sort"))
    if len(args) == 2:
        return _sorted(ctx, _comparator(ctx, args[0]), [(item, item) for item in items])
    return ctx.list(item for _, item in merged_by_nature(ctx, [(item, item) for item in items]))


def _sorted(ctx: Context, comparator: Any, pairs: list[tuple[Any, Any]]) -> Steps:
    done = yield from merged(ctx, comparator, pairs)
    return ctx.list(item for _, item in done)


@SHELF.function("sort-by", "f comparator coll", 2, 3)
def sort_by(ctx: Context, function: Any, *args: Any) -> Steps:
    """Sort by what a function gives for each item."""
    keyed = ctx.store()
    items = list(ctx.items(args[-1], "sort-by"))
    for item in items:
        keyed.add((yield from ctx.apply(key_of(function), item)))
    pairs = list(zip(keyed.cells, items, strict=True))
    if len(args) == 2:
        return (yield from _sorted(ctx, _comparator(ctx, args[0]), pairs))
    return ctx.list(item for _, item in merged_by_nature(ctx, pairs))


def key_of(function: Any) -> Any:
    """Return the function that a text stands for: the keyword of its name; `(sum-by "total" xs)`."""
    return Keyword(function) if isinstance(function, str) else function


@SHELF.function("identical?", "x y", 2, 2)
def is_identical(ctx: Context, left: Any, right: Any) -> bool:
    """Return whether two values are equal: no two equal values can be told apart."""
    return equal(left, right)
