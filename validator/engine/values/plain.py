"""Conditions that obviously have both values, and so need no reasoning.

Most conditions compare with a constant in the middle of the range of their types. Recognising that spares a clean
program the proof layers.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from stepward.validator.engine.values.domains import Domain, Domains
from stepward.validator.engine.values.states import references_of
from stepward.vm.expressions.operators import NUMBER, OPERATORS, Comparison, compare
from stepward.vm.expressions.syntax import Compare, Constant, Expression, Logic, Negation, Reference


def plainly_open(tree: Expression, domains: Domains) -> bool:
    """Return whether a condition is obviously true in some state and false in another."""
    match tree:
        case Compare(operator=operator, left=Reference(names=names), right=Constant(value=value)):
            return _is_inside(operator, value, domains.of(names))
        case Reference(names=names):
            return len(domains.of(names).booleans) > 1
        case Negation(operand=operand):
            return plainly_open(operand, domains)
        case Logic(operands=operands):
            return _share_no_names(operands) and all(plainly_open(operand, domains) for operand in operands)
    return False


def _share_no_names(operands: tuple[Expression, ...]) -> bool:
    """Whether no operand reads a name, or a field or owner of a name, that another operand reads."""
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
