"""The forms of a program, without a name that it gives itself."""

from __future__ import annotations

from stepward.vm.lisp.forms import Form, Literal, Parens, Symbol
from stepward.vm.lisp.reader import read


def program_forms(text: str) -> tuple[Form, ...]:
    """Return the forms of a program; raises a Fault with a span where it can't be read.

    A first form `(ns name)`, with or without a text that says what the program is for, names it and does nothing else,
    so it is left out. With anything more in it, `ns` asks for what this language lacks, and stays to be refused.
    """
    forms = read(text)
    return forms[1:] if forms and _only_names(forms[0]) else forms


def _only_names(form: Form) -> bool:
    match form:
        case Parens(items=(Symbol(name="ns"), Symbol())):
            return True
        case Parens(items=(Symbol(name="ns"), Symbol(), Literal(value=str()))):
            return True
        case _:
            return False
