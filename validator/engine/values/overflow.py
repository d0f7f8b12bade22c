"""Whether arithmetic may give a number of over a thousand digits: then the computation fails.

The answer is no only where no run can: by how many digits numbers from outside and constants have, and what is computed
of them. In a loop, only sums are known to stay short.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from stepward.validator.engine.values.domains import Domains
from stepward.vm.expressions.operands import result_kinds
from stepward.vm.expressions.syntax import (
    Arithmetic,
    Built,
    Constant,
    Expression,
    FunctionCall,
    Minus,
    Reference,
    walk,
)
from stepward.vm.values import MAX_DIGITS

if TYPE_CHECKING:
    from stepward.validator.analysis.analyses import Analyses
    from stepward.vm.language.names import Source

MOST_CHANGES: Final = 40
"""How often the size of a variable may grow until it counts as one without bound."""

OF_MANY_SUMS: Final = 10
"""The digits by which a number grows in a run that adds at each of a million steps, up to a thousand numbers."""


class Size(NamedTuple):
    """How many digits a number has at most, before its point and after it."""

    before: int = 0
    after: int = 0


Sized = Size | None
"""None: any number of digits."""

NO_NUMBER: Final = Size()
OF_LENGTH: Final = Size(MAX_DIGITS // 50)


class Overflow:
    """The arithmetic of one program."""

    def __init__(self, analyses: Analyses, domains: Domains) -> None:
        self.facts = analyses.facts
        self.domains = domains
        self.sizes: dict[Source, Sized] = {}

    def may_happen(self, tree: Expression) -> bool:
        """Return whether an expression may have a result of over a thousand digits."""
        if isinstance(tree, Built):
            return any(map(self.may_happen, tree.parts))
        nodes = [node for node in walk(tree) if _is_number(node)]
        if not nodes:
            return False
        self._know(node for node in walk(tree) if isinstance(node, Reference))
        return any(not _fits(size_of(node, self._of)) for node in nodes)

    def _of(self, reference: Reference) -> Sized:
        """Return the size of what a reference may have, once that of assignments is known."""
        return joined((self._given(reference), *(self.sizes[one] for one in self._assignments(reference))))

    def _given(self, reference: Reference) -> Sized:
        """Return the size of what a reference may have from outside."""
        resolution = self.facts.meaning.names.meaning(reference.names)
        sources = [source for source in resolution.sources if source.kind != "set"] if resolution is not None else []
        ranges = (
            [one for source in sources for one in self.domains.given(source, resolution.fields).ranges]
            if resolution
            else []
        )
        return joined(_of_range(one.low, one.high, is_whole=one.integral) for one in ranges)

    def _assignments(self, reference: Reference) -> list[Source]:
        resolution = self.facts.meaning.names.meaning(reference.names)
        return [source for source in resolution.sources if source.kind == "set"] if resolution is not None else []

    def _trees(self, source: Source) -> tuple[Expression, ...]:
        """Return the expressions that an assignment computes: its own, or the parts of a built value; a literal is
        one."""
        tree = self.facts.meaning.typing.tree(source)
        if tree is None:
            literal = None if source.step is None else self.facts.flow.steps[source.step].assigns.get(source.name)
            return (Constant(0, 0, literal),)
        if not isinstance(tree, Built):
            return (tree,)
        return tree.parts if tree.base is None else (*tree.parts, tree.base)

    # -- assignments -----------------------------------------------------------------------------------------------

    def _know(self, read: Iterable[Reference]) -> None:
        """Find the sizes of all assignments behind some references."""
        new: dict[Source, tuple[Expression, ...]] = {}
        waiting = [source for one in read for source in self._assignments(one)]
        while waiting:
            source = waiting.pop()
            if source not in new and source not in self.sizes:
                new[source] = self._trees(source)
                waiting += [one for tree in new[source] for node in _read(tree) for one in self._assignments(node)]
        if not new:
            return
        self._settle(new)
        slow = self._slow({source: trees for source, trees in new.items() if self.sizes[source] is None})
        if slow:
            self._settle({source: trees for source, trees in new.items() if source not in slow})

    def _settle(self, trees: dict[Source, tuple[Expression, ...]]) -> None:
        """Let sizes grow from nothing until they hold everywhere; one that grows too often has no bound."""
        self.sizes |= dict.fromkeys(trees, NO_NUMBER)
        readers: dict[Source, list[Source]] = {}
        for source, each in trees.items():
            for read in {read for tree in each for node in _read(tree) for read in self._assignments(node)}:
                readers.setdefault(read, []).append(source)
        waiting = deque(trees)
        changes: Counter[Source] = Counter()
        while waiting:
            source = waiting.popleft()
            size = joined(size_of(tree, self._of) for tree in trees[source])
            if size == self.sizes[source]:
                continue
            changes[source] += 1
            self.sizes[source] = size if changes[source] <= MOST_CHANGES else None
            waiting += readers.get(source, ())

    def _slow(self, trees: dict[Source, tuple[Expression, ...]]) -> set[Source]:
        """Return the assignments that only add bounded values to at most one growing variable; they get a bound,
        too."""
        slow = set(trees)
        while slow:
            added = {source: joined(self._added(tree, slow) for tree in trees[source]) for source in slow}
            unbounded = {source for source in slow if added[source] is None}
            if not unbounded:
                whole = joined(added.values()) or NO_NUMBER
                self.sizes |= dict.fromkeys(slow, Size(whole.before + OF_MANY_SUMS, whole.after))
                break
            slow -= unbounded
        return slow

    def _added(self, tree: Expression, slow: set[Source]) -> Sized:
        """Return the size of what an expression adds to a variable that grows; None if it does more than that."""
        growing = [node for node in _read(tree) if not slow.isdisjoint(self._assignments(node))]
        signs = [sign for node in walk(tree) if isinstance(node, Arithmetic) for sign, _ in node.rest]
        if len(growing) > 1 or (growing and "*" in signs):
            return None

        def of(reference: Reference) -> Sized:
            others = (self.sizes[one] for one in self._assignments(reference) if one not in slow)
            return joined((self._given(reference), *others))

        return size_of(tree, of)


def _read(tree: Expression) -> list[Reference]:
    return [node for node in walk(tree) if isinstance(node, Reference)]


def _is_number(node: Expression) -> bool:
    return isinstance(node, Arithmetic | Minus) and "number" in result_kinds(node)


def _fits(size: Sized) -> bool:
    return size is not None and size.before + size.after <= MAX_DIGITS


def size_of(tree: Expression, of: Callable[[Reference], Sized]) -> Sized:
    """Return the size of the numbers that an expression may give, by those of what it reads."""
    match tree:
        case Constant(value=value):
            return _of_literal(value)
        case Reference():
            return of(tree)
        case Minus(operand=operand):
            return size_of(operand, of)
        case Arithmetic(first=first, rest=rest):
            size = size_of(first, of)
            for sign, operand in rest:
                size = _computed(sign, size, size_of(operand, of))
            return size
        case FunctionCall(function="len"):
            return OF_LENGTH
        case Built():
            base = (NO_NUMBER,) if tree.base is None else (size_of(tree.base, of),)
            return joined((*base, *(size_of(part, of) for part in tree.parts)))
        case _:
            return NO_NUMBER


def _computed(sign: str, left: Sized, right: Sized) -> Sized:
    if left is None or right is None:
        return None
    if sign == "*":
        return Size(left.before + right.before, left.after + right.after)
    return Size(max(left.before, right.before) + 1, max(left.after, right.after))


def joined(sizes: Iterable[Sized]) -> Sized:
    """Return the size of what has any of some sizes."""
    whole = NO_NUMBER
    for size in sizes:
        if size is None:
            return None
        whole = Size(max(whole.before, size.before), max(whole.after, size.after))
    return whole


def _of_range(low: Any, high: Any, *, is_whole: bool) -> Sized:
    if low is None or high is None or not (is_whole or low == high):
        return None
    return joined((_of_literal(low), _of_literal(high)))


def _of_literal(literal: Any) -> Size:
    """Return the size of the numbers in a literal."""
    if isinstance(literal, list | tuple):
        return joined(map(_of_literal, literal)) or NO_NUMBER
    if isinstance(literal, dict):
        return joined(map(_of_literal, literal.values())) or NO_NUMBER
    if isinstance(literal, bool) or not isinstance(literal, int | Decimal):
        return NO_NUMBER
    digits, exponent = (len(str(abs(literal))), 0) if isinstance(literal, int) else _digits(literal)
    return Size(max(digits + exponent, 0), max(-exponent, 0))


def _digits(number: Decimal) -> tuple[int, int]:
    _, digits, exponent = number.as_tuple()
    return len(digits), exponent if isinstance(exponent, int) else 0
