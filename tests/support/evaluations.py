"""Expressions that are evaluated in one state, and the shapes of their trees."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from stepward.vm.errors import UndefinedReferenceError
from stepward.vm.expressions.evaluator import evaluate
from stepward.vm.expressions.parser import parse
from stepward.vm.expressions.syntax import (
    Arithmetic,
    Built,
    Compare,
    Constant,
    Defined,
    Expression,
    FunctionCall,
    Logic,
    Minus,
    Negation,
    Reference,
    Template,
)


def lookup_in(state: Mapping[str, Any]) -> Callable[[tuple[str, ...]], Any]:
    """Return what gives the value of a reference in a state."""
    return lambda names: look_up(state, names)


def look_up(state: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    found: Any = state
    for name in names:
        is_item = name.startswith("[") and isinstance(found, tuple)
        known = dict(enumerate(found)) if is_item else found if isinstance(found, dict) else {}
        key: Any = int(name[1:-1]) if is_item else name
        if key not in known:
            raise UndefinedReferenceError(".".join(names))
        found = known[key]
    return found


def result(text: str, /, **state: Any) -> Any:
    return evaluate(parse(text), lookup_in(state))


def shape(tree: Expression) -> Any:
    """Write a tree without places, in Lisp's way."""
    match tree:
        case Constant(value=value):
            return value
        case Reference():
            return tree.text()
        case Defined(reference=reference):
            return ("defined", reference.text())
        case FunctionCall(function=function, operand=operand):
            return (function, shape(operand))
        case Negation(operand=operand):
            return ("not", shape(operand))
        case Minus(operand=operand):
            return ("-", shape(operand))
        case Logic(operator=operator, operands=operands):
            return (operator, *map(shape, operands))
        case Compare(operator=operator, left=left, right=right):
            return (operator, shape(left), shape(right))
        case Arithmetic(first=first, rest=rest):
            return (shape(first), *((sign, shape(operand)) for sign, operand in rest))
        case Built(names=names, parts=parts, is_list=is_list, base=base):
            inner = tuple(map(shape, parts))
            word = "object" if base is None else base.text()
            return ("list", *inner) if is_list else (word, *zip(names, inner, strict=True))
        case Template(parts=parts):
            return ("text", *map(shape, parts))
