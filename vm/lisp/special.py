"""The special forms: what they are made of, and the nodes that they become."""

from __future__ import annotations

from typing import Final

from stepward.vm.lisp.analysis import Analyst, Special, keyword_of
from stepward.vm.lisp.binding import bind, together
from stepward.vm.lisp.calls import Call, Def
from stepward.vm.lisp.faults import Fault
from stepward.vm.lisp.forms import Brackets, Form, Literal, Parens, Quoted, Symbol
from stepward.vm.lisp.nodes import (
    NOTHING,
    Case,
    Cond,
    Do,
    Either,
    For,
    If,
    IsNil,
    Keep,
    Level,
    Local,
    Loop,
    Node,
    NoMatch,
    Recur,
)
from stepward.vm.lisp.threading import THREADING
from stepward.vm.lisp.values import wrapped

MAX_BINDINGS: Final = 16
"""Maximal number of bindings of one `for`."""


def malformed(form: Parens, shape: str, reason: str = "") -> Fault:
    """Return the fault of a special form of another shape than `shape`."""
    head = form.items[0]
    assert isinstance(head, Symbol), "a special form begins with its name"
    return Fault("invalid_form", reason or f"`{head.short}` has not its parts", f"write `{shape}`", form.span)


def _args(form: Parens, least: int, most: int | None, shape: str) -> tuple[Form, ...]:
    args = form.items[1:]
    if len(args) < least or (most is not None and len(args) > most):
        raise malformed(form, shape)
    return args


def _pairs(form: Parens, shape: str) -> list[tuple[Form, Form]]:
    """Return the names and values in the brackets behind the name of a special form."""
    if len(form.items) < 2 or not isinstance(form.items[1], Brackets):
        raise malformed(form, shape)
    items = form.items[1].items
    if len(items) % 2:
        raise malformed(form, shape, "a name in the brackets has no value")
    return list(zip(items[::2], items[1::2], strict=True))


# -- conditions --------------------------------------------------------------------------------------------------------


def _if(analyst: Analyst, form: Parens, tail: bool) -> Node:
    test, then, *rest = _args(form, 2, 3, "(if test then else)")
    otherwise = analyst.node(rest[0], tail=tail) if rest else NOTHING
    return If(analyst.node(test), analyst.node(then, tail=tail), otherwise)


def _if_not(analyst: Analyst, form: Parens, tail: bool) -> Node:
    test, then, *rest = _args(form, 2, 3, "(if-not test then else)")
    otherwise = analyst.node(rest[0], tail=tail) if rest else NOTHING
    return If(analyst.node(test), otherwise, analyst.node(then, tail=tail))


def _when(analyst: Analyst, form: Parens, tail: bool) -> Node:
    test, *body = _args(form, 1, None, "(when test body)")
    return If(analyst.node(test), analyst.body(tuple(body), tail=tail), NOTHING)


def _when_not(analyst: Analyst, form: Parens, tail: bool) -> Node:
    test, *body = _args(form, 1, None, "(when-not test body)")
    return If(analyst.node(test), NOTHING, analyst.body(tuple(body), tail=tail))


def _cond(analyst: Analyst, form: Parens, tail: bool) -> Node:
    args = form.items[1:]
    if len(args) % 2:
        raise malformed(form, "(cond test value … :else value)", "the last test of `cond` has no value")
    clauses = ((analyst.node(args[i]), analyst.node(args[i + 1], tail=tail)) for i in range(0, len(args), 2))
    return Cond(tuple(clauses), NOTHING)


def _condp(analyst: Analyst, form: Parens, tail: bool) -> Node:
    predicate, subject, *rest = _args(form, 2, None, "(condp pred expr test value … default)")
    holds, value = analyst.unit.slot(), analyst.unit.slot()
    clauses: list[tuple[Node, Node]] = []
    while len(rest) >= 2:
        test = Call(Local(holds), (analyst.node(rest[0]), Local(value)), form.span)
        if keyword_of(rest[1]) == ">>":
            if len(rest) < 3:
                raise malformed(form, "(condp pred expr test :>> f)", "`:>>` has no function behind it")
            found = analyst.unit.slot()
            clauses.append((Keep(found, test), Call(analyst.node(rest[2]), (Local(found),), form.span)))
            del rest[:3]
        else:
            clauses.append((test, analyst.node(rest[1], tail=tail)))
            del rest[:2]
    otherwise = analyst.node(rest[0], tail=tail) if rest else NoMatch(form.span)
    first = (Keep(holds, analyst.node(predicate)), Keep(value, analyst.node(subject)))
    return Do((*first, Cond(tuple(clauses), otherwise)))


def _case(analyst: Analyst, form: Parens, tail: bool) -> Node:
    subject, *rest = _args(form, 2, None, "(case expr constant value … default)")
    table: dict[object, Node] = {}
    for test, value in zip(rest[::2], rest[1::2], strict=False):
        node = analyst.node(value, tail=tail)
        for one in test.items if isinstance(test, Parens) else (test,):
            key = wrapped(_constant(one))
            if key in table:
                raise Fault("invalid_form", "`case` has one constant twice", "leave one clause out", one.span)
            table[key] = node
    otherwise = analyst.node(rest[-1], tail=tail) if len(rest) % 2 else None
    return Case(analyst.node(subject), table, otherwise, form.span)


def _constant(form: Form) -> object:
    if isinstance(form, Literal):
        return form.value
    hint = "the constants are keywords, texts, numbers, booleans and nil; for others write `cond` with `=`"
    what = f"`{form.name}`" if isinstance(form, Symbol) else "this form"
    raise Fault("invalid_form", f"{what} is no constant of `case`", hint, form.span)


def _either(stops_at: bool) -> Special:
    def special(analyst: Analyst, form: Parens, tail: bool) -> Node:
        args = form.items[1:]
        parts = [analyst.node(arg) for arg in args[:-1]] + [analyst.node(arg, tail=tail) for arg in args[-1:]]
        return Either(tuple(parts), stops_at)

    return special


def _conditional(shape: str, *, on_nil: bool, has_else: bool) -> Special:
    """Return `if-let` and its like: a value is bound, and its truth, or that it is not nil, decides."""

    def special(analyst: Analyst, form: Parens, tail: bool) -> Node:
        pairs = _pairs(form, shape)
        body = form.items[2:]
        if len(pairs) != 1 or (has_else and not 1 <= len(body) <= 2):
            raise malformed(form, shape)
        (pattern, value), slot = pairs[0], analyst.unit.slot()
        test: Node = Keep(slot, analyst.node(value))
        otherwise = analyst.node(body[1], tail=tail) if has_else and len(body) == 2 else NOTHING
        with analyst.unit.scope():
            bound = bind(analyst, pattern, slot)
            then = analyst.node(body[0], tail=tail) if has_else else analyst.body(body, tail=tail)
            then = Do((*bound, then)) if bound else then
        return If(IsNil(test), otherwise, then) if on_nil else If(test, then, otherwise)

    return special


def _when_first(analyst: Analyst, form: Parens, tail: bool) -> Node:
    shape = "(when-first [x xs] body)"
    pairs = _pairs(form, shape)
    if len(pairs) != 1:
        raise malformed(form, shape)
    (pattern, value), items, first = pairs[0], analyst.unit.slot(), analyst.unit.slot()
    test = Keep(items, analyst.call("seq", analyst.node(value), span=form.span))
    with analyst.unit.scope():
        bound = bind(analyst, pattern, first)
        body = analyst.body(form.items[2:], tail=tail)
    take = Keep(first, analyst.call("first", Local(items), span=form.span))
    return If(test, Do((take, *bound, body)), NOTHING)


# -- names -------------------------------------------------------------------------------------------------------------


def _let(analyst: Analyst, form: Parens, tail: bool) -> Node:
    pairs = _pairs(form, "(let [name value …] body)")
    nodes: list[Node] = []
    with analyst.unit.scope():
        for pattern, value in pairs:
            slot = analyst.unit.slot()
            nodes.append(Keep(slot, analyst.node(value)))
            nodes += bind(analyst, pattern, slot)
        return Do((*nodes, analyst.body(form.items[2:], tail=tail)))


def _do(analyst: Analyst, form: Parens, tail: bool) -> Node:
    return analyst.body(form.items[1:], tail=tail)


def _fn(analyst: Analyst, form: Parens, tail: bool) -> Node:
    rest = form.items[1:]
    name = ""
    if rest and isinstance(rest[0], Symbol):
        name, rest = rest[0].name, rest[1:]
    return analyst.function(name, _arms(form, rest, "(fn [x] body)"), form.span)


def _arms(form: Parens, rest: tuple[Form, ...], shape: str) -> list[tuple[Brackets, tuple[Form, ...]]]:
    if rest and isinstance(rest[0], Brackets):
        return [(rest[0], rest[1:])]
    arms = []
    for arm in rest:
        if not isinstance(arm, Parens) or not arm.items or not isinstance(arm.items[0], Brackets):
            raise malformed(form, shape, "a function has its parameters in brackets")
        arms.append((arm.items[0], arm.items[1:]))
    if not arms:
        raise malformed(form, shape, "a function has its parameters in brackets")
    return arms


def _defined(form: Parens, shape: str) -> tuple[str, tuple[Form, ...]]:
    """Return the name that a form defines, and what stands behind it and behind a text about it."""
    args = _args(form, 1, None, shape)
    name = args[0]
    if not isinstance(name, Symbol) or name.namespace:
        raise malformed(form, shape, "what is defined has to be a name without `/`")
    rest = args[1:]
    if len(rest) > 1 and isinstance(rest[0], Literal) and isinstance(rest[0].value, str):
        rest = rest[1:]
    return name.name, rest


def _def(once: bool) -> Special:
    def special(analyst: Analyst, form: Parens, tail: bool) -> Node:
        shape = f"({'defonce' if once else 'def'} name value)"
        name, rest = _defined(form, shape)
        if len(rest) != 1:
            raise malformed(form, shape)
        return Def(name, analyst.node(rest[0]), once)

    return special


def _defn(analyst: Analyst, form: Parens, tail: bool) -> Node:
    shape = "(defn name [x] body)"
    name, rest = _defined(form, shape)
    return Def(name, analyst.function(name, _arms(form, rest, shape), form.span), False)


# -- loops -------------------------------------------------------------------------------------------------------------


def _loop(analyst: Analyst, form: Parens, tail: bool) -> Node:
    pairs = _pairs(form, "(loop [name value …] body)")
    unit = analyst.unit
    slots: list[int] = []
    first: list[Node] = []
    patterns: list[Form] = []
    with unit.scope():
        for pattern, value in pairs:
            slot = unit.slot()
            first.append(Keep(slot, analyst.node(value)))
            first += bind(analyst, pattern, slot)
            slots.append(slot)
            patterns.append(pattern)
        after = [node for pattern, slot in zip(patterns, slots, strict=True) for node in bind(analyst, pattern, slot)]
        with unit.target(len(slots)):
            body = analyst.body(form.items[2:], tail=True)
    return Loop(tuple(slots), Do(tuple(first)), together(after), body)


def _recur(analyst: Analyst, form: Parens, tail: bool) -> Node:
    args = form.items[1:]
    if not tail or not analyst.unit.targets:
        hint = "let it be the last thing that the loop or function does; else call the function by its name"
        raise Fault("invalid_form", "`recur` is not at the end of a loop or function", hint, form.span)
    count = analyst.unit.targets[-1]
    if len(args) != count:
        hint = f"give it {count} value{'' if count == 1 else 's'}, one for each name"
        raise Fault("arity_error", f"`recur` takes {count} values here, not {len(args)}", hint, form.span)
    return Recur(tuple(map(analyst.node, args)))


def _for(collects: bool) -> Special:
    def special(analyst: Analyst, form: Parens, tail: bool) -> Node:
        shape = f"({'for' if collects else 'doseq'} [x xs :when test] body)"
        pairs = _pairs(form, shape)
        if not pairs or keyword_of(pairs[0][0]):
            raise malformed(form, shape)
        if sum(not keyword_of(left) for left, _ in pairs) > MAX_BINDINGS:
            raise malformed(form, shape, f"the form has more than {MAX_BINDINGS} bindings")
        with analyst.unit.scope():
            levels = _levels(analyst, form, pairs)
            with analyst.unit.target(0):
                body = analyst.body(form.items[2:], tail=False)
        return For(levels, body, collects)

    return special


def _levels(analyst: Analyst, form: Parens, pairs: list[tuple[Form, Form]]) -> tuple[Level, ...]:
    levels: list[Level] = []
    modifiers: list[tuple[str, Node]] = []
    for left, right in pairs:
        word = keyword_of(left)
        if not word:
            source, slot = analyst.node(right), analyst.unit.slot()
            modifiers = []
            levels.append(Level(source, slot, together(bind(analyst, left, slot)), ()))
        elif word in ("when", "while"):
            modifiers.append((f":{word}", analyst.node(right)))
        elif word == "let" and isinstance(right, Brackets) and len(right.items) % 2 == 0:
            nodes: list[Node] = []
            for pattern, value in zip(right.items[::2], right.items[1::2], strict=True):
                slot = analyst.unit.slot()
                nodes.append(Keep(slot, analyst.node(value)))
                nodes += bind(analyst, pattern, slot)
            modifiers.append((":let", together(nodes)))
        else:
            hint = "the modifiers are `:when test`, `:while test` and `:let [name value]`"
            raise Fault("invalid_form", f"`:{word}` is no modifier here", hint, left.span)
        last = levels[-1]
        levels[-1] = Level(last.source, last.slot, last.pattern, tuple(modifiers))
    return tuple(levels)


def _comment(analyst: Analyst, form: Parens, tail: bool) -> Node:
    return NOTHING


def _quote(analyst: Analyst, form: Parens, tail: bool) -> Node:
    (quoted,) = _args(form, 1, 1, "(quote (1 2))")
    return analyst.node(Quoted(quoted, form.span))


SPECIAL: Final[dict[str, Special]] = {
    "if": _if,
    "if-not": _if_not,
    "when": _when,
    "when-not": _when_not,
    "cond": _cond,
    "condp": _condp,
    "case": _case,
    "and": _either(False),
    "or": _either(True),
    "if-let": _conditional("(if-let [x value] then else)", on_nil=False, has_else=True),
    "when-let": _conditional("(when-let [x value] body)", on_nil=False, has_else=False),
    "if-some": _conditional("(if-some [x value] then else)", on_nil=True, has_else=True),
    "when-some": _conditional("(when-some [x value] body)", on_nil=True, has_else=False),
    "when-first": _when_first,
    "let": _let,
    "do": _do,
    "fn": _fn,
    "def": _def(False),
    "defonce": _def(True),
    "defn": _defn,
    "defn-": _defn,
    "loop": _loop,
    "recur": _recur,
    "for": _for(True),
    "doseq": _for(False),
    "comment": _comment,
    "quote": _quote,
    **THREADING,
}
"""The special forms by name; each gives the node of a form that begins with its name."""
