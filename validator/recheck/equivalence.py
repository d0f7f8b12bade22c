"""Equivalent expressions: they compute the same function of the same values."""

from __future__ import annotations

from collections.abc import Callable

from stepward.validator.recheck.names import Names
from stepward.vm.expressions.syntax import (
    Arithmetic,
    Constant,
    Expression,
    FunctionCall,
    Minus,
    Reference,
    Template,
    children,
)

AreSame = Callable[[Names, Names], bool]
"""Returns whether two references have the same value wherever both have one."""


def are_equivalent(left: Expression, right: Expression, are_same: AreSame) -> bool:
    """Return whether two expressions certainly have the same value, or each fails; false where that is not certain."""
    match left, right:
        case Reference(names=first), Reference(names=second):
            return first == second or are_same(first, second)
        case Constant(value=first), Constant(value=second):
            return type(first) is type(second) and bool(first == second)
        case FunctionCall(), FunctionCall():
            is_same = (left.function, left.literal) == (right.function, right.literal)
            return is_same and are_equivalent(left.operand, right.operand, are_same)
        case Arithmetic(), Arithmetic():
            is_same = left.joins == right.joins and [sign for sign, _ in left.rest] == [sign for sign, _ in right.rest]
            pairs = zip(children(left), children(right), strict=False)
            return is_same and all(are_equivalent(first, second, are_same) for first, second in pairs)
        case Minus(operand=first), Minus(operand=second):
            return are_equivalent(first, second, are_same)
    return False


def text_of(tree: Expression) -> list[Expression] | None:
    """Return the pieces that make a text when they are joined. None for an expression whose value may be no text.

    A reference in a template may be no text; an operand of `+` beside a text has to be one.
    """
    if isinstance(tree, Template):
        return list(tree.parts)
    pieces = _joined(tree)
    if not any(isinstance(one, Constant) and isinstance(one.value, str) for one in pieces):
        return None
    return [one for one in pieces if not isinstance(one, Constant) or one.value != ""]


def _joined(tree: Expression) -> list[Expression]:
    """Return the operands of a chain of `+`, and of the chains in it; any other expression is one."""
    if not isinstance(tree, Arithmetic) or not tree.joins or any(sign != "+" for sign, _ in tree.rest):
        return [tree]
    return [piece for one in children(tree) for piece in _joined(one)]


def is_end(question: str, whole: list[Expression], part: list[Expression], are_same: AreSame) -> bool:
    """Return whether a text starts or ends with another one, or contains it, by the pieces of both."""
    size, length = len(part), len(whole)
    if not part or size > length:
        return False
    positions = {"starts_with": [0], "ends_with": [length - size]}.get(question, range(length - size + 1))
    return any(
        all(are_equivalent(*pair, are_same) for pair in zip(whole[position : position + size], part, strict=True))
        for position in positions
    )


def is_itself(left: Expression, right: Expression) -> bool:
    """Return whether two expressions read the same references in the same way."""
    return are_equivalent(left, right, lambda *_: False)
