"""Functions that make functions."""

from __future__ import annotations

from typing import Any, Final

from stepward.vm.lisp.callables import Native
from stepward.vm.lisp.context import Context
from stepward.vm.lisp.functions.function_table import FunctionTable
from stepward.vm.lisp.functions.higher_order import holds
from stepward.vm.lisp.values import Steps

SHELF: Final = FunctionTable("functions that make functions")


@SHELF.function("identity", "x", 1, 1)
def identity(ctx: Context, value: Any) -> Any:
    """Return the argument."""
    return value


@SHELF.function("constantly", "x", 1, 1)
def constantly(ctx: Context, value: Any) -> Native:
    """Return a function that always gives a value."""
    return ctx.native("constantly", lambda _ctx, *_args: value)


@SHELF.function("comp", "f …", 0, None)
def comp(ctx: Context, *functions: Any) -> Any:
    """Return a function that calls the last function, then the one before it with the result, and so on."""
    if len(functions) == 1:
        return functions[0]

    def composed(ctx: Context, *args: Any) -> Steps:
        if not functions:
            return ctx.begin(ctx.functions["identity"], list(args))
        value = yield from ctx.apply(functions[-1], *args)
        for function in reversed(functions[:-1]):
            value = yield from ctx.apply(function, value)
        return value

    return ctx.native("comp", composed)


@SHELF.function("partial", "f x …", 1, None)
def partial(ctx: Context, function: Any, *first: Any) -> Native:
    """Return a function with its first arguments filled in."""
    return ctx.native("partial", lambda ctx, *args: ctx.begin(function, [*first, *args]))


@SHELF.function("complement", "f", 1, 1)
def complement(ctx: Context, function: Any) -> Native:
    """Return a function that holds where another one does not."""

    def opposite(ctx: Context, *args: Any) -> Steps:
        return not holds((yield from ctx.apply(function, *args)))

    return ctx.native("complement", opposite)


@SHELF.function("juxt", "f …", 1, None)
def juxt(ctx: Context, *functions: Any) -> Native:
    """Return a function that gives a vector of what several functions give."""

    def beside(ctx: Context, *args: Any) -> Steps:
        out = ctx.store()
        for function in functions:
            out.add((yield from ctx.apply(function, *args)))
        return out.vector()

    return ctx.native("juxt", beside)


@SHELF.function("fnil", "f x y z", 2, 4)
def fnil(ctx: Context, function: Any, *defaults: Any) -> Native:
    """Return a function that gets a default in the place of nil."""

    def patched(ctx: Context, *args: Any) -> Any:
        values = list(args)
        for position, default in enumerate(defaults[: len(values)]):
            if values[position] is None:
                values[position] = default
        return ctx.begin(function, values)

    return ctx.native("fnil", patched, 1)


@SHELF.function("every-pred", "pred …", 1, None)
def every_pred(ctx: Context, *functions: Any) -> Native:
    """Return a function that holds if all functions hold for all arguments."""

    def all_hold(ctx: Context, *args: Any) -> Steps:
        for function in functions:
            for arg in args:
                if not holds((yield from ctx.apply(function, arg))):
                    return False
        return True

    return ctx.native("every-pred", all_hold)


@SHELF.function("some-fn", "f …", 1, None)
def some_fn(ctx: Context, *functions: Any) -> Native:
    """Return a function that gives the first value that holds of what functions give for the arguments."""

    def first_that_holds(ctx: Context, *args: Any) -> Steps:
        value: Any = None
        for arg in args:
            for function in functions:
                value = yield from ctx.apply(function, arg)
                if holds(value):
                    return value
        return value

    return ctx.native("some-fn", first_that_holds)
