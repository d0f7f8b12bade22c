"""Forms as expressions of the language, where both mean the same."""

from __future__ import annotations

from typing import Any, Final

from stepward.vm.lisp.compiling.values import Env, Reference
from stepward.vm.lisp.forms import Form, Literal, Parens, Symbol
from stepward.vm.lisp.values import is_number
from stepward.vm.values import as_text

ORDER: Final = frozenset({"<", "<=", ">", ">="})
"""Comparisons that take numbers alone in both languages."""

EQUAL: Final = {"=": "==", "==": "==", "not=": "!="}
"""Equality, and its sign in the language."""

_ARITHMETIC: Final = frozenset({"+", "-", "*"})


def number(form: Form, scope: Env) -> str | None:
    """Return a form as an expression of numbers, None where it is no constant, no known number, and no sum of them."""
    match form:
        case Literal(value=value) if is_number(value):
            return as_text(value) if value >= 0 else f"({as_text(value)})"
        case Symbol(name=name):
            found = scope.get(name)
            return found.text if isinstance(found, Reference) and found.is_number else None
        case Parens(items=(Symbol(name=sign), first, second, *rest)) if sign in _ARITHMETIC and sign not in scope:
            found_all = [number(one, scope) for one in (first, second, *rest)]
            return None if None in found_all else f"({f' {sign} '.join(one for one in found_all if one)})"
        case _:
            return None


def constant(value: Any) -> str | None:
    """Return a literal's value as an expression; None for a keyword, which no data of the language equals."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if is_number(value):
        return as_text(value)
    return quoted(str(value)) if isinstance(value, str) else None


def quoted(text: str) -> str:
    """Return a text as a constant of the language."""
    written = text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n").replace("\r", "\\r")
    return "'" + written.replace("\t", "\\t") + "'"
