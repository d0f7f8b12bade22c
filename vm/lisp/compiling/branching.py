"""Tests with effects around them: each becomes a condition that the engine reads, or one on a computed boolean."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Final

from stepward.vm.lisp.compiling.bench import Known, OpenExit
from stepward.vm.lisp.compiling.compiling import Compiling
from stepward.vm.lisp.compiling.expressions import EQUAL, ORDER, constant, number
from stepward.vm.lisp.compiling.forms import call, head_of
from stepward.vm.lisp.compiling.kinds import type_of_constant
from stepward.vm.lisp.compiling.values import ANY, BOOLEAN, NUMBER, Env, Inline, Pure, Reference, Type, Value
from stepward.vm.lisp.forms import Brackets, Form, Literal, Parens, Symbol

Ways = list[OpenExit]

AGAIN: Final = "again"
"""The name of a condition on a part of a test whose value is computed already."""

_COMPARING: Final = ORDER | EQUAL.keys() | {"nil?", "some?"}
_NULL: Final = re.compile(r"(?P<value>\S+) (?P<sign>==|!=) null$")
_TESTS: Final = _COMPARING | {"not", "and", "or"}


def fork(compiler: Compiling, ways: Ways, work: Callable[[], None]) -> Ways:
    """Make the steps of one branch; return the ways out of it."""
    if not ways:
        return []
    compiler.bench.ways = ways
    work()
    return compiler.bench.ways


def test(compiler: Compiling, form: Form, env: Env, *, is_again: bool) -> tuple[Ways, Ways]:
    """Make the steps that test a form; return the ways on which it counts as true, and those on which it does not.

    `is_again`: its value is computed already, so that no condition is asked whose answer is known.
    """
    asked = _asked_by(compiler, form, env)
    if asked is not None:
        return test(compiler, asked.form, asked.env, is_again=True)
    name = head_of(form)
    entered = _entered(compiler, form, env)
    if entered is not None:
        compiler.within.append(name)
        ways = test(compiler, entered.form, entered.env, is_again=True)
        compiler.within.pop()
        return ways
    if isinstance(form, Parens) and name not in env:
        if name == "not" and len(form.items) == 2:
            return test(compiler, form.items[1], env, is_again=is_again)[::-1]
        if name in ("and", "or") and len(form.items) > 1:
            return _chain(compiler, form.items[1:], env, is_and=name == "and", is_again=is_again)
        if name in _COMPARING and any(map(compiler.effects.are_in, form.items)):
            form = replace(form, items=(form.items[0], *compiler.hoisted(form.items[1:], env)))
            if compiler.bench.is_over:
                return [], []
        if len(form.items) > 3 and name in ORDER | EQUAL.keys():
            return _pairwise(compiler, form, env, is_again=is_again)
        condition = _compared(compiler, form, env)
        if condition is not None:
            return _condition(compiler, condition, form, is_again=is_again)
    value = compiler.value(form, env)
    return ([], []) if compiler.bench.is_over else _truth(compiler, value, form, env, is_again=is_again)


def _asked_by(compiler: Compiling, form: Form, env: Env) -> Pure | None:
    """Return the test whose value a name stands for: its parts are asked, as proofs don't know what is computed."""
    found = compiler.scope.look(env).get(form.name) if isinstance(form, Symbol) else None
    made = found.of if isinstance(found, Reference) else None
    if made is None or (head_of(made.form) not in _TESTS and _asking(compiler, made.form, made.env) is None):
        return None
    return (
        None if head_of(made.form) in made.env or "println" in compiler.scope.code(made.form, made.env)[0] else made
    )  # it prints once


def _asking(compiler: Compiling, form: Form, env: Env) -> tuple[list[str], Form] | None:
    """Return the parameters and the test of which a called function without effects consists; None for other forms."""
    name = head_of(form)
    definition = compiler.scope.functions.get(name)
    if not isinstance(form, Parens) or definition is None or name in env or name in compiler.within:
        return None
    params, body = definition.items[-2:]
    names = [one.name for one in params.items if isinstance(one, Symbol)] if isinstance(params, Brackets) else []
    is_plain = isinstance(params, Brackets) and len(names) == len(params.items) == len(form.items) - 1
    is_test = is_plain and "&" not in names and head_of(body) in _TESTS and not compiler.effects.are_in(form)
    return (names, body) if is_test else None


def _entered(compiler: Compiling, form: Form, env: Env) -> Pure | None:
    """Return the test of a function, after the steps of its arguments; None for any other form."""
    asking = _asking(compiler, form, env)
    if asking is None or not isinstance(form, Parens):
        return None
    given = [compiler.simple(one, env) for one in form.items[1:]]
    held = [compiler.computed(one, form, "value") if isinstance(one, Pure) else one for one in given]
    return Pure(asking[1], dict(zip(asking[0], held, strict=True)))


def _pairwise(compiler: Compiling, form: Parens, env: Env, *, is_again: bool) -> tuple[Ways, Ways]:
    """Test a comparison of more than two values as one of each pair, once all of them are computed."""
    name, scope = head_of(form), compiler.scope.look(env)
    args = [one if number(one, scope) is not None else compiler.read_form(one, env) for one in form.items[1:]]
    if compiler.bench.is_over:
        return [], []
    sign = "=" if name == "not=" else name
    pairs = tuple(call(sign, *pair, of=form) for pair in pairwise(args))
    holds, fails = _chain(compiler, pairs, env, is_and=True, is_again=is_again)
    return (fails, holds) if name == "not=" else (holds, fails)


def _chain(
    compiler: Compiling, forms: tuple[Form, ...], env: Env, *, is_and: bool, is_again: bool
) -> tuple[Ways, Ways]:
    """Test forms in turn, as far as they decide."""
    left: Ways = []
    for form in forms:
        holds, fails = test(compiler, form, env, is_again=is_again)
        on, off = (holds, fails) if is_and else (fails, holds)
        left += off
        compiler.bench.ways = on
        if not on:
            break
    on = compiler.bench.ways
    return (on, left) if is_and else (left, on)


def _condition(compiler: Compiling, text: str, form: Form, *, is_again: bool) -> tuple[Ways, Ways]:
    bench = compiler.bench
    if is_again:
        is_so = _known(bench.known, text)
        if is_so is not None:
            return (bench.ways, []) if is_so else ([], bench.ways)
    name = bench.name(AGAIN if is_again else "test")
    bench.add(name, "condition", form, {"condition": text}, {("condition",): form.span})
    holds, fails = bench.ways
    holds, fails = (
        way._replace(known={**way.known, **dict.fromkeys(_said(text, holds=is_so), (True,))})
        for way, is_so in ((holds, True), (fails, False))
    )
    return [holds], [fails]


def _said(text: str, *, holds: bool) -> list[str]:
    """Return the conditions that hold where a condition holds, or where it does not."""
    asked = _NULL.search(text)
    found = [text if holds else f"not ({text})"]
    if asked is not None and (holds or asked.start() == 0):
        is_null = (asked["sign"] == "==") is holds
        found.append(f"{asked['value']} {'==' if is_null else '!='} null")
    return found


def _known(known: Known, text: str) -> bool | None:
    """Return whether a condition holds, as far as that is known."""
    asked = _NULL.search(text)
    if text in known:
        return True
    if f"not ({text})" in known:
        return False
    opposite = None if asked is None else f"{asked['value']} {'!=' if asked['sign'] == '==' else '=='} null"
    return False if opposite in known else None


def _truth(compiler: Compiling, value: Value, form: Form, env: Env, *, is_again: bool) -> tuple[Ways, Ways]:
    """Test a value: only nil and false count as false."""
    if isinstance(value, Inline):
        is_false = isinstance(value.form, Literal) and (value.form.value is None or value.form.value is False)
        ways = compiler.bench.ways
        return ([], ways) if is_false else (ways, [])
    if _is_boolean(compiler, value):
        return _condition(compiler, compiler.computed(value, form, "is").text, form, is_again=is_again)
    is_there = ""
    if isinstance(value, Reference):
        is_there = f" and {value.text} != null"  # proofs don't know what is computed
        value = Pure(compiler.named(value, form), {})
    found = compiler.computed(Pure(call("boolean", value.form, of=form), value.env), form, "is")
    return _condition(compiler, f"{found.text}{is_there}", form, is_again=is_again)


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
        value = _outside(compiler, args[0], env, ANY)
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
            if isinstance(value, Reference):
                compiler.bench.learn(f"{value.text} != null", True)
        texts.append(text)
    return f" {sign} ".join(texts)


def _equal(compiler: Compiling, name: str, args: tuple[Form, ...], env: Env) -> str | None:
    sign, scope = EQUAL[name], compiler.scope.look(env)
    numbers = [number(one, scope) for one in args]
    if None not in numbers:
        return f"{numbers[0]} {sign} {numbers[1]}"
    for one, other in (args, args[::-1]):
        if isinstance(other, Literal) and (name != "==" or number(other, scope) is not None):  # `==` takes no others
            text, value = constant(other.value), _outside(compiler, one, env, type_of_constant(other.value))
            if text is not None and value is not None:
                return f"{value} {sign} {text}" if one is args[0] else f"{text} {sign} {value}"
    return None


def _outside(compiler: Compiling, form: Form, env: Env, wanted: Type) -> str | None:
    """Return a reference to a value that comes from outside, or has the wanted type; None for others."""
    found = compiler.scope.look(env).get(form.name) if isinstance(form, Symbol) else None
    if not isinstance(found, Reference):
        return None
    is_alike = found.type is None or found.type.get("type") == wanted["type"]
    return found.text if is_alike else None
