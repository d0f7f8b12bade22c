"""Patterns: `[a & more]` and `{:keys [a] :or {a 1}}` become nodes that take a value apart."""

from __future__ import annotations

from stepward.vm.lisp.faults import Fault
from stepward.vm.lisp.forms import Braces, Brackets, Form, Literal, Symbol
from stepward.vm.lisp.nodes import (
    NOTHING,
    Associative,
    Do,
    HasKey,
    If,
    Keep,
    KeyOf,
    Leaf,
    Node,
    NthOf,
    RestOf,
    Sequential,
)
from stepward.vm.lisp.scopes import Analysing
from stepward.vm.lisp.values import Keyword

_NAMES = "a pattern has names: `x`, `[a b & more]`, `{:keys [a b]}`, `{name :key}`"


def together(nodes: list[Node]) -> Node:
    """Return one node that evaluates all; a leaf if there is nothing to do."""
    return Do(tuple(nodes)) if nodes else NOTHING


def bind(analyst: Analysing, pattern: Form, slot: int) -> list[Node]:
    """Name what a pattern takes from the value in a slot; return what has to be evaluated for it.

    Raises a Fault for what is no pattern.
    """
    match pattern:
        case Symbol():
            if pattern.namespace:
                raise Fault("invalid_form", f"`{pattern.name}` can't be bound", "bind a name without `/`", pattern.span)
            analyst.unit.name(pattern.name, slot)
            return []
        case Brackets():
            return _bind_vector(analyst, pattern, slot)
        case Braces():
            return _bind_map(analyst, pattern, slot)
        case _:
            raise Fault("invalid_form", "this is no name and no pattern", _NAMES, pattern.span)


def _bind_vector(analyst: Analysing, pattern: Brackets, slot: int) -> list[Node]:
    unit, items = analyst.unit, list(pattern.items)
    source = unit.slot()
    rest: Form | None = None
    if _is_key(items[-2:-1], "as"):
        nodes = bind(analyst, items.pop(), slot)
        items.pop()
    else:
        nodes = []
    if len(items) >= 2 and isinstance(items[-2], Symbol) and items[-2].name == "&":
        rest = items[-1]
        del items[-2:]
    nodes.append(Keep(source, Sequential(slot, pattern.span)))
    for index, item in enumerate(items):
        if isinstance(item, Symbol) and item.name == "&":
            raise Fault("invalid_form", "`&` needs one pattern behind it", "write `[a b & more]`", item.span)
        nodes += _part(analyst, item, NthOf(source, index))
    if rest is not None:
        nodes += _part(analyst, rest, RestOf(source, len(items)))
    return nodes


def _part(analyst: Analysing, pattern: Form, node: Node) -> list[Node]:
    slot = analyst.unit.slot()
    return [Keep(slot, node), *bind(analyst, pattern, slot)]


def _is_key(forms: list[Form], name: str) -> bool:
    return bool(forms) and isinstance(forms[0], Literal) and forms[0].value == Keyword(name)


def _bind_map(analyst: Analysing, pattern: Braces, slot: int) -> list[Node]:
    source = analyst.unit.slot()
    nodes: list[Node] = [Keep(source, Associative(slot))]
    pairs = list(zip(pattern.items[::2], pattern.items[1::2], strict=True))
    defaults = _defaults(pairs)
    for left, right in pairs:
        word = left.value.name if isinstance(left, Literal) and isinstance(left.value, Keyword) else ""
        if word == "or":
            continue
        if word == "as":
            nodes += bind(analyst, right, source)
        elif word in ("keys", "strs"):
            if not isinstance(right, Brackets):
                raise Fault(
                    "invalid_form", f"`:{word}` needs names in brackets", f"write `{{:{word} [a b]}}`", right.span
                )
            for item in right.items:
                name = _key_name(item)
                key = Keyword(name) if word == "keys" else name
                nodes += _key_part(analyst, Symbol(name.rpartition("/")[2], item.span), source, key, defaults)
        elif word:
            raise Fault("invalid_form", f"`:{word}` is no part of a pattern", _NAMES, left.span)
        elif isinstance(right, Literal):
            nodes += _key_part(analyst, left, source, right.value, defaults)
        else:
            raise Fault("invalid_form", "the key of a pattern is a keyword, a text or a number", _NAMES, right.span)
    return nodes


def _key_name(form: Form) -> str:
    if isinstance(form, Symbol):
        return form.name
    if isinstance(form, Literal) and isinstance(form.value, Keyword):
        return form.value.name
    raise Fault("invalid_form", "this is no name", _NAMES, form.span)


def _defaults(pairs: list[tuple[Form, Form]]) -> dict[str, Form]:
    for left, right in pairs:
        if _is_key([left], "or"):
            if not isinstance(right, Braces):
                raise Fault("invalid_form", "`:or` needs a map", "write `:or {a 1}`", right.span)
            names = zip(right.items[::2], right.items[1::2], strict=True)
            return {name.name: value for name, value in names if isinstance(name, Symbol)}
    return {}


def _key_part(analyst: Analysing, pattern: Form, source: int, key: object, defaults: dict[str, Form]) -> list[Node]:
    value: Leaf = KeyOf(source, key)
    default = defaults.get(pattern.name) if isinstance(pattern, Symbol) else None
    if default is None:
        return _part(analyst, pattern, value)
    return _part(analyst, pattern, If(HasKey(source, key), value, analyst.node(default)))
