"""Whether arithmetic may give a number of over a thousand digits, which makes the computation fail.

The answer is no only where no run can: with whole numbers of few digits from outside, and no loop that multiplies.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from stepward.validator.engine.values.domains import Domains
from stepward.vm.expressions.operands import result_kinds
from stepward.vm.expressions.syntax import Arithmetic, Built, Constant, Expression, Minus, Reference, walk

if TYPE_CHECKING:
    from stepward.validator.analysis.analyses import Analyses
    from stepward.vm.language.names import Source

MAX_PRODUCTS: Final = 5
MAX_DOUBLINGS: Final = 1_000
"""The most products, and steps that add, that stay below a thousand digits from numbers of MAX_DIGITS."""

MAX_DIGITS: Final = 19


class Overflow:
    """The arithmetic of one program."""

    def __init__(self, analyses: Analyses, domains: Domains) -> None:
        self.facts = analyses.facts
        self.domains = domains

    def may_happen(self, tree: Expression) -> bool:
        """Return whether an expression may have a result of over a thousand digits."""
        if isinstance(tree, Built):
            return any(map(self.may_happen, tree.parts))
        nodes = list(walk(tree))
        if not any(isinstance(node, Arithmetic | Minus) and "number" in result_kinds(node) for node in nodes):
            return False
        read = [node for node in nodes if isinstance(node, Reference)]
        if any(isinstance(node, Constant) and not _is_short(node.value) for node in nodes):
            return True
        return any(not self._is_short(node) for node in read) or not self._grows_slowly(nodes, read)

    def _is_short(self, reference: Reference) -> bool:
        """Whether all values from outside for a reference are whole numbers of few digits."""
        meant = self.facts.meaning.names.meaning(reference.names)
        sources = [source for source in meant.sources if source.kind != "set"] if meant is not None else []
        ranges = [one for source in sources for one in self.domains.given(source, meant.fields).ranges] if meant else []
        return all(one.integral and _is_short(one.low) and _is_short(one.high) for one in ranges)

    def _grows_slowly(self, nodes: list[Expression], read: list[Reference]) -> bool:
        """Whether no run is long enough for so many digits: each step adds a constant, or few steps multiply."""
        signs = [sign for node in nodes if isinstance(node, Arithmetic) for sign, _ in node.rest]
        if signs.count("*") <= MAX_PRODUCTS and self._only_add(read):
            return True
        is_short = len(self.facts.flow.steps) < MAX_DOUBLINGS and self._products <= MAX_PRODUCTS
        return is_short and not self.facts.graph.loops and self._hold_behind(read, self._are_short)

    def _only_add(self, read: list[Reference]) -> bool:
        """Whether each assignment behind some references adds at most numbers of few digits to one of them."""
        return self._hold_behind(read, self._adds_little)

    def _hold_behind(self, read: list[Reference], holds: Callable[[Expression], bool]) -> bool:
        """Whether something holds of each assignment behind some references; constants have few digits."""
        seen: set[Source] = set()
        waiting = self._assignments(read)
        while waiting:
            source = waiting.pop()
            if source in seen or source.step is None:
                continue
            seen.add(source)
            tree = self.facts.meaning.typing.tree(source)
            if tree is None:
                if not _holds_little(self.facts.flow.steps[source.step].assigns.get(source.name)):
                    return False
            elif not holds(tree):
                return False
            else:
                waiting += self._assignments([node for node in walk(tree) if isinstance(node, Reference)])
        return True

    def _assignments(self, read: list[Reference]) -> list[Source]:
        """Return the assignments of the variables that are read."""
        found = [self.facts.meaning.names.meaning(reference.names) for reference in read]
        return [source for meant in found if meant is not None for source in meant.sources if source.kind == "set"]

    def _adds_little(self, tree: Expression) -> bool:
        if isinstance(tree, Built):
            return all(map(self._adds_little, tree.parts))
        nodes = list(walk(tree))
        read = [node for node in nodes if isinstance(node, Reference)]
        signs = [sign for node in nodes if isinstance(node, Arithmetic) for sign, _ in node.rest]
        return self._are_short(tree) and "*" not in signs and sum(map(self._is_assigned, read)) <= 1

    def _are_short(self, tree: Expression) -> bool:
        """Whether an expression reads only whole numbers of few digits from outside, and has no others in it."""
        nodes = list(walk(tree))
        are_read = all(self._is_short(node) for node in nodes if isinstance(node, Reference))
        return are_read and all(_holds_little(node.value) for node in nodes if isinstance(node, Constant))

    def _is_assigned(self, reference: Reference) -> bool:
        meant = self.facts.meaning.names.meaning(reference.names)
        return meant is not None and any(source.kind == "set" for source in meant.sources)

    @cached_property
    def _assigned(self) -> list[Expression]:
        """The expressions of all assignments of the program."""
        return [clause.tree for clause in self.facts.meaning.clauses if not clause.is_condition and clause.tree]

    @cached_property
    def _products(self) -> int:
        """The number of multiplications in the assignments of the program."""
        chains = [node for tree in self._assigned for node in walk(tree) if isinstance(node, Arithmetic)]
        return sum(sign == "*" for node in chains for sign, _ in node.rest)


def _holds_little(literal: Any) -> bool:
    """Whether all numbers in a literal are whole ones of few digits."""
    if isinstance(literal, list | tuple):
        return all(map(_holds_little, literal))
    if isinstance(literal, dict):
        return all(map(_holds_little, literal.values()))
    return literal is None or _is_short(literal)


def _is_short(value: Any) -> bool:
    """Whether a constant is not a number, or a whole one of few digits; false for None, which is a missing bound."""
    if isinstance(value, int):
        return abs(value) < 10**MAX_DIGITS
    return value is not None and not isinstance(value, Decimal)
