"""The tree of an expression. Every node knows the stretch of text that it was written in.

Chains of one operator are one node, and nesting is bounded by the parser, so that walking a tree may recurse.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

Comparison = Literal[
    "==", "!=", "<", "<=", ">", ">=", "in", "not in", "contains", "not contains", "starts_with", "ends_with"
]


@dataclass(frozen=True, slots=True)
class Node:
    """A part of an expression; `start` and `end` count code points of its text."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Constant(Node):
    """A literal: a number, a text, true, false, null, or a list of such as a tuple."""

    value: Any


@dataclass(frozen=True, slots=True)
class Reference(Node):
    """`$name`, `$name.field`, `$step.output`: the names without the dollar sign."""

    names: tuple[str, ...]

    def text(self) -> str:
        """Return the reference as it is written."""
        return "$" + ".".join(self.names)


@dataclass(frozen=True, slots=True)
class Defined(Node):
    """`defined($x)`: whether the reference can be read."""

    reference: Reference


@dataclass(frozen=True, slots=True)
class Length(Node):
    """`len(x)`: code points of a text, items of an array."""

    operand: Expression


@dataclass(frozen=True, slots=True)
class Negation(Node):
    """`not x`."""

    operand: Expression


@dataclass(frozen=True, slots=True)
class Logic(Node):
    """`a and b and …`, or the same with `or`."""

    operator: Literal["and", "or"]
    operands: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Compare(Node):
    """Two operands and what is asked of them."""

    operator: Comparison
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Arithmetic(Node):
    """`first op operand op operand …`, evaluated left to right; `+` and `-` in one chain, `*` in another."""

    first: Expression
    rest: tuple[tuple[Literal["+", "-", "*"], Expression], ...]


@dataclass(frozen=True, slots=True)
class Minus(Node):
    """`-x`."""

    operand: Expression


Expression = Constant | Reference | Defined | Length | Negation | Logic | Compare | Arithmetic | Minus


def children(node: Expression) -> tuple[Expression, ...]:
    """Return the expressions that `node` is made of, in the order in which they are written."""
    match node:
        case Compare(left=left, right=right):  # first what is asked for most often
            return (left, right)
        case Constant() | Reference() | Defined():
            return ()
        case Length(operand=operand) | Negation(operand=operand) | Minus(operand=operand):
            return (operand,)
        case Logic(operands=operands):
            return operands
        case Arithmetic(first=first, rest=rest):
            return (first, *(operand for _, operand in rest))


def walk(root: Expression) -> Iterator[Expression]:
    """Yield every node of a tree, parents before children, left before right."""
    pending = [root]
    while pending:
        node = pending.pop()
        yield node
        if type(node) is Compare:  # first what is asked for most often
            pending += (node.right, node.left)
        elif type(node) is not Reference and type(node) is not Constant:
            pending.extend(reversed(children(node)))


def references(root: Expression) -> Iterator[Reference]:
    """Yield the references that an evaluation may read; those that are only asked for by `defined` are left out."""
    return (node for node in walk(root) if isinstance(node, Reference))
