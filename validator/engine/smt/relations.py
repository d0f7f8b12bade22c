"""Relations: what holds of the numbers that loops assign, whenever a loop begins a round.

Two sorts of candidates are tried. Equations say that a sum of numbers, each times a constant, is the same as before the
loop: `left + paid`. They are guessed from rounds that the solver shows: each one excludes the sums that it changes.
Bounds compare a number, or the sum of two, with a constant, with a value that the loop keeps, or with another number.

A candidate is an invariant if the solver shows that it holds on entry to the loop, and after each round that starts
with all invariants. Then they hold at the start of every round. A certificate has that formula as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from fractions import Fraction
from functools import partial
from itertools import combinations, permutations
from typing import Any, Final, NamedTuple

import z3

from stepward.validator.engine.smt.answers import Spent
from stepward.validator.engine.smt.encoding import Encoding
from stepward.validator.engine.smt.payloads import Term
from stepward.validator.engine.smt.plans import Plan
from stepward.validator.engine.smt.versions import Environment
from stepward.validator.engine.systems.system import System
from stepward.validator.engine.values.domains import Names
from stepward.vm.expressions.operators import kind
from stepward.vm.expressions.syntax import Arithmetic, Compare, Constant, Expression, Minus, Reference, walk
from stepward.vm.values import Number

MAX_NUMBERS: Final = 8
"""The most numbers of one loop between which relations are tried."""

MAX_LIMITS: Final = 12
"""The most constants, and the most values that a loop keeps, with which its numbers are compared."""

MAX_BOUNDS: Final = 200
"""The most bounds of one loop that are tried."""

Ask = Callable[[list[Any]], Any]
"""Returns a model of the facts with some assumptions, or None where there is none."""


class _Numbers(NamedTuple):
    """The values of some references at one place: when each is a number, and which."""

    are_numbers: tuple[Term, ...]
    values: tuple[Any, ...]


class _Arrival(NamedTuple):
    """A way to the start of a round, with the numbers of the loop there."""

    when: Term
    numbers: _Numbers


class _Head(NamedTuple):
    """The start of the rounds of one loop: its numbers there, before the loop, and on each way there.

    `fixed` are numbers that the loop does not assign. `names` are the references of its numbers, and of those.
    """

    names: tuple[Names, ...]
    at: Term
    numbers: _Numbers
    before: _Numbers
    entries: tuple[_Arrival, ...]
    rounds: tuple[_Arrival, ...]
    fixed: _Numbers

    @property
    def indices(self) -> range:
        """The positions of the numbers of the loop."""
        return range(len(self.numbers.values))


class _Relation(NamedTuple):
    """Some numbers of a loop, each times a factor, are together equal to a limit, below it, or at most it."""

    factors: tuple[Fraction, ...]
    sign: str
    limit: Any
    is_number: Term = True


class _Candidate(NamedTuple):
    """A relation: `holds` says it of the start of a round, and `broken` that some way there does not keep it."""

    holds: Any
    broken: Any


class Relations:
    """The relations at the loops of one plan.

    After `find`, `facts` are the invariants, and `broken` says that some way to a round breaks one of them.
    """

    def __init__(self, encoding: Encoding, plan: Plan) -> None:
        """Write the terms of what may be asked; facts about texts and arrays are noted after this."""
        self.encoding, self.terms = encoding, encoding.terms
        self.facts: list[Any] = []
        self.broken: Any = None
        self._constants = [self.terms.real(one) for one in _constants(encoding.system)]
        self._heads = [head for node in plan.back if (head := self._head(node, plan)) is not None]

    def find(self, ask: Ask, add: Callable[[Any], None]) -> None:
        """Keep the candidates that hold at the start of every round; `add` gives the solver a fact."""
        kinds = [self._candidate(head, partial(_is_number, number)) for head in self._heads for number in head.indices]
        invariants = self._invariants(kinds, ask, add)
        for invariant in invariants:
            add(invariant.holds)
        invariants += [
            self._related(head, invariant) for head in self._heads for invariant in self._equations(head, ask, add)
        ]
        bounds = [self._related(head, invariant) for head in self._heads for invariant in self._bounds(head)]
        with suppress(Spent):  # the others hold without them
            invariants = self._invariants([*invariants, *bounds], ask, add)
        self.facts = [invariant.holds for invariant in invariants]
        self.broken = z3.Or([invariant.broken for invariant in invariants]) if invariants else None

    def _term(self, known: Term) -> Any:
        return z3.BoolVal(known, self.terms.context) if isinstance(known, bool) else known

    # -- loops -----------------------------------------------------------------------------------------------------

    def _head(self, node: int, plan: Plan) -> _Head | None:
        """Return the start of the rounds of a loop; None where nothing leads there, or it assigns no numbers."""
        encoding, root = self.encoding, self.terms.domains.root
        if encoding.at[node] is False:
            return None
        environment, forgotten = encoding.before[node], plan.forgotten[node]
        into = [taken for _, taken in encoding.taken[node]]
        back_edges = [taken for taken in map(encoding.edge, plan.back[node]) if taken.when is not False]
        names = [name for name in sorted(encoding.system.references) if self._may_be(environment, name)]
        inside = [name for name in names if root(name) in forgotten]
        inside = [name for name in inside if all(self._may_be(one.after, name) for one in back_edges)][:MAX_NUMBERS]
        fixed = [name for name in names if root(name) in environment and root(name) not in forgotten][:MAX_LIMITS]
        if not inside or not back_edges:
            return None
        entries, rounds = (
            tuple(_Arrival(one.when, self._numbers(one.after, inside)) for one in every) for every in (into, back_edges)
        )
        before = self._numbers(encoding.entered[node], inside)
        known = self._numbers(environment, inside), before, entries, rounds, self._numbers(environment, fixed)
        return _Head((*inside, *fixed), encoding.at[node], *known)

    def _may_be(self, environment: Environment, name: Names) -> bool:
        return self._numbers(environment, [name]).are_numbers[0] is not False

    def _numbers(self, environment: Environment, names: Sequence[Names]) -> _Numbers:
        """Return when references are numbers in an environment, and which numbers."""
        terms = self.terms
        terms.environment = environment
        values = [terms.read(name) for name in names]
        numbers = [value.kinds.get("number", (False, 0)) for value in values]
        are = (terms.both(terms.no(value.fails), guard) for value, (guard, _) in zip(values, numbers, strict=True))
        return _Numbers(tuple(are), tuple(terms.real(number) for _, number in numbers))

    # -- candidates ------------------------------------------------------------------------------------------------

    def _candidate(self, head: _Head, relation: Callable[[_Numbers], Term]) -> _Candidate:
        """Return what may hold at the start of the rounds of a loop as a candidate."""
        terms = self.terms
        broken = (terms.both(one.when, terms.no(relation(one.numbers))) for one in (*head.entries, *head.rounds))
        holds = terms.either(terms.no(head.at), relation(head.numbers))
        return _Candidate(self._term(holds), self._term(terms.either(*broken)))

    def _related(self, head: _Head, relation: _Relation) -> _Candidate:
        return self._candidate(head, partial(self._holds, relation))

    def _holds(self, relation: _Relation, at: _Numbers) -> Term:
        """Return that a relation holds at a place; all that it reads are numbers."""
        total, limit = self._sum(relation.factors, at.values), relation.limit
        are = (is_number for is_number, factor in zip(at.are_numbers, relation.factors, strict=True) if factor)
        comparison = {"==": total == limit, "<": total < limit, "<=": total <= limit}[relation.sign]
        return self.terms.both(relation.is_number, *are, comparison)

    def _sum(self, factors: Sequence[Fraction], values: Sequence[Any]) -> Any:
        pairs = zip(factors, values, strict=True)
        parts = [value if factor == 1 else self.terms.real(factor) * value for factor, value in pairs if factor]
        return z3.Sum(parts) if len(parts) > 1 else parts[0] if parts else self.terms.real(0)

    def _invariants(self, candidates: Sequence[_Candidate], ask: Ask, add: Callable[[Any], None]) -> list[_Candidate]:
        """Return the largest part of candidates that hold together at the start of every round."""
        left = []
        for candidate in candidates:
            holds, broken = self.terms.boolean("holds"), self.terms.boolean("broken")
            add(z3.Implies(holds, candidate.holds))
            add(z3.Implies(broken, candidate.broken))
            left.append((candidate, holds, broken))
        while left:
            model = self._model_of([broken for _, _, broken in left], [holds for _, holds, _ in left], ask, add)
            if model is None:
                break
            left = [entry for entry in left if not _is_true(model, entry[0].broken)]
        return [candidate for candidate, _, _ in left]

    def _model_of(self, some: list[Any], assumed: list[Any], ask: Ask, add: Callable[[Any], None]) -> Any:
        """Return a model in which some of several terms is true; None where there is none."""
        literal = self.terms.boolean("some")
        add(z3.Implies(literal, z3.Or(some)))
        return ask([literal, *assumed])

    def _equations(self, head: _Head, ask: Ask, add: Callable[[Any], None]) -> Iterator[_Relation]:
        """Yield independent sums that no round changes.

        At first each number alone is one. A round that changes some of them leaves the combinations that it does not
        change.
        """
        sums = [tuple(Fraction(one == other) for other in head.indices) for one in head.indices]
        steps = [
            [after - here for after, here in zip(one.numbers.values, head.numbers.values, strict=True)]
            for one in head.rounds
        ]
        while sums:
            changed = [
                self._term(self.terms.both(one.when, self._sum(factors, step) != 0))
                for one, step in zip(head.rounds, steps, strict=True)
                for factors in sums
            ]
            model = self._model_of(changed, [], ask, add)
            if model is None:
                break
            round_taken = next(number for number, one in enumerate(changed) if _is_true(model, one)) // len(sums)
            sums = _unchanged(sums, [_fraction(model, one) for one in steps[round_taken]])
        for factors in sums:
            are = (is_number for is_number, factor in zip(head.before.are_numbers, factors, strict=True) if factor)
            yield _Relation(factors, "==", self._sum(factors, head.before.values), self.terms.both(*are))

    def _bounds(self, head: _Head) -> list[_Relation]:
        """Return the bounds that are tried for the numbers of a loop; first what the program compares."""
        bounds = self._compared(head)
        limits = [*((True, one) for one in self._constants), *zip(*head.fixed, strict=True)]
        units = [tuple(Fraction(one == other) for other in head.indices) for one in head.indices]
        for unit, *before in zip(units, *head.before, strict=True):
            for is_number, limit in (*limits, before):
                below = tuple(-one for one in unit)
                bounds += [_Relation(unit, sign, limit, is_number) for sign in ("<=", "<")]
                bounds += [_Relation(below, sign, -limit, is_number) for sign in ("<=", "<")]
        zero = self.terms.real(0)
        bounds += [_Relation(_added(one, other, -1), "<=", zero) for one, other in permutations(units, 2)]
        pairs = [_added(one, other, 1) for one, other in combinations(units, 2)]
        bounds += [_Relation(pair, "<=", limit) for pair in pairs for limit in self._constants]
        return bounds[:MAX_BOUNDS]

    def _compared(self, head: _Head) -> list[_Relation]:
        """Return the comparisons of the system between numbers of a loop, and between these and what it keeps."""
        count, comparisons = len(head.indices), {}
        for node in (node for tree in self.encoding.system.trees for node in walk(tree) if isinstance(node, Compare)):
            left, right = _linear(node.left), _linear(node.right)
            if left is None or right is None:
                continue
            total = dict(_plus(left, right, -1))
            rest = total.pop((), Fraction(0))
            if not total.keys() <= set(head.names):
                continue
            factors = [total.get(name, Fraction(0)) for name in head.names]
            if sum(map(bool, factors)) > 1 and any(factors[:count]):
                comparisons[tuple(factors[:count])] = (factors[count:], rest)
        return [
            one
            for inside, (outside, rest) in comparisons.items()
            for one in self._bounds_of_sum(head, inside, outside, rest)
        ]

    def _bounds_of_sum(
        self, head: _Head, inside: tuple[Fraction, ...], outside: list[Fraction], rest: Fraction
    ) -> Iterator[_Relation]:
        """Yield that a sum is below zero, at most zero, above it or at least it."""
        fixed = self._sum((*outside, rest), (*head.fixed.values, self.terms.real(1)))
        are = self.terms.both(*(one for one, factor in zip(head.fixed.are_numbers, outside, strict=True) if factor))
        for sign in ("<=", "<"):
            yield _Relation(inside, sign, -fixed, are)
            yield _Relation(tuple(-one for one in inside), sign, fixed, are)


def _linear(tree: Expression) -> Mapping[Names, Fraction] | None:
    """Return a sum of references, each times a constant; () stands for one. None for any other expression."""
    match tree:
        case Constant(value=value) if kind(value) == "number":
            return {(): Fraction(value)}
        case Reference(names=names):
            return {names: Fraction(1)}
        case Minus(operand=operand):
            return _times(_linear(operand), {(): Fraction(-1)})
        case Arithmetic(first=first, rest=rest):
            total = _linear(first)
            for sign, operand in rest:
                right = _linear(operand)
                if sign == "*":
                    total = _times(total, right)
                elif total is None or right is None:
                    return None
                else:
                    total = _plus(total, right, 1 if sign == "+" else -1)
            return total
    return None


def _plus(left: Mapping[Names, Fraction], right: Mapping[Names, Fraction], times: int) -> Mapping[Names, Fraction]:
    return {
        name: left.get(name, Fraction(0)) + times * right.get(name, Fraction(0))
        for name in dict.fromkeys((*left, *right))
    }


def _times(
    left: Mapping[Names, Fraction] | None, right: Mapping[Names, Fraction] | None
) -> Mapping[Names, Fraction] | None:
    """Return the product of two sums, one of which is a constant; None where none is."""
    for constant, total in ((left, right), (right, left)):
        if constant is not None and total is not None and constant.keys() <= {()}:
            return {name: factor * constant.get((), Fraction(0)) for name, factor in total.items()}
    return None


def _is_number(number: int, at: _Numbers) -> Term:
    return at.are_numbers[number]


def _added(left: Sequence[Fraction], right: Sequence[Fraction], times: int) -> tuple[Fraction, ...]:
    return tuple(a + times * b for a, b in zip(left, right, strict=True))


def _constants(system: System) -> list[Number]:
    """Return the numbers that the expressions of a system have."""
    nodes = (node for tree in system.trees for node in walk(tree))
    numbers = {node.value: None for node in nodes if isinstance(node, Constant) and kind(node.value) == "number"}
    return list(numbers)[:MAX_LIMITS]


def _unchanged(sums: list[tuple[Fraction, ...]], step: list[Fraction]) -> list[tuple[Fraction, ...]]:
    """Return what the combinations of sums are that a step does not change; it changes at least one of them."""
    changes = [sum((a * b for a, b in zip(factors, step, strict=True)), Fraction(0)) for factors in sums]
    pivot = next(number for number, change in enumerate(changes) if change)
    return [
        tuple(a - change / changes[pivot] * b for a, b in zip(factors, sums[pivot], strict=True))
        for number, (factors, change) in enumerate(zip(sums, changes, strict=True))
        if number != pivot
    ]


def _is_true(model: Any, term: Any) -> bool:
    return bool(z3.is_true(model.eval(term, model_completion=True)))


def _fraction(model: Any, number: Any) -> Fraction:
    return Fraction(model.eval(number, model_completion=True).as_fraction())
