"""What is certain about references after an evaluation: which it reads in any case, and what its outcome implies."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from stepward.vm.expressions.operands import needs
from stepward.vm.expressions.operators import OPERATORS
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
    children,
)

Names = tuple[str, ...]
NOTHING: frozenset[Names] = frozenset()


@dataclass(frozen=True, slots=True)
class Facts:
    """References that are certainly defined, and those that are certainly not null."""

    defined: frozenset[Names] = NOTHING
    not_null: frozenset[Names] = NOTHING

    def __or__(self, other: Facts) -> Facts:
        return Facts(self.defined | other.defined, self.not_null | other.not_null)

    def knows_defined(self, names: Names) -> bool:
        """Return whether the reference, or a field of it, is known to be defined."""
        return any(known[: len(names)] == names for known in self.defined)


def facts(tree: Expression, outcome: bool) -> Facts:
    """Return the facts that follow if `tree` was evaluated to `outcome` (an evaluation that fails has none)."""
    match tree:
        case Defined(reference=reference):
            return Facts(frozenset([reference.names])) if outcome else Facts()
        case Negation(operand=operand):
            return facts(operand, not outcome)
        case Logic(operator=operator, operands=operands):
            return _logic_facts(operands, outcome, decisive=operator == "or")
        case Compare():
            return Facts(certain_reads(tree), _not_null(tree, outcome))
        case Reference(names=names):  # it was true or false
            return Facts(certain_reads(tree), frozenset([names]))
        case _:
            return Facts(certain_reads(tree))


def _logic_facts(operands: tuple[Expression, ...], outcome: bool, *, decisive: bool) -> Facts:
    if outcome is not decisive:
        every = [facts(operand, outcome) for operand in operands]
        return Facts(NOTHING.union(*(one.defined for one in every)), NOTHING.union(*(one.not_null for one in every)))
    # One operand decided, and those before it did not: the facts that all these scenarios share are certain. They are
    # among those of the first scenario, so a long chain of operands takes time linear in its length.
    shared = facts(operands[0], outcome)
    earlier_defined: set[Names] = set()
    earlier_not_null: set[Names] = set()
    for before, operand in pairwise(operands):
        undecided, scenario = facts(before, not outcome), facts(operand, outcome)
        earlier_defined |= undecided.defined
        earlier_not_null |= undecided.not_null
        shared = Facts(
            frozenset(names for names in shared.defined if names in earlier_defined or names in scenario.defined),
            frozenset(names for names in shared.not_null if names in earlier_not_null or names in scenario.not_null),
        )
    return shared


def _not_null(tree: Compare, outcome: bool) -> frozenset[Names]:
    """Return the references that were not null if a comparison has this outcome: most operators fail at null."""
    left, right = tree.left, tree.right
    found: list[Expression] = [*_non_null_operands(left), *_non_null_operands(right)]
    row = OPERATORS[tree.operator]
    holds = outcome is not row.is_negated
    match row.takes:
        case "alike":
            is_null = [isinstance(side, Constant) and side.value is None for side in (left, right)]
            if any(is_null):
                found += [] if holds else [left, right]
            elif holds and any(isinstance(side, Constant) for side in (left, right)):
                found += [left, right]
        case "member":
            found.append(right)
            if holds and isinstance(right, Constant) and isinstance(right.value, tuple) and None not in right.value:
                found.append(left)
        case "contains":
            found.append(left)
        case kinds:
            found += [] if "null" in kinds else [left, right]
    return frozenset(one.names for one in found if isinstance(one, Reference))


def _non_null_operands(tree: Expression) -> list[Expression]:
    """Return the parts that one side of a comparison is calculated from and that can't be null."""
    found: list[Expression] = []
    pending = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, FunctionCall | Arithmetic | Minus):
            parts = [operand for operand, kinds, _ in needs(node) if "null" not in kinds]
            found += parts
            pending += parts
    return found


def certain_reads(tree: Expression) -> frozenset[Names]:
    """Return the references that every evaluation of `tree` reads."""
    result: set[Names] = set()
    pending = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, Reference):
            result.add(node.names)
        elif isinstance(node, Logic):
            pending.append(node.operands[0])
        else:
            pending.extend(children(node))
    return frozenset(result)


def reads(tree: Expression, known: Facts = Facts()) -> Iterator[tuple[Reference, Facts]]:
    """Yield the references of `tree` in the order of evaluation, each with the facts that are certain before its read.

    `known` are the facts before `tree`. The operand of `defined` is not read.
    """
    if isinstance(tree, Reference):
        yield tree, known
    elif isinstance(tree, Logic):
        for operand in tree.operands:
            yield from reads(operand, known)
            known |= facts(operand, tree.operator == "and")
    else:
        for child in children(tree):
            yield from reads(child, known)
