"""By how many digits numbers are written: what the second checker knows of results that may have over a thousand."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any, Final

from stepward.validator.recheck.blocks import Block
from stepward.validator.recheck.names import Names
from stepward.vm.expressions.syntax import Arithmetic, Built, Constant, Expression, FunctionCall, Minus, Reference, walk
from stepward.vm.values import MAX_DIGITS

Digits = tuple[int, int] | None
"""The most digits before and after the point; None where nothing bounds them."""

NONE: Final = (0, 0)
OF_LENGTH: Final = (20, 0)
ROUNDS: Final = 100
"""The rounds in which digits of assigned names grow; what grows after them has no bound."""

STEPS_AND_SUMMANDS: Final = 10
"""The digits that sums add in a run of a million steps with a thousand summands each."""

Known = Callable[[Names], Digits]


def of_blocks(blocks: Iterable[Block]) -> Digits:
    """Return the digits of the numbers of blocks: single ones, or whole ones between bounds."""
    digits: Digits = NONE
    for block in blocks:
        if block.kind != "number":
            continue
        if block.single:
            digits = most([digits, of_literal(block.value)])
        elif block.whole and block.low is not None and block.high is not None:
            digits = most([digits, of_literal(block.low), of_literal(block.high)])
        else:
            return None
    return digits


def of_literal(value: Any) -> Digits:
    """Return the digits of the numbers in a literal."""
    if isinstance(value, Mapping):
        return most(map(of_literal, value.values()))
    if isinstance(value, list | tuple):
        return most(map(of_literal, value))
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        return NONE
    whole, _, part = format(abs(value), "f").partition(".") if isinstance(value, Decimal) else (str(abs(value)), "", "")
    return len(whole), len(part)


def most(sizes: Iterable[Digits]) -> Digits:
    """Return the largest of several sizes."""
    before = after = 0
    for size in sizes:
        if size is None:
            return None
        before, after = max(before, size[0]), max(after, size[1])
    return before, after


def of_result(tree: Expression, known: Known) -> Digits:
    """Return the digits of the numbers that an expression gives."""
    if isinstance(tree, Constant):
        return of_literal(tree.value)
    if isinstance(tree, Reference):
        return known(tree.names)
    if isinstance(tree, Minus):
        return of_result(tree.operand, known)
    if isinstance(tree, FunctionCall):
        return OF_LENGTH
    if isinstance(tree, Built):
        parts = (*tree.parts, *(() if tree.base is None else (tree.base,)))
        return most(of_result(part, known) for part in parts)
    if not isinstance(tree, Arithmetic):
        return NONE
    result = of_result(tree.first, known)
    for sign, operand in tree.rest:
        right = of_result(operand, known)
        if result is None or right is None:
            return None
        if sign == "*":
            result = (result[0] + right[0], result[1] + right[1])
        else:
            result = (max(result[0], right[0]) + 1, max(result[1], right[1]))
    return result


def may_be_too_long(tree: Expression, known: Known) -> bool:
    """Return whether a result in an expression may have over a thousand digits."""
    for node in walk(tree):
        if isinstance(node, Arithmetic | Minus):
            digits = of_result(node, known)
            if digits is None or sum(digits) > MAX_DIGITS:
                return True
    return False


class AssignedDigits:
    """The digits of assigned names, by what is assigned to each: expressions, and what it has from outside."""

    def __init__(self, trees: Mapping[Names, list[Expression]], outside: Mapping[Names, Digits]) -> None:
        self.trees, self.outside = trees, outside
        self.digits: dict[Names, Digits] = {}
        self._grow(set(trees))
        slow = self._slow({name for name in trees if self.digits[name] is None})
        if slow:
            self._grow(set(trees) - slow)

    def of(self, names: Names) -> Digits:
        """Return the digits of a reference."""
        return self.digits[names] if names in self.digits else self.outside[names]

    def _grow(self, names: set[Names]) -> None:
        """Let digits grow in rounds, from none, until no round adds any."""
        self.digits |= dict.fromkeys(names, NONE)
        for number in range(2 * ROUNDS):
            new = {name: self._now(name) for name in names}
            changed = {name for name in names if new[name] != self.digits[name]}
            if not changed:
                return
            self.digits |= {name: new[name] if number < ROUNDS else None for name in changed}
        self.digits |= dict.fromkeys(names, None)

    def _now(self, name: Names) -> Digits:
        return most([self.outside[name], *(of_result(tree, self.of) for tree in self.trees[name])])

    def _slow(self, names: set[Names]) -> set[Names]:
        """Return the names to which only sums are assigned, with at most one that grows; they get a bound."""
        slow = set(names)
        while slow:
            added = {name: most([self.outside[name], *self._summands(name, slow)]) for name in slow}
            if None not in added.values():
                before, after = most(added.values()) or NONE
                self.digits |= dict.fromkeys(slow, (before + STEPS_AND_SUMMANDS, after))
                break
            slow = {name for name in slow if added[name] is not None}
        return slow

    def _summands(self, name: Names, slow: set[Names]) -> Iterator[Digits]:
        for tree in self.trees[name]:
            parts = (*tree.parts, *([] if tree.base is None else [tree.base])) if isinstance(tree, Built) else (tree,)
            for part in parts:
                growing = [node for node in walk(part) if isinstance(node, Reference) and node.names in slow]
                is_product = any(isinstance(node, Arithmetic) and "*" in dict(node.rest) for node in walk(part))
                if len(growing) > 1 or (growing and is_product):
                    yield None
                yield of_result(part, lambda names: NONE if names in slow else self.of(names))
