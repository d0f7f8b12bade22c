"""The value of an expression in a state: total, typed, exact, and an error where there is no value."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

from stepward.vm.errors import EvaluationError, UndefinedReferenceError
from stepward.vm.expressions.syntax import (
    Arithmetic,
    Compare,
    Constant,
    Defined,
    Expression,
    Length,
    Logic,
    Minus,
    Negation,
    Reference,
)
from stepward.vm.values import arithmetic

Lookup = Callable[[tuple[str, ...]], Any]
"""Returns the value of a reference, given its names; raises UndefinedReferenceError where it has none."""


def evaluate(tree: Expression, lookup: Lookup) -> Any:
    """Return the value of `tree`; raises EvaluationError where it has none.

    Left to right, stopping when decided: what is not evaluated can't fail.
    """
    match tree:
        case Constant(value=value):
            return value
        case Reference(names=names):
            return lookup(names)
        case Defined(reference=reference):
            return _defined(reference, lookup)
        case Length(operand=operand):
            return _length(evaluate(operand, lookup))
        case Negation(operand=operand):
            return not _boolean("not", evaluate(operand, lookup))
        case Logic(operator=operator, operands=operands):
            decisive = operator == "or"
            return (
                decisive
                if any(_boolean(operator, evaluate(part, lookup)) is decisive for part in operands)
                else not decisive
            )
        case Compare(operator=comparison, left=left, right=right):
            return compare(comparison, evaluate(left, lookup), evaluate(right, lookup))
        case Arithmetic(first=first, rest=rest):
            total = _number(rest[0][0], evaluate(first, lookup))
            for sign, operand in rest:
                total = arithmetic(sign, total, _number(sign, evaluate(operand, lookup)))
            return total
        case Minus(operand=operand):
            return arithmetic("-", 0, _number("-", evaluate(operand, lookup)))


def evaluate_condition(tree: Expression, lookup: Lookup) -> bool:
    """Return whether a condition holds; raises EvaluationError where it has no value or one that is not boolean."""
    return _boolean("a condition", evaluate(tree, lookup))


def kind(value: Any) -> str:
    """Return the type word of a value: `integer` and `number` are one here."""
    if isinstance(value, str):
        return "string"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | Decimal):
        return "number"
    if value is None:
        return "null"
    return "object" if isinstance(value, dict) else "array"


def compare(operator: str, left: Any, right: Any) -> bool:
    """Return whether a comparison holds between two values; raises EvaluationError where it does not apply to them."""
    if operator == "==":
        return _equal(left, right)
    if operator == "!=":
        return not _equal(left, right)
    if operator in ("in", "not in"):
        return _member(left, right, operator) is (operator == "in")
    if operator in ("contains", "not contains"):
        return _contains(left, right, operator) is (operator == "contains")
    if operator in ("starts_with", "ends_with"):
        if kind(left) != "string" or kind(right) != "string":
            raise EvaluationError(f"`{operator}` needs two texts, not {kind(left)} and {kind(right)}")
        return bool(left.startswith(right) if operator == "starts_with" else left.endswith(right))
    return _ordered(operator, left, right)


def _equal(left: Any, right: Any) -> bool:
    left_kind, right_kind = kind(left), kind(right)
    if left_kind == "null" or right_kind == "null":
        return left_kind == right_kind
    if left_kind != right_kind:
        raise EvaluationError(f"{left_kind} and {right_kind} can't be compared")
    if left_kind in ("array", "object"):
        raise EvaluationError(f"two values of type {left_kind} can't be compared")
    return bool(left == right)


def _ordered(operator: str, left: Any, right: Any) -> bool:
    a, b = _number(operator, left), _number(operator, right)
    if operator == "<":
        return a < b
    if operator == "<=":
        return a <= b
    return a > b if operator == ">" else a >= b


def _member(item: Any, array: Any, operator: str) -> bool:
    if kind(array) != "array":
        raise EvaluationError(f"`{operator}` needs an array here, not {kind(array)}")
    return any(_equal(item, other) for other in array)


def _contains(holder: Any, item: Any, operator: str) -> bool:
    if kind(holder) == "array":
        return _member(item, holder, operator)
    if kind(holder) != "string" or kind(item) != "string":
        raise EvaluationError(f"`{operator}` needs a text in a text, or an array, not {kind(item)} in {kind(holder)}")
    return item in holder


def _defined(reference: Reference, lookup: Lookup) -> bool:
    try:
        lookup(reference.names)
    except UndefinedReferenceError:
        return False
    return True


def _length(value: Any) -> int:
    if kind(value) not in ("string", "array"):
        raise EvaluationError(f"`len` needs a text or an array, not {kind(value)}")
    return len(value)


def _boolean(operator: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise EvaluationError(f"{_quoted(operator)} needs true or false, not {kind(value)}")
    return value


def _number(operator: str, value: Any) -> int | Decimal:
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise EvaluationError(f"{_quoted(operator)} needs a number, not {kind(value)}")
    return value


def _quoted(operator: str) -> str:
    return operator if operator.startswith("a ") else f"`{operator}`"
