"""Expressions that have the same value because they are computed alike from the same values."""

from __future__ import annotations

from collections.abc import Callable

from stepward.validator.recheck.names import Names
from stepward.vm.expressions.syntax import Arithmetic, Constant, Expression, FunctionCall, Minus, Reference, children

AreSame = Callable[[Names, Names], bool]
"""Returns whether two references have the same value wherever both have one."""


def are_alike(left: Expression, right: Expression, are_same: AreSame) -> bool:
    """Return whether two expressions certainly have the same value, or each fails; false where that is not certain."""
    match left, right:
        case Reference(names=one), Reference(names=other):
            return one == other or are_same(one, other)
        case Constant(value=one), Constant(value=other):
            return type(one) is type(other) and bool(one == other)
        case FunctionCall(), FunctionCall():
            own = (left.function, left.literal) == (right.function, right.literal)
            return own and are_alike(left.operand, right.operand, are_same)
        case Arithmetic(), Arithmetic():
            own = left.joins == right.joins and [sign for sign, _ in left.rest] == [sign for sign, _ in right.rest]
            pairs = zip(children(left), children(right), strict=False)
            return own and all(are_alike(one, other, are_same) for one, other in pairs)
        case Minus(operand=one), Minus(operand=other):
            return are_alike(one, other, are_same)
    return False


def is_itself(left: Expression, right: Expression) -> bool:
    """Return whether two expressions read the same references in the same way."""
    return are_alike(left, right, lambda *_: False)
