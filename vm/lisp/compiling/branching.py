"""Tests with effects around them: each becomes a condition that the engine reads, or one on a computed boolean."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Final

from stepward.vm.lisp.compiling.bench import OpenExit
from stepward.vm.lisp.compiling.compiling import Compiling
from stepward.vm.lisp.compiling.expressions import EQUAL, ORDER, constant, number
from stepward.vm.lisp.compiling.forms import call, head_of, symbol
from stepward.vm.lisp.compiling.kinds import type_of_constant
from stepward.vm.lisp.compiling.values import BOOLEAN, NUMBER, Env, Inline, Pure, Reference, Value
from stepward.vm.lisp.forms import Form, Literal, Parens, Symbol

Ways = list[OpenExit]

_COMPARING: Final = ORDER | EQUAL.keys() | {"nil?", "some?"}


def fork(compiler: Compiling, ways: Ways, work: Callable[[], None]) -> Ways:
    """Make the steps of one branch; return the ways out of it."""
    if not ways:
        return []
    with compiler.bench.branch(ways):
        work()
        return compiler.bench.ways


def test(compiler: Compiling, form: Form, env: Env) -> tuple[Ways, Ways]:
    """Make the steps that test a form; return the ways on which it counts as true, and those on which it does not."""
    name = head_of(form)
    if isinstance(form, Parens) and name not in env:
        if name == "not" and len(form.items) == 2:
            return test(compiler, form.items[1], env)[::-1]
        if name in ("and", "or") and len(form.items) > 1:
            return _chain(compiler, form.items[1:], env, is_and=name == "and")
        if name in _COMPARING and any(map(compiler.effects.are_in, form.items)):
            form = replace(form, items=(form.items[0], *compiler.hoisted(form.items[1:], env)))
            if compiler.bench.is_over:
                return [], []
        if len(form.items) > 3 and name in ORDER | EQUAL.keys():
            return _pairwise(compiler, form, env)
        condition = _compared(compiler, form, env)
        if condition is not None:
            return _condition(compiler, condition, form)
    value = compiler.value(form, env)
    return ([], []) if compiler.bench.is_over else _truth(compiler, value, form, env)


def _pairwise(compiler: Compiling, form: Parens, env: Env) -> tuple[Ways, Ways]:
    """Test a comparison of more than two values as one of each pair, once all of them are computed."""
    name, scope = head_of(form), compiler.scope.look(env)
    args = [one if number(one, scope) is not None else compiler.held(one, env) for one in form.items[1:]]
    if compiler.bench.is_over:
        return [], []
    sign = "=" if name == "not=" else name
    holds, fails = _chain(compiler, tuple(call(sign, *pair, of=form) for pair in pairwise(args)), env, is_and=True)
    return (fails, holds) if name == "not=" else (holds, fails)


def _chain(compiler: Compiling, forms: tuple[Form, ...], env: Env, *, is_and: bool) -> tuple[Ways, Ways]:
    """Test forms in turn, as far as they decide."""
    left: Ways = []
    with compiler.bench.branch(compiler.bench.ways):
        for form in forms:
            holds, fails = test(compiler, form, env)
            on, off = (holds, fails) if is_and else (fails, holds)
            left += off
            compiler.bench.ways = on
            if not on:
                break
        on = compiler.bench.ways
    return (on, left) if is_and else (left, on)


def _condition(compiler: Compiling, text: str, form: Form) -> tuple[Ways, Ways]:
    compiler.bench.add(compiler.bench.name("test"), "condition", form, {"condition": text}, {("condition",): form.span})
    holds, fails = compiler.bench.ways
    return [holds], [fails]


def _truth(compiler: Compiling, value: Value, form: Form, env: Env) -> tuple[Ways, Ways]:
    """Test a value: only nil and false count as false."""
    if isinstance(value, Inline):
        is_false = isinstance(value.form, Literal) and (value.form.value is None or value.form.value is False)
        ways = compiler.bench.ways
        return ([], ways) if is_false else (ways, [])
    found = compiler.computed(value, form, "is") if _is_boolean(compiler, value) else None
    if found is None:
        if isinstance(value, Reference):
            compiler.scope.data[f"data/{value.argument}"] = value
            value = Pure(symbol(f"data/{value.argument}", form), {})
        found = compiler.computed(Pure(call("boolean", value.form, of=form), value.env), form, "is")
    return _condition(compiler, found.text, form)


def _is_boolean(compiler: Compiling, value: Value) -> bool:
    from stepward.vm.lisp.compiling.kinds import type_of

    if isinstance(value, Reference):
        return value.type == BOOLEAN
    return type_of(value.form, compiler.scope.look(value.env)) == BOOLEAN


# -- comparisons -------------------------------------------------------------------------------------------------------


def _compared(compiler: Compiling, form: Parens, env: Env) -> str | None:
    """Return a comparison as an expression of the language, None where the two languages do not agree on it."""
    name, args = head_of(form), form.items[1:]
    if name in ("nil?", "some?") and len(args) == 1:
        value = _outside(compiler, args[0], env)
        return None if value is None else f"{value} {'==' if name == 'nil?' else '!='} null"
    if len(args) != 2:
        return None
    if name in ORDER:
        return _ordered(compiler, name, args, env)
    if name in EQUAL:
        return _equal(compiler, name, args, env)
    return None


def _ordered(compiler: Compiling, sign: str, args: tuple[Form, ...], env: Env) -> str | None:
    scope = compiler.scope.look(env)
    if any(isinstance(one, Literal) and number(one, scope) is None for one in args):
        return None
    texts = []
    for one in args:
        text = number(one, scope)
        if text is None:
            value = compiler.simple(one, env)
            if isinstance(value, Inline):
                return None
            text = compiler.computed(value, one, "value", NUMBER).text
        texts.append(text)
    return f" {sign} ".join(texts)


def _equal(compiler: Compiling, name: str, args: tuple[Form, ...], env: Env) -> str | None:
    sign, scope = EQUAL[name], compiler.scope.look(env)
    numbers = [number(one, scope) for one in args]
    if None not in numbers:
        return f"{numbers[0]} {sign} {numbers[1]}"
    for one, other in (args, args[::-1]):
        if isinstance(other, Literal) and (name != "==" or number(other, scope) is not None):  # `==` takes no others
            text, value = constant(other.value), _outside(compiler, one, env, of=other)
            if text is not None and value is not None:
                return f"{value} {sign} {text}" if one is args[0] else f"{text} {sign} {value}"
    return None


def _outside(compiler: Compiling, form: Form, env: Env, of: Literal | None = None) -> str | None:
    """Return a reference to a value that comes from outside, or has the type of a constant; None for others."""
    found = compiler.scope.look(env).get(form.name) if isinstance(form, Symbol) else None
    if not isinstance(found, Reference):
        return None
    is_alike = (
        of is not None and found.type is not None and found.type.get("type") == type_of_constant(of.value)["type"]
    )
    return found.text if found.type is None or is_alike else None
