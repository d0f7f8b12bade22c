"""The kinds of value that each node of an expression needs as operands and gives as its result."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, assert_never

from stepward.vm.expressions.operators import ANY, BOOLEAN, FUNCTIONS, NUMBER, OPERATORS, Kinds, kind
from stepward.vm.expressions.syntax import (
    Arithmetic,
    Compare,
    Constant,
    Defined,
    Expression,
    FunctionCall,
    Logic,
    Minus,
    Negation,
    Reference,
)

_ONE_KIND: Final = {word: frozenset({word}) for word in ANY}


def kind_of(value: object) -> Kinds:
    """Return the kind of a constant, as a set of one."""
    return _ONE_KIND[kind(value)]


def result_kinds(tree: Expression) -> Kinds:
    """Return the kinds of value that an expression may give; a reference may give any."""
    match tree:
        case Constant(value=value):
            return kind_of(value)
        case Reference():
            return ANY
        case FunctionCall(function=function):
            return FUNCTIONS[function].gives
        case Arithmetic() | Minus():
            return NUMBER
        case Defined() | Negation() | Logic() | Compare():
            return BOOLEAN
        case _:
            assert_never(tree)


def is_condition(tree: Expression) -> bool:
    """Return whether an expression is a condition: not a constant, and true or false if it has a value."""
    return not isinstance(tree, Constant) and result_kinds(tree) == BOOLEAN


def needs(node: Expression) -> Iterator[tuple[Expression, Kinds, str]]:
    """Yield the operands of a node, each with the kinds that it must have and the operator that needs them.

    Operands whose kinds depend on one another (`Operator.takes`) are left out.
    """
    match node:
        case Constant() | Reference() | Defined():
            pass
        case Compare(operator=comparison, left=left, right=right):
            takes = OPERATORS[comparison].takes
            if isinstance(takes, frozenset):
                yield left, takes, comparison
                yield right, takes, comparison
        case FunctionCall(function=function, operand=operand):
            yield operand, FUNCTIONS[function].takes, function
        case Negation(operand=operand):
            yield operand, BOOLEAN, "not"
        case Logic(operator=connective, operands=operands):
            for operand in operands:
                yield operand, BOOLEAN, connective
        case Arithmetic(first=first, rest=rest):
            yield first, NUMBER, rest[0][0]
            for sign, operand in rest:
                yield operand, NUMBER, sign
        case Minus(operand=operand):
            yield operand, NUMBER, "-"
        case _:
            assert_never(node)
