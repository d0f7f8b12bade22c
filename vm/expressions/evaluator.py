"""Evaluates expressions in a state: typed and exact; an expression without a value raises an error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, assert_never

from stepward.vm.errors import EvaluationError, UndefinedReferenceError
from stepward.vm.expressions.operators import call, compare, kind, number_of, plus
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
from stepward.vm.values import FrozenMap, arithmetic, as_text

Lookup = Callable[[tuple[str, ...]], Any]
"""Returns the value of a reference, given its names; raises UndefinedReferenceError if it has none."""


def evaluate(tree: Expression, lookup: Lookup) -> Any:
    """Return the value of `tree`; raises EvaluationError if it has none.

    Evaluation goes from left to right and stops once the value is decided; parts that are not evaluated can't fail.
    """
    match tree:
        case Constant(value=value):
            return value
        case Reference(names=names):
            return lookup(names)
        case Defined(reference=reference):
            return _defined(reference, lookup)
        case FunctionCall(function=function, operand=operand, literal=literal):
            return call(function, evaluate(operand, lookup), literal)
        case Negation(operand=operand):
            return not _boolean("`not`", evaluate(operand, lookup))
        case Logic(operator=operator, operands=operands):
            decisive = operator == "or"
            return (
                decisive
                if any(_boolean(f"`{operator}`", evaluate(part, lookup)) is decisive for part in operands)
                else not decisive
            )
        case Compare(operator=comparison, left=left, right=right):
            return compare(comparison, evaluate(left, lookup), evaluate(right, lookup))
        case Arithmetic():
            return _calculated(tree, lookup)
        case Minus(operand=operand):
            return arithmetic("-", 0, number_of("-", evaluate(operand, lookup)))
        case Built(names=names, parts=parts, is_list=is_list, base=base):
            before = {} if base is None else as_object(base, evaluate(base, lookup))
            found = tuple(evaluate(part, lookup) for part in parts)
            return found if is_list else FrozenMap({**before, **dict(zip(names, found, strict=True))})
        case Template(parts=parts):
            return "".join(as_text(evaluate(part, lookup)) for part in parts)
        case _:
            assert_never(tree)


def as_object(base: Reference, value: Any) -> dict[str, Any]:
    """Return the value of a reference to a field of which something is assigned; raises EvaluationError if it has no
    fields."""
    if not isinstance(value, dict):
        raise EvaluationError(f"`{base.text()}` must be an object to get a field, not {kind(value)}")
    return value


def evaluate_condition(tree: Expression, lookup: Lookup) -> bool:
    """Return whether a condition holds; raises EvaluationError if it has no value or one that is not boolean."""
    return _boolean("a condition", evaluate(tree, lookup))


def _calculated(tree: Arithmetic, lookup: Lookup) -> Any:
    total = evaluate(tree.first, lookup)
    if tree.joins:
        for _, operand in tree.rest:
            total = plus(total, evaluate(operand, lookup))
        return total
    total = number_of(tree.rest[0][0], total)
    for sign, operand in tree.rest:
        total = arithmetic(sign, total, number_of(sign, evaluate(operand, lookup)))
    return total


def _defined(reference: Reference, lookup: Lookup) -> bool:
    try:
        lookup(reference.names)
    except UndefinedReferenceError:
        return False
    return True


def _boolean(whose: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise EvaluationError(f"{whose} needs true or false, not {kind(value)}")
    return value
