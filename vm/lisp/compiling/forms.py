"""Small questions about forms, and forms that are made while others are compiled."""

from __future__ import annotations

from typing import TypeGuard

from stepward.vm.lisp.compiling.texts import parts
from stepward.vm.lisp.faults import Fault
from stepward.vm.lisp.forms import Braces, Brackets, Form, Literal, Parens, Symbol
from stepward.vm.lisp.values import Keyword
from stepward.vm.reading.source import Span


def head_of(form: Form) -> str:
    """Return the name of the symbol with which a form in parentheses begins, empty for any other form."""
    head = form.items[0] if isinstance(form, Parens) and form.items else None
    return head.name if isinstance(head, Symbol) else ""


def is_definition(form: Form) -> TypeGuard[Parens]:
    """Return whether a form gives a name a value for the rest of the program."""
    return head_of(form) in ("def", "defonce", "defn", "defn-")


def key_of(form: Form) -> str | None:
    """Return the name that a literal key has as data, None for any other form."""
    value = form.value if isinstance(form, Literal) else None
    return value.name if isinstance(value, Keyword) else str(value) if isinstance(value, str) else None


def has_names(items: tuple[Form, ...]) -> bool:
    """Return whether the keys of a map are names, each another one."""
    keys = [key_of(one) for one in items[::2]]
    return None not in keys and len(set(keys)) == len(keys)


def is_constant(form: Form) -> bool:
    """Return whether a form is a collection of literals, which is the same wherever it is evaluated."""
    if isinstance(form, Literal):
        return True
    is_sure = isinstance(form, Brackets) or (isinstance(form, Braces) and has_names(form.items))
    return is_sure and all(map(is_constant, parts(form)))


def nil(span: Span) -> Literal:
    """Return the form `nil`, in place of one that is not there."""
    return Literal(None, span)


def symbol(name: str, form: Form) -> Symbol:
    """Return a name in place of a form."""
    return Symbol(name, form.span)


def call(name: str, *args: Form, of: Form) -> Parens:
    """Return a call in place of a form."""
    return Parens((symbol(name, of), *args), of.span)


def args_of(form: Parens, rest: tuple[Form, ...]) -> list[tuple[Form, Form]]:
    """Return the names and values of the arguments of a call of a tool."""
    items = rest[0].items if len(rest) == 1 and isinstance(rest[0], Braces) else rest
    if len(items) % 2 or (len(rest) == 1 and not isinstance(rest[0], Braces)):
        hint = "write the map out, so that each argument has its name: `(tool/name {:id id})`"
        raise Fault("refused", "the arguments of a tool are not written out", hint, form.span)
    return list(zip(items[::2], items[1::2], strict=True))
