"""Numbers of a witness: exact, finite decimals, and as simple as possible."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Final

from stepward.vm.values import MAX_DIGITS, Number, ValueRefused, exact

MAX_PLACES: Final = 60
"""The most decimal places of a number between two others."""


def number_of(fraction: Fraction) -> Number | None:
    """Return a fraction as a number of the language; None where it has no finite decimal, or too many digits."""
    places = next((count for count in range(MAX_DIGITS + 1) if not 10**count % fraction.denominator), None)
    return None if places is None else _written(fraction.numerator * 10**places // fraction.denominator, places)


def _written(digits: int, places: int) -> Number | None:
    try:
        return exact(Decimal((int(digits < 0), tuple(map(int, str(abs(digits)))), -places)))
    except (ValueRefused, ValueError):
        return None


def between(low: Number | None, high: Number | None, *, integral: bool) -> Number | None:
    """Return the simplest number strictly between two others: few decimal places first, then near to zero."""
    for places in range(1 if integral else MAX_PLACES):
        unit = 10**places
        first = None if low is None else math.floor(Fraction(low) * unit) + 1
        last = None if high is None else math.ceil(Fraction(high) * unit) - 1
        if first is not None and last is not None and first > last:
            continue
        nearest = 0
        if first is not None and first > 0:
            nearest = first
        elif last is not None and last < 0:
            nearest = last
        return _written(nearest, places)
    return None


def simplicity(value: object) -> tuple[int, int, int]:
    """Return a sort key for values of a witness: simple and short ones first, undefined last."""
    if isinstance(value, bool):
        return 0, int(not value), 0
    if isinstance(value, int | Decimal):
        text = str(abs(value))
        return 0, len(text), int(value < 0)
    if isinstance(value, str | tuple):
        return 0, len(value), 0
    return (1, 0, 0) if value is None or isinstance(value, dict) else (2, 0, 0)
