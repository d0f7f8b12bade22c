"""Forms as expressions of the language, where both mean the same."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Final

from stepward.vm.lisp.compiling.values import BOOLEAN, Env, Inline, Reference
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
            if isinstance(found, Inline):
                return number(found.form, {}) if isinstance(found.form, Literal) else None
            return found.text if isinstance(found, Reference) and found.is_number else None
        case Parens(items=(Symbol(name=sign), first, second, *rest)) if sign in _ARITHMETIC and sign not in scope:
            found_all = [number(one, scope) for one in (first, second, *rest)]
            return None if None in found_all else f"({f' {sign} '.join(one for one in found_all if one)})"
        case _:
            return None


def truth(form: Form, scope: Env) -> str | None:
    """Return a form as an expression of a boolean: comparisons of numbers, known booleans, and what joins them."""
    match form:
        case Literal(value=bool(value)):
            return "true" if value else "false"
        case Symbol(name=name):
            found = scope.get(name)
            return found.text if isinstance(found, Reference) and found.type == BOOLEAN else None
        case Parens(items=(Symbol(name="not"), one)) if "not" not in scope:
            text = truth(one, scope)
            return None if text is None else f"(not {text})"
        case Parens(items=(Symbol(name=("and" | "or") as sign), *parts)) if parts and sign not in scope:
            return _joined([truth(one, scope) for one in parts], sign)
        case Parens(items=(Symbol(name=sign), *args)) if sign in ORDER | EQUAL.keys() and sign not in scope:
            return _compared([_operand(one, sign, scope) for one in args], sign)
        case _:
            return None


def _operand(form: Form, sign: str, scope: Env) -> str | None:
    """Return an operand as an expression: where an order is asked for, what comes from outside has to be a number."""
    found = scope.get(form.name) if sign in ORDER and isinstance(form, Symbol) else None
    is_outside = isinstance(found, Reference) and found.type is None
    return found.text if isinstance(found, Reference) and is_outside else number(form, scope)


def _compared(numbers: list[str | None], sign: str) -> str | None:
    if len(numbers) < 2 or None in numbers:
        return None
    if sign == "not=":
        return f"(not {_compared(numbers, '=')})"
    return _joined([f"{left} {EQUAL.get(sign, sign)} {right}" for left, right in pairwise(numbers)], "and")


def _joined(texts: list[str | None], sign: str) -> str | None:
    return None if None in texts else f"({f' {sign} '.join(one for one in texts if one)})"


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
