"""Endless sequences: `(range)`, `(repeat x)`, `(cycle xs)`, `(iterate f x)`, and what `map` and its like make of them.

An endless sequence never has all its items: it says its first item and the sequence behind it. What needs only some
items (`take`, `take-while`, `first`, `nth`, `some`, `for` with `:while`) asks for them one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

from stepward.vm.lisp.context import Context
from stepward.vm.lisp.functions.arithmetic import add
from stepward.vm.lisp.streams import Endless, Next
from stepward.vm.lisp.values import Items


def counting(ctx: Context, start: Any, step: Any) -> Endless:
    """Return the numbers from `start` on."""

    def following(ctx: Context, state: Any) -> Next:
        return state, add(ctx, state, step)
        yield

    return Endless(ctx, following, start)


def repeated(ctx: Context, value: Any) -> Endless:
    """Return a value again and again."""

    def following(ctx: Context, state: Any) -> Next:
        return state, state
        yield

    return Endless(ctx, following, value)


def cycled(ctx: Context, items: Items) -> Endless:
    """Return the items of a list that is not empty again and again."""

    def following(ctx: Context, state: Any) -> Next:
        return items.at(state), (state + 1) % len(items)
        yield

    return Endless(ctx, following, 0)


def iterated(ctx: Context, function: Any, value: Any) -> Endless:
    """Return `x`, `(f x)`, `(f (f x))` and so on; each is computed when it is asked for."""

    def following(ctx: Context, state: Any) -> Next:
        is_known, before = state
        value = before if is_known else (yield from ctx.apply(function, before))
        return value, (False, value)

    return Endless(ctx, following, (True, value))


def mapped(ctx: Context, function: Any, sources: list[Any]) -> Endless:
    """Return the values of a function of the items of endless sequences, one from each."""

    def following(ctx: Context, state: Any) -> Next:
        items, behind = [], []
        for source in state:
            item, rest = yield from source.next(ctx)
            items.append(item)
            behind.append(rest)
        return (yield from ctx.apply(function, *items)), behind

    return Endless(ctx, following, sources)


def chosen(
    ctx: Context, choose: Callable[[Context, Any], Generator[Any, Any, tuple[bool, Any]]], source: Any
) -> Endless:
    """Return what `choose` gives for each item, without those that it leaves out."""

    def following(ctx: Context, state: Any) -> Next:
        while True:
            item, state = yield from state.next(ctx)
            is_in, value = yield from choose(ctx, item)
            if is_in:
                return value, state

    return Endless(ctx, following, source)
