"""The syntax tree of an expression. Every node knows its location in the text.

Chains of one operator are one node, and nesting is bounded by the parser, so that walking a tree may recurse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from stepward.vm.expressions.fields import written
from stepward.vm.expressions.operators import Comparison, Connective, FunctionName, Kinds, Sign


@dataclass(frozen=True, slots=True)
class Node:
    """A part of an expression; `start` and `end` count code points of its text.

    `repr` leaves them out, so that equal expressions have the same `repr` wherever they are written.
    """

    start: int = field(repr=False)
    end: int = field(repr=False)


@dataclass(frozen=True, slots=True)
class Constant(Node):
    """A literal: a number, a text, true, false, null, or a tuple of such for a list."""

    value: Any


@dataclass(frozen=True, slots=True)
class Reference(Node):
    """`$name`, `$name.field`, `$step.output[0]`: the names without the dollar sign; an index is the name `[0]`."""

    names: tuple[str, ...]

    def text(self) -> str:
        """Return the reference as it is written."""
        return "$" + written(self.names)


@dataclass(frozen=True, slots=True)
class Defined(Node):
    """`defined($x)`: whether the reference can be read."""

    reference: Reference


@dataclass(frozen=True, slots=True)
class FunctionCall(Node):
    """`len(x)`, `join(x, ', ')`: a function of an operand, and perhaps of a text that is a literal."""

    function: FunctionName
    operand: Expression
    literal: str | None = None


@dataclass(frozen=True, slots=True)
class Negation(Node):
    """`not x`."""

    operand: Expression


@dataclass(frozen=True, slots=True)
class Logic(Node):
    """`a and b and …`, or the same with `or`."""

    operator: Connective
    operands: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Compare(Node):
    """A comparison of two operands."""

    operator: Comparison
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Arithmetic(Node):
    """`first op operand op operand …`, evaluated left to right; `+` and `-` in one chain, `*` in another.

    `joins`: the kinds that the result may have, for a chain of `+` in language 2, which also joins texts and arrays.
    It is empty for a chain that only calculates with numbers. `operands.resolved` narrows it by what is known of names.
    """

    first: Expression
    rest: tuple[tuple[Sign, Expression], ...]
    joins: Kinds = field(default=frozenset(), repr=False)


@dataclass(frozen=True, slots=True)
class Minus(Node):
    """`-x`."""

    operand: Expression


@dataclass(frozen=True, slots=True)
class Built(Node):
    """A list or an object of parts: `[$a, 'b']` in an expression, `{role: user, content: $message}` in a `set`.

    `names` are those of the parts: fields of an object, indexes `[0]`, `[1]` of a list. With a `base`, the value is a
    copy of that object in which the parts are in the place of its own fields, as `set: {order.total: $x}` makes it.
    """

    names: tuple[str, ...]
    parts: tuple[Expression, ...]
    is_list: bool
    base: Reference | None = None

    def part(self, name: str) -> Expression | None:
        """Return the part that is a field or an item; None where there is none."""
        return next((part for own, part in zip(self.names, self.parts, strict=True) if own == name), None)


@dataclass(frozen=True, slots=True)
class Template(Node):
    """`Dear $name` in a list or an object of a `set`: texts and references, written one after the other."""

    parts: tuple[Constant | Reference, ...]


Expression = (
    Constant | Reference | Defined | FunctionCall | Negation | Logic | Compare | Arithmetic | Minus | Built | Template
)


def children(node: Expression) -> tuple[Expression, ...]:
    """Return the operands of `node`, in the order in which they are written."""
    match node:
        case Constant() | Reference() | Defined():
            return ()
        case Compare(left=left, right=right):
            return (left, right)
        case FunctionCall(operand=operand) | Negation(operand=operand) | Minus(operand=operand):
            return (operand,)
        case Logic(operands=operands):
            return operands
        case Arithmetic(first=first, rest=rest):
            return (first, *(operand for _, operand in rest))
        case Built(parts=parts, base=Reference() as base):
            return (base, *parts)
        case Built(parts=parts) | Template(parts=parts):
            return parts


def with_children(node: Expression, change: Callable[[Expression], Expression]) -> Expression:
    """Return the node with each of its children changed; a node without children is returned unchanged."""
    match node:
        case Constant() | Reference() | Defined():
            return node
        case FunctionCall(operand=operand) | Negation(operand=operand) | Minus(operand=operand):
            return replace(node, operand=change(operand))
        case Logic(operands=operands):
            return replace(node, operands=tuple(change(operand) for operand in operands))
        case Compare(left=left, right=right):
            return replace(node, left=change(left), right=change(right))
        case Arithmetic(first=first, rest=rest):
            return replace(node, first=change(first), rest=tuple((sign, change(one)) for sign, one in rest))
        case Built(parts=parts, base=base):
            changed = None if base is None else change(base)
            assert changed is None or isinstance(changed, Reference), "a reference stays one"
            return replace(node, parts=tuple(map(change, parts)), base=changed)
        case Template(parts=parts):
            return replace(node, parts=tuple(map(change, parts)))  # type: ignore[arg-type]  # texts and references stay


def moved(node: Expression, by: int) -> Expression:
    """Return a tree whose positions are larger by a number of code points."""
    found = with_children(node, lambda child: moved(child, by))
    if isinstance(found, Defined):
        inner = replace(found.reference, start=found.reference.start + by, end=found.reference.end + by)
        found = replace(found, reference=inner)
    return replace(found, start=found.start + by, end=found.end + by)


def walk(root: Expression) -> Iterator[Expression]:
    """Yield every node of a tree, parents before children, left before right."""
    pending = [root]
    while pending:
        node = pending.pop()
        yield node
        pending.extend(reversed(children(node)))


def all_references(root: Expression) -> Iterator[Reference]:
    """Yield every reference of a tree, including the operands of `defined`."""
    for node in walk(root):
        if isinstance(node, Reference):
            yield node
        elif isinstance(node, Defined):
            yield node.reference


def references(root: Expression) -> Iterator[Reference]:
    """Yield the references that an evaluation may read, without the operands of `defined`."""
    return (node for node in walk(root) if isinstance(node, Reference))
