"""Forms become nodes: names are resolved, special forms taken apart, and what the language does not have is refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from stepward.vm.lisp.binding import bind, together
from stepward.vm.lisp.calls import Arm, Call, Fn
from stepward.vm.lisp.faults import Fault
from stepward.vm.lisp.forms import (
    Braces,
    Brackets,
    Form,
    Literal,
    Members,
    Parens,
    Pattern,
    Quoted,
    Short,
    Symbol,
)
from stepward.vm.lisp.names import instead_of, table_name
from stepward.vm.lisp.nodes import (
    NOTHING,
    Constant,
    Datum,
    Do,
    Global,
    Local,
    MapOf,
    Node,
    SetOf,
    VectorOf,
)
from stepward.vm.lisp.scopes import Unit
from stepward.vm.lisp.values import Keyword
from stepward.vm.reading.source import Span

Special = Callable[["Analyst", Parens, bool], Node]
"""Gives the node of a special form; the last argument says that its value is that of the function around it."""

UNSHADOWED = frozenset({"if", "do", "def", "recur", "quote"})
"""The special forms that no local name can hide."""


class Analyst:
    """Turns the forms of one program into nodes.

    `functions` and `special` forms are those of the language, `definitions` the names that `def` gives a value
    somewhere. `data_read` are the names of the data that were read so far.
    """

    def __init__(
        self, functions: Mapping[str, Any], special: Mapping[str, Special], definitions: frozenset[str]
    ) -> None:
        self.functions = functions
        self.special = special
        self.definitions = definitions
        self.unit = Unit(None)
        self.data_read: set[str] = set()
        self._hidden = 0

    def hidden(self, slot: int) -> str:
        """Give a slot a name that no program can write, and return it."""
        self._hidden += 1
        name = f"value {self._hidden}"
        self.unit.name(name, slot)
        return name

    def program(self, forms: tuple[Form, ...]) -> Arm:
        """Return the whole program, as a function without arguments."""
        body = self.body(forms, tail=False)
        return Arm((), None, NOTHING, body, self.unit.size, (), None)

    def node(self, form: Form, *, tail: bool = False) -> Node:
        """Return the node of a form; `tail` says that its value is that of the loop or function around it."""
        match form:
            case Literal(value=value):
                return Constant(value)
            case Symbol():
                return self._name(form)
            case Parens():
                return self._parens(form, tail)
            case Brackets(items=items):
                return VectorOf(tuple(map(self.node, items)))
            case Braces(items=items, span=span):
                return MapOf(tuple(map(self.node, items)), span)
            case Members(items=items, span=span):
                return SetOf(tuple(map(self.node, items)), span)
            case Short():
                return self._short(form)
            case Pattern(source=source, span=span):
                return Call(self._function("re-pattern"), (Constant(source),), span)
            case Quoted(form=quoted, span=span):
                return self._quoted(quoted, span)

    def body(self, forms: tuple[Form, ...], *, tail: bool) -> Node:
        """Return the node of several forms, of which the last gives the value."""
        if not forms:
            return NOTHING
        parts = [self.node(form) for form in forms[:-1]] + [self.node(forms[-1], tail=tail)]
        return parts[0] if len(parts) == 1 else Do(tuple(parts))

    def call(self, name: str, *args: Node, span: Span) -> Node:
        """Return a call of a function of the language."""
        return Call(self._function(name), args, span)

    def _function(self, name: str) -> Node:
        return Constant(self.functions[name])

    # -- names ---------------------------------------------------------------------------------------------------------

    def _name(self, symbol: Symbol) -> Node:
        slot = self.unit.find(symbol.name)
        if slot is not None:
            return Local(slot)
        if symbol.name in self.definitions:
            return Global(symbol.name, symbol.span)
        if symbol.namespace == "data":
            self.data_read.add(symbol.short)
            return Datum(symbol.short, symbol.span)
        name = table_name(symbol)
        if name in self.functions:
            return self._function(name)
        if name in self.special:
            hint = f"call it: `({name} …)`; to hand it on, write a function: `#({name} %1 %2)`"
            raise Fault("invalid_form", f"`{name}` is a form and no value", hint, symbol.span)
        raise self._unknown(symbol)

    def _unknown(self, symbol: Symbol) -> Fault:
        refusal = instead_of(symbol)
        if refusal is not None:
            what, instead = refusal
            return Fault("refused", f"{what} is not in this language", instead, symbol.span, name=symbol.name)
        from stepward.vm.language.similar import alike

        near = alike(symbol.short, [*self.functions, *self.special, *self.definitions], 2, 0.75)
        hint = (
            f"did you mean {' or '.join(f'`{name}`' for name in near)}?" if near else "define it, or bind it with `let`"
        )
        return Fault("unbound_var", f"`{symbol.name}` has no value", hint, symbol.span, name=symbol.name)

    # -- calls ---------------------------------------------------------------------------------------------------------

    def _parens(self, form: Parens, tail: bool) -> Node:
        if not form.items:
            return self.call("list", span=form.span)
        head = form.items[0]
        if isinstance(head, Symbol):
            name = head.short if head.namespace in ("clojure.core", "core") else head.name
            is_hidden = name not in UNSHADOWED and self.unit.find(head.name) is not None
            if name in self.special and not is_hidden and name not in self.definitions:
                return self.special[name](self, form, tail)
        return Call(self.node(head), tuple(map(self.node, form.items[1:])), form.span)

    def _quoted(self, form: Form, span: Span) -> Node:
        """Return the node of quoted data: what it holds is not evaluated, so that a symbol would be a value."""
        match form:
            case Symbol(name=name):
                hint = f'write the keyword `:{name}`, or the text `"{name}"`'
                raise Fault("refused", f"the symbol `'{name}` is no value in this language", hint, span, name=name)
            case Parens(items=items):
                return self.call("list", *(self._quoted(item, span) for item in items), span=span)
            case Brackets(items=items):
                return VectorOf(tuple(self._quoted(item, span) for item in items))
            case Braces(items=items):
                return MapOf(tuple(self._quoted(item, span) for item in items), span)
            case Members(items=items):
                return SetOf(tuple(self._quoted(item, span) for item in items), span)
            case Short() | Quoted():
                raise Fault("refused", "quoted code is not in this language", "write a function", span)
            case _:
                return self.node(form)

    # -- functions -----------------------------------------------------------------------------------------------------

    def function(self, name: str, arms: list[tuple[Brackets, tuple[Form, ...]]], span: Span) -> Fn:
        """Return a function of several arms, each with its parameters and its body."""
        arms_made = tuple(self._arm(name, params, body) for params, body in arms)
        counts = [len(arm.params) for arm in arms_made if arm.rest is None]
        if len(set(counts)) != len(counts):
            raise Fault("invalid_form", "two arms take the same number of arguments", "leave one out", span)
        return Fn(name, arms_made)

    def _arm(self, name: str, params: Brackets, body: tuple[Form, ...]) -> Arm:
        unit = self.unit = Unit(self.unit)
        try:
            itself = unit.slot() if name else None
            if itself is not None:
                unit.name(name, itself)
            forms, rest = _split(params)
            slots = tuple(unit.slot() for _ in forms)
            prologue = [node for form, slot in zip(forms, slots, strict=True) for node in bind(self, form, slot)]
            rest_slot = None
            if rest is not None:
                rest_slot = unit.slot()
                prologue += bind(self, rest, rest_slot)
            _without_conditions(body)
            with unit.target(len(forms) + (rest is not None)):
                node = self.body(body, tail=True)
            return Arm(slots, rest_slot, together(prologue), node, unit.size, unit.captures, itself)
        finally:
            assert unit.around is not None, "a function stands in the program"
            self.unit = unit.around

    def _short(self, form: Short) -> Node:
        most, has_rest = _placeholders(form)
        unit = self.unit = Unit(self.unit)
        try:
            slots = tuple(unit.slot() for _ in range(most))
            for number, slot in enumerate(slots, 1):
                unit.name(f"%{number}", slot)
            if slots:
                unit.name("%", slots[0])
            rest = unit.slot() if has_rest else None
            if rest is not None:
                unit.name("%&", rest)
            with unit.target(most + has_rest):
                node = self.node(Parens(form.items, form.span), tail=True)
            arm = Arm(slots, rest, NOTHING, node, unit.size, unit.captures, None)
            return Fn("", (arm,))
        finally:
            assert unit.around is not None, "a function stands in the program"
            self.unit = unit.around


def _split(params: Brackets) -> tuple[list[Form], Form | None]:
    """Return the patterns of the parameters, and that of further arguments."""
    forms = list(params.items)
    for index, form in enumerate(forms):
        if isinstance(form, Symbol) and form.name == "&":
            if index != len(forms) - 2:
                raise Fault("invalid_form", "`&` needs one pattern behind it", "write `[a b & more]`", form.span)
            return forms[:index], forms[-1]
    return forms, None


def _without_conditions(body: tuple[Form, ...]) -> None:
    """Refuse `:pre` and `:post`, which would silently be no conditions."""
    if (
        len(body) > 1
        and isinstance(body[0], Braces)
        and any(keyword_of(key) in ("pre", "post") for key in body[0].items)
    ):
        hint = 'write `(when-not test (fail "why"))` in the body'
        raise Fault(
            "refused", "conditions of a function (`:pre`, `:post`) are not in this language", hint, body[0].span
        )


def _placeholders(form: Short) -> tuple[int, bool]:
    """Return the number of arguments of `#()`, and whether it takes further ones."""
    most, has_rest = 0, False
    waiting: list[Form] = list(form.items)
    while waiting:
        one = waiting.pop()
        if isinstance(one, Short):
            raise Fault(
                "refused", "`#()` within `#()` is not in this language", "write the inner one as `(fn [x] …)`", one.span
            )
        if isinstance(one, Quoted):
            waiting.append(one.form)
        elif isinstance(one, Symbol) and one.name.startswith("%"):
            if one.name == "%&":
                has_rest = True
                continue
            digits = one.name[1:] or "1"
            if not digits.isascii() or not digits.isdigit() or not 1 <= int(digits[:4]) <= 20:
                raise Fault(
                    "invalid_form", f"`{one.name}` is no argument", "write `%`, `%1` to `%20` or `%&`", one.span
                )
            most = max(most, int(digits))
        elif isinstance(one, Parens | Brackets | Braces | Members):
            waiting.extend(one.items)
    return most, has_rest


def definitions(forms: tuple[Form, ...]) -> frozenset[str]:
    """Return the names that `def`, `defonce` and `defn` give a value anywhere in a program."""
    found = set()
    waiting: list[Form] = list(forms)
    while waiting:
        form = waiting.pop()
        if isinstance(form, Parens | Brackets | Braces | Members | Short):
            items = form.items
            if (
                len(items) > 1
                and isinstance(items[0], Symbol)
                and items[0].short in ("def", "defonce", "defn", "defn-")
                and isinstance(items[1], Symbol)
            ):
                found.add(items[1].name)
            waiting.extend(items)
        elif isinstance(form, Quoted):
            waiting.append(form.form)
    return frozenset(found)


def keyword_of(form: Form) -> str:
    """Return the name of a keyword, empty for any other form."""
    return form.value.name if isinstance(form, Literal) and isinstance(form.value, Keyword) else ""
