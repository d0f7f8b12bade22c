"""The types of expressions, as far as their forms say them; the machine checks each value against its type."""

from __future__ import annotations

from typing import Any, Final

from stepward.vm.lisp.compiling.forms import has_names, key_of
from stepward.vm.lisp.compiling.texts import names_in
from stepward.vm.lisp.compiling.values import ANY, BOOLEAN, NUMBER, Env, Inline, Pure, Reference, Type
from stepward.vm.lisp.forms import Braces, Brackets, Form, Literal, Members, Parens, Short, Symbol
from stepward.vm.lisp.functions.table import rows
from stepward.vm.lisp.threading import into
from stepward.vm.lisp.values import is_number

_TEXT: Final[Type] = {"type": "string"}
_COUNT: Final[Type] = {"type": "integer", "minimum": 0}
_ARRAY: Final[Type] = {"type": "array"}

_BY_TYPE: Final = (
    (NUMBER, "+ - * / inc dec sum-by quot rem mod abs sqrt pow floor ceil round"),
    (_COUNT, "count"),
    (_TEXT, "str join upper-case lower-case pr-str name trim"),
    (_ARRAY, "map mapv filter filterv remove sort sort-by vec range concat reverse distinct take drop mapcat"),
    (BOOLEAN, "= not= == < > <= >= not boolean"),
)
_OF: Final = {name: type for type, names in _BY_TYPE for name in names.split()}

_SHRINKING: Final = frozenset(
    {"map", "mapv", "filter", "filterv", "remove", "sort", "sort-by", "vec", "reverse", "distinct", "drop"}
)
"""Functions that give a list with at most as many items as the list that is their last argument."""

_LAST: Final = frozenset({"do", "let"})
_THREADS: Final = frozenset({"->", "->>"})


def type_of(form: Form, env: Env) -> Type:
    """Return the type of a form's value as data; ANY where the form does not say it."""
    match form:
        case Literal(value=value):
            return type_of_constant(value)
        case Symbol(name=name):
            found = env.get(name)
            if isinstance(found, Reference):
                return ANY if found.type is None else found.type
            return type_of(found.form, found.env) if isinstance(found, Inline | Pure) else ANY
        case Brackets(items=items) | Members(items=items):
            return {**_ARRAY, "maxItems": len(items)}
        case Braces(items=items):
            return _object(items, env)
        case Parens(items=(Symbol() as head, *rest)) if head.name not in env:
            return _of_call(head.short, rest, env)
        case Short() | _:
            return ANY


def type_of_constant(value: Any) -> Type:
    """Return the type of a literal's value as data."""
    if value is None:
        return {"type": "null"}
    if isinstance(value, bool):
        return BOOLEAN
    if is_number(value):
        return {"type": "integer"} if value == int(value) else NUMBER
    return _TEXT


def _of_call(name: str, rest: list[Form], env: Env) -> Type:
    if name in _LAST and rest:
        return type_of(rest[-1], {**env, **_hidden(rest[0])} if name == "let" else env)
    if name in _THREADS and len(rest) > 1:
        inner: Form = rest[0]
        for step in rest[1:]:
            inner = into(step, inner, last=name == "->>")
        return type_of(inner, env)
    if name == "take" and len(rest) == 2 and isinstance(rest[0], Literal) and isinstance(rest[0].value, int):
        return {**_ARRAY, "maxItems": max(rest[0].value, 0)}
    if name in _SHRINKING and rest:
        most = type_of(rest[-1], env).get("maxItems")
        return _ARRAY if most is None else {**_ARRAY, "maxItems": most}
    if name in ("reduce", "apply") and isinstance(rest[0] if rest else None, Symbol):
        return NUMBER if _is_sum(name, rest, env) else ANY
    if name == "if" and len(rest) == 3:
        then, otherwise = type_of(rest[1], env), type_of(rest[2], env)
        return then if then == otherwise else ANY
    if name.endswith("?") and name in rows():
        return BOOLEAN
    return _OF.get(name, ANY)


def _is_sum(name: str, rest: list[Form], env: Env) -> bool:
    """Return whether a function is folded over a collection that only gives numbers, or fails."""
    function = rest[0]
    is_known = isinstance(function, Symbol) and function.name in ("+", "*") and function.name not in env
    starts = type_of(rest[1], env) if name == "reduce" and len(rest) == 3 else NUMBER
    return is_known and starts.get("type") in ("number", "integer") and (name == "apply" or len(rest) == 3)


def _hidden(bindings: Form) -> Env:
    """Return the names that a `let` binds: they hide others, and what they stand for is not followed."""
    return {name: Reference("", "", ANY) for name in names_in(bindings)}


def _object(items: tuple[Form, ...], env: Env) -> Type:
    if not has_names(items) or not items:
        return {"type": "object"}
    parts = {str(key_of(key)): type_of(value, env) for key, value in zip(items[::2], items[1::2], strict=True)}
    return {"type": "object", "properties": parts, "required": list(parts)}
