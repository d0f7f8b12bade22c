"""The kinds of value that each node of an expression needs as operands and gives as its result."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Final, assert_never

from stepward.vm.expressions.operators import (
    ANY,
    ARRAY,
    BOOLEAN,
    FUNCTIONS,
    JOINABLE,
    NUMBER,
    OBJECT,
    OPERATORS,
    STRING,
    Kinds,
    kind,
)
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
    children,
    with_children,
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
        case Arithmetic(joins=joins):
            return joins or NUMBER
        case Minus():
            return NUMBER
        case Built(is_list=is_list):
            return ARRAY if is_list else OBJECT
        case Template():
            return STRING
        case Defined() | Negation() | Logic() | Compare():
            return BOOLEAN
        case _:
            assert_never(tree)


def joined_kinds(operands: Iterable[Kinds]) -> Kinds:
    """Return the kinds that `+` in language 2 may give, from those of its operands; all if it must fail."""
    return JOINABLE.intersection(*operands) or JOINABLE


def resolved(tree: Expression, kinds_of: Callable[[Reference], Kinds]) -> Expression:
    """Return a tree in which each `joins` is narrowed by the kinds that `kinds_of` gives for references."""

    def narrowed(node: Expression) -> Expression:
        found = with_children(node, narrowed)
        if not isinstance(found, Arithmetic) or not found.joins:
            return found
        kinds = (kinds_of(one) if isinstance(one, Reference) else result_kinds(one) for one in children(found))
        return replace(found, joins=joined_kinds(kinds))

    return narrowed(tree)


def is_condition(tree: Expression) -> bool:
    """Return whether an expression is a condition: not a constant, and true or false if it has a value."""
    return not isinstance(tree, Constant) and result_kinds(tree) == BOOLEAN


def needs(node: Expression) -> Iterator[tuple[Expression, Kinds, str]]:
    """Yield the operands of a node, each with the kinds that it must have and the operator that needs them.

    Operands whose kinds depend on one another (`Operator.takes`) are left out.
    """
    match node:
        case Built(base=Reference() as base):
            yield base, OBJECT, "set"
        case Constant() | Reference() | Defined() | Built() | Template():
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
        case Arithmetic(first=first, rest=rest, joins=joins):
            kinds = JOINABLE if joins else NUMBER
            yield first, kinds, rest[0][0]
            for sign, operand in rest:
                yield operand, kinds, sign
        case Minus(operand=operand):
            yield operand, NUMBER, "-"
        case _:
            assert_never(node)
