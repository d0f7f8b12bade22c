"""What holds of the roots of a system whenever a node is reached: whether they are defined, and bounds of numbers.

Intervals go along the edges until nothing changes; guards are not read. A bound that a loop keeps moving is dropped.
The solver forgets the values that a loop assigned, and still knows this much.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from stepward.validator.engine.systems.assigned_values import Assigned, possible
from stepward.validator.engine.systems.system import BAD, ENTRY, AnyValue, Assign, Computed, Literal, System, Undefined
from stepward.validator.engine.values.domains import Domain, Domains, Names, Range
from stepward.vm.errors import EvaluationError
from stepward.vm.expressions.operators import FUNCTIONS, kind
from stepward.vm.expressions.syntax import Arithmetic, Constant, Expression, FunctionCall, Minus, Reference
from stepward.vm.values import Number, arithmetic

MAX_WORK: Final = 100_000
"""The most nodes times roots of one system; nothing is known in larger ones."""

MAX_MOVES: Final = 4
"""How often what is known of a node may change before a bound that moves is dropped."""


class Interval(NamedTuple):
    """Numbers from `low` to `high`, both included; None is no bound."""

    low: Number | None = None
    high: Number | None = None


class Known(NamedTuple):
    """A root that may be undefined, or has a number of an interval; without one, any value of any kind.

    `has_value` says that it may have a value at all.
    """

    may_be_undefined: bool
    has_value: bool = True
    numbers: Interval | None = None


State = dict[Names, Known]

_NOTHING: Final = Known(True, has_value=False)
_ANY_NUMBER: Final = Interval()


class Invariants:
    """What holds at the nodes of a system."""

    def __init__(self, system: System, domains: Domains, assigned: Assigned) -> None:
        self.system, self.domains, self.assigned = system, domains, assigned
        self.at: dict[int, State] = {}
        if len(system.edges) * len(system.roots) <= MAX_WORK:
            self._follow()

    def narrowed(self, node: int, root: Names, domain: Domain) -> Domain:
        """Return the values that a root can have at a node."""
        known = self.at.get(node, {}).get(root)
        if known is None:
            return domain
        if not known.has_value:
            return Domain(undefined=True)
        narrow = replace(domain, undefined=domain.undefined and known.may_be_undefined)
        if known.numbers is None:
            return possible(narrow)
        ranges = tuple(_clipped(one, known.numbers) for one in domain.ranges)
        return possible(Domain(undefined=narrow.undefined, ranges=ranges))

    def _follow(self) -> None:
        start = dict.fromkeys(self.system.roots, _NOTHING)
        start.update((root, self._given(AnyValue(source), {})) for root, source in self.system.inputs)
        self.at[ENTRY] = start
        moves: dict[int, int] = {}
        pending, queued = deque([ENTRY]), {ENTRY}
        while pending:
            node = pending.popleft()
            queued.discard(node)
            for edge in self.system.edges[node]:
                if edge.target == BAD:
                    continue
                after = self._after(edge.assigns, self.at[node])
                before = self.at.get(edge.target)
                moves[edge.target] = moves.get(edge.target, 0) + 1
                joined = after if before is None else _joined(before, after, is_final=moves[edge.target] > MAX_MOVES)
                if joined == before:
                    moves[edge.target] -= 1
                    continue
                self.at[edge.target] = joined
                if edge.target not in queued:
                    queued.add(edge.target)
                    pending.append(edge.target)

    # -- assignments -----------------------------------------------------------------------------------------------

    def _after(self, assigns: tuple[Assign, ...], before: State) -> State:
        if not assigns:
            return before
        after = dict(before)
        for assign in assigns:
            after[assign.root] = self._value(assign, after)
        return {root: after[root] for root in before}

    def _value(self, assign: Assign, state: State) -> Known:
        match assign.value:
            case Undefined():
                return _NOTHING
            case AnyValue() as given:
                return self._given(given, state)
            case Literal(value=value):
                return Known(may_be_undefined=False, numbers=self._interval(Constant(0, 0, value), state))
            case Computed(tree=tree):
                return Known(may_be_undefined=False, numbers=self._interval(tree, state))

    def _given(self, value: AnyValue, state: State) -> Known:
        if value.same in state:
            return state[value.same]
        domain = self.domains.given(value.source)
        return Known(domain.undefined or value.maybe, numbers=_hull(domain))

    # -- numbers ---------------------------------------------------------------------------------------------------

    def _interval(self, tree: Expression, state: State) -> Interval | None:
        """Return the interval of the numbers of an expression, where it has a value; None where it may be no number."""
        match tree:
            case Constant(value=value):
                return Interval(value, value) if kind(value) == "number" else None
            case Reference(names=names):
                return self._read(names, state)
            case Minus(operand=operand):
                return _calculated("-", Interval(0, 0), self._interval(operand, state) or _ANY_NUMBER)
            case Arithmetic(first=first, rest=rest, joins=joins):
                parts = [self._interval(one, state) for one in (first, *(operand for _, operand in rest))]
                if joins and all(one is None for one in parts):
                    return None  # texts or arrays may be joined
                total = parts[0] or _ANY_NUMBER
                for (sign, _), part in zip(rest, parts[1:], strict=True):
                    total = _calculated(sign, total, part or _ANY_NUMBER)
                return total
            case FunctionCall(function=function) if FUNCTIONS[function].asks == "length":
                return Interval(0)
        return None

    def _read(self, names: Names, state: State) -> Interval | None:
        root = self.domains.root(names)
        if root == names:
            return state[root].numbers if root in state else None
        return _hull(self.assigned.domain(root, names[len(root) :])) if root in self.system.roots else None


def _clipped(range_: Range, numbers: Interval) -> Range:
    """Return the numbers of a range that are in an interval."""
    low, high = numbers
    if low is not None and (range_.low is None or range_.low < low):
        range_ = range_._replace(low=low, above=False)
    if high is not None and (range_.high is None or range_.high > high):
        range_ = range_._replace(high=high, below=False)
    return range_


def _hull(domain: Domain) -> Interval | None:
    """Return the least interval with all values of a domain; None where they may be no numbers."""
    if domain.kinds != {"number"}:
        return None
    lows = [one.low for one in domain.ranges if one.low is not None]
    highs = [one.high for one in domain.ranges if one.high is not None]
    count = len(domain.ranges)
    return Interval(min(lows) if len(lows) == count else None, max(highs) if len(highs) == count else None)


def _calculated(sign: str, left: Interval, right: Interval) -> Interval:
    """Return an interval with all results of a calculation."""
    try:
        match sign:
            case "+":
                return Interval(_sum(left.low, right.low), _sum(left.high, right.high))
            case "-":
                return Interval(_difference(left.low, right.high), _difference(left.high, right.low))
        return _product(left, right)
    except EvaluationError:  # a bound with too many digits
        return _ANY_NUMBER


def _sum(left: Number | None, right: Number | None) -> Number | None:
    return None if left is None or right is None else arithmetic("+", left, right)


def _difference(left: Number | None, right: Number | None) -> Number | None:
    return None if left is None or right is None else arithmetic("-", left, right)


def _product(left: Interval, right: Interval) -> Interval:
    ends = [arithmetic("*", a, b) for a in left for b in right if a is not None and b is not None]
    if len(ends) == len(left) * len(right):
        return Interval(min(ends), max(ends))
    if left.low is not None and right.low is not None and min(left.low, right.low) >= 0:
        return Interval(arithmetic("*", left.low, right.low))
    return _ANY_NUMBER


def _joined(before: Mapping[Names, Known], after: Mapping[Names, Known], *, is_final: bool) -> State:
    """Return the facts that hold in both of two states; if `is_final`, a bound that differs is dropped."""
    return {root: _either(one, after[root], is_final=is_final) for root, one in before.items()}


def _either(left: Known, right: Known, *, is_final: bool) -> Known:
    if left == right:
        return left
    may_be_undefined = left.may_be_undefined or right.may_be_undefined
    if not right.has_value:
        return left._replace(may_be_undefined=may_be_undefined)
    if not left.has_value:
        return right._replace(may_be_undefined=may_be_undefined)
    if left.numbers is None or right.numbers is None:
        return Known(may_be_undefined)
    low, high = left.numbers
    if low is not None and (right.numbers.low is None or right.numbers.low < low):
        low = None if is_final else right.numbers.low
    if high is not None and (right.numbers.high is None or right.numbers.high > high):
        high = None if is_final else right.numbers.high
    return Known(may_be_undefined, numbers=Interval(low, high))
