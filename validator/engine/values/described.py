"""Classes as certificates write them: each by the cuts around its representative value."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from math import ceil, floor
from typing import Any

from stepward.validator.engine.values.cuts import Cuts
from stepward.validator.engine.values.domains import Domain
from stepward.validator.engine.values.states import UNDEFINED
from stepward.vm.expressions.operators import kind
from stepward.vm.values import Number


def described(value: Any, domain: Domain, cuts: Cuts, *, by_source: bool = False) -> Any:
    """Return the description of the class of a value in a domain.

    `by_source` leaves out the bounds of the domain as cuts, for a value that one of several sources gives.
    """
    if value is UNDEFINED:
        return "undefined"
    match kind(value):
        case "null":
            return "null"
        case "number":
            bounds = [] if by_source else [one for span in domain.ranges for one in (span.low, span.high)]
            points = {*cuts.numbers, *(one for one in bounds if one is not None), *([value] if cuts.whole else [])}
            return value if value in points else {"number": _between(value, points)}
        case "string":
            return _text(value, domain, cuts, by_source=by_source)
        case "array":
            if by_source and (cuts.members or cuts.whole) and _has_no_object(value):
                return {"list": _listed(value)}
            return {"array": _length(len(value), cuts.lengths) if cuts.asks_length else {}}
        case "object":
            return "object"
    return value


def _has_no_object(value: tuple[Any, ...]) -> bool:
    """Return whether an array has scalars only, and arrays of such."""
    return all(_has_no_object(one) if kind(one) == "array" else kind(one) != "object" for one in value)


def _listed(value: tuple[Any, ...]) -> list[Any]:
    return [_listed(one) if kind(one) == "array" else one for one in value]


def _between(value: Number, points: Iterable[Number]) -> dict[str, Number]:
    ordered = sorted(points)
    position = bisect_left(ordered, value)
    low = {"above": ordered[position - 1]} if position else {}
    return low | ({"below": ordered[position]} if position < len(ordered) else {})


def _text(value: str, domain: Domain, cuts: Cuts, *, by_source: bool) -> Any:
    literals = {atom.literal for atom in cuts.atoms if atom.question == "is"}
    is_known = value in literals or value in domain.texts or not domain.any_text
    # What is joined of a text is known only by the text.
    if is_known or (by_source and cuts.whole) or (domain.max_length == 0 and not domain.forms):
        return {"text": value}
    lengths: dict[str, int] = {}
    if cuts.asks_length:
        bounds = set() if by_source or domain.max_length is None else {domain.max_length}
        lengths = _length(len(value), cuts.lengths | bounds)
    questions = [atom for atom in cuts.atoms if atom.question != "is"]
    answers = {
        word: [list(atom) for atom in questions if atom.of(value) is is_yes]
        for word, is_yes in (("yes", True), ("no", False))
    }
    return {"texts": {word: atoms for word, atoms in answers.items() if atoms} | lengths}


def _length(length: int, cuts: set[Number]) -> dict[str, int]:
    """Return the cuts around a length, both excluded; a length that is a cut is a class of its own."""
    points = sorted({0, *cuts})
    if length in points:
        return {"above": length - 1, "below": length + 1}
    position = bisect_left(points, length)
    low = {"above": floor(points[position - 1])} if position else {}
    return low | ({"below": ceil(points[position])} if position < len(points) else {})
