"""What is certain about references after an evaluation: which it reads in any case, and what its outcome implies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from stepward.vm.errors import EvaluationError
from stepward.vm.expressions.fields import index_of
from stepward.vm.expressions.operands import needs
from stepward.vm.expressions.operators import OPERATORS, compare
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

MAX_ITEMS: Final = 16
"""The most items of an array that follow from its length, or from a later item."""


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
            return Facts(_with_earlier([reference.names])) if outcome else Facts()
        case Negation(operand=operand):
            return facts(operand, not outcome)
        case Logic(operator=operator, operands=operands):
            return _logic_facts(operands, outcome, decisive=operator == "or")
        case Compare():
            return Facts(_with_earlier(certain_reads(tree)) | _counted(tree, outcome), _not_null(tree, outcome))
        case Reference(names=names):  # it was true or false
            return Facts(_with_earlier([names]), frozenset([names]))
        case _:
            return Facts(_with_earlier(certain_reads(tree)))


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


def _with_earlier(defined: Iterable[Names]) -> frozenset[Names]:
    """Return references with the items before each item among them: an array that has the third has the first."""
    found = set(defined)
    for names in list(found):
        for depth, number in enumerate(map(index_of, names)):
            found.update((*names[:depth], f"[{earlier}]") for earlier in range(min(number or 0, MAX_ITEMS)))
    return frozenset(found)


def _counted(tree: Compare, outcome: bool) -> frozenset[Names]:
    """Return the items that an array has if a comparison of its length with a number has this outcome."""
    calls = [side for side in (tree.left, tree.right) if isinstance(side, FunctionCall) and side.function == "len"]
    bounds = [side for side in (tree.left, tree.right) if isinstance(side, Constant)]
    if len(calls) != 1 or len(bounds) != 1 or not isinstance(calls[0].operand, Reference):
        return NOTHING
    array, bound, is_left = calls[0].operand.names, bounds[0].value, tree.left is calls[0]
    least = 0
    try:
        while (
            least < MAX_ITEMS
            and compare(tree.operator, *((least, bound) if is_left else (bound, least))) is not outcome
        ):
            least += 1
    except EvaluationError:
        return NOTHING
    return frozenset((*array, f"[{number}]") for number in range(least))


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
