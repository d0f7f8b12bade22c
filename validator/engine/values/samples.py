"""What needs no reasoning: conditions that plainly have both values, and states tried at a guess, always the same ones.

Most conditions are compared with a constant in the midst of what their types admit. Seeing that, or meeting both
values among a few states, spares a clean program the layers that prove.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from itertools import islice
from random import Random
from typing import Any, Final

from stepward.validator.engine.values.domains import Domain, Domains, Names
from stepward.validator.engine.values.states import State, is_possible, outcome, references_of, with_owners
from stepward.vm.errors import EvaluationError
from stepward.vm.expressions.evaluator import evaluate
from stepward.vm.expressions.operators import NUMBER, OPERATORS, Comparison, compare
from stepward.vm.expressions.syntax import Arithmetic, Compare, Constant, Expression, Logic, Negation, Reference, walk
from stepward.vm.values import FrozenMap, Number, ValueRefused, exact

SAMPLES: Final = 300
"""States that are tried."""

MAX_MEMBERS: Final = 16
"""Members of an enum that other references are tried with."""

MAX_TEXTS: Final = 200
"""Members of an enum that a reference to it is tried with."""

MAX_LENGTH: Final = 5_000
"""Code points of a text that is tried for its length."""


def plainly_open(tree: Expression, domains: Domains) -> bool:
    """Return whether a condition is true in some state and false in another, where that is plain to see."""
    match tree:
        case Compare(operator=operator, left=Reference(names=names), right=Constant(value=value)):
            return _is_inside(operator, value, domains.of(names))
        case Reference(names=names):
            return len(domains.of(names).booleans) > 1
        case Negation(operand=operand):
            return plainly_open(operand, domains)
        case Logic(operands=operands):
            return _are_apart(operands) and all(plainly_open(operand, domains) for operand in operands)
    return False


def _are_apart(operands: tuple[Expression, ...]) -> bool:
    """Whether each operand reads a name that no other one reads, or has a field of."""
    names = [name for operand in operands for name in references_of([operand])]
    return all(
        one[: len(two)] != two and two[: len(one)] != one
        for number, one in enumerate(names)
        for two in names[number + 1 :]
    )


def _is_inside(operator: Comparison, value: Any, domain: Domain) -> bool:
    row = OPERATORS[operator]
    if isinstance(value, bool):
        return row.takes == "alike" and len(domain.booleans) > 1
    if isinstance(value, int | Decimal):
        if not domain.has_number(value) or row.takes not in ("alike", NUMBER):
            return False
        beside = (number for number in (value - 1, value + 1) if domain.has_number(number))
        return any(compare(operator, number, value) is not compare(operator, value, value) for number in beside)
    if isinstance(value, str):
        if domain.forms:
            return False
        if domain.any_text:
            return row.asks is not None and (domain.max_length is None or 0 < len(value) < domain.max_length)
        return row.takes == "alike" and value in domain.texts and len(domain.texts) > 1
    return False


def sampled(trees: Iterable[Expression], domains: Domains) -> Iterator[State]:
    """Yield possible states of what conditions read, made of their constants and of what lies beside these."""
    trees = tuple(trees)
    names = with_owners(references_of(trees), domains)
    constants = [value for tree in trees for value in _constants(tree)]
    near = {name: list(_values(domains.of(name), constants)) for name in names}
    # What is compared with another reference needs values that the other one can have.
    for domain in map(domains.of, names):
        constants += [bound for one in domain.ranges for bound in (one.low, one.high) if bound is not None]
        constants += domain.examples[:MAX_MEMBERS]
    wide = {name: list(_values(domains.of(name), constants)) for name in names}
    for tree in trees:
        yield from islice(_aimed(tree, near, domains), 1)
    random = Random(0)
    for number in range(SAMPLES):
        state: dict[Names, Any] = {}
        for name, pool in (wide if number % 2 else near).items():
            owner = domains.parent(name)
            if pool and (owner is None or isinstance(state.get(owner), dict)):
                state[name] = pool[0] if number == 0 else random.choice(pool)
        if is_possible(state, names, domains):
            yield state


def _aimed(tree: Expression, pools: Mapping[Names, list[Any]], domains: Domains) -> Iterator[State]:
    """Yield states that make a condition true, one term of a sum chosen so that the sum is beside what it is held to.

    Among many cases over one sum nobody meets each by chance.
    """
    simple: dict[Names, Any] = {}
    for name, pool in pools.items():
        owner = domains.parent(name)
        if pool and (owner is None or isinstance(simple.get(owner), dict)):
            simple[name] = pool[0]
    for node in walk(tree):
        match node:
            case Compare(left=Arithmetic() as calculation, right=Constant(value=value)) if _is_number(value):
                for target in (value, exact(value + 1), exact(value - 1)):
                    for state in _summing_up(calculation, target, simple):
                        if is_possible(state, pools, domains) and outcome(tree, state) is True:
                            yield state


def _summing_up(calculation: Arithmetic, target: Number, simple: State) -> Iterator[State]:
    """Yield states in which one of the references that are added or taken away makes a calculation come to a value."""
    for sign, term in (("+", calculation.first), *calculation.rest):
        if isinstance(term, Reference) and term.names in simple and sign != "*":
            without: State = {**simple, term.names: 0}
            try:
                rest = evaluate(calculation, without.__getitem__)
                yield {**simple, term.names: exact(target - rest if sign == "+" else rest - target)}
            except (EvaluationError, ValueRefused, KeyError):
                continue


def _is_number(value: Any) -> bool:
    return isinstance(value, int | Decimal) and not isinstance(value, bool)


def _constants(tree: Expression) -> Iterator[Any]:
    for node in walk(tree):
        if isinstance(node, Constant):
            yield from node.value if isinstance(node.value, tuple) else (node.value,)


def _values(domain: Domain, constants: list[Any]) -> Iterator[Any]:
    numbers: list[Number] = [0, 1, 1_000_000, *(one for one in constants if isinstance(one, int | Decimal))]
    texts = ["", *(one for one in constants if isinstance(one, str))]
    texts += ["x" * int(number) for number in numbers if 0 < number <= MAX_LENGTH]
    options: list[Any] = [True, False, None, FrozenMap(), (), *domain.examples[:MAX_TEXTS]]
    options += [exact(number + step) for number in numbers for step in (0, 1, -1)]
    options += [text + end for text in texts for end in ("", "x")]
    options += [(one,) for one in constants]
    seen: set[tuple[type, str]] = set()
    for value in options:
        key = (type(value), repr(value))
        if key not in seen and domain.admits(value):
            seen.add(key)
            yield value
