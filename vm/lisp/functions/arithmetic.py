"""Numbers: exact integers and decimals, as in the language. Only what has no finite decimal form is rounded."""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

from stepward.vm.errors import EvaluationError
from stepward.vm.lisp.context import Context
from stepward.vm.lisp.faults import Fault, type_fault
from stepward.vm.lisp.functions.function_table import FunctionTable
from stepward.vm.lisp.values import kind, number
from stepward.vm.values import MAX_DIGITS, Number, ValueRefused, arithmetic, exact

SHELF: Final = FunctionTable("numbers")

ROUNDED_TO: Final = 34
"""Significant digits of a quotient or a root that has no finite decimal form."""

_ROUNDING: Final = decimal.Context(prec=ROUNDED_TO, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)
_EXACT: Final = decimal.Context(
    prec=2 * MAX_DIGITS, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN, traps=[decimal.Inexact, decimal.InvalidOperation]
)
_SMALLER: Final = "compute with smaller numbers"


def _too_long(function: str) -> Fault:
    return Fault("arithmetic_error", f"the result of `{function}` has over {MAX_DIGITS} digits", _SMALLER)


def _by_zero(function: str) -> Fault:
    hint = "test the divisor before: `(when-not (zero? n) …)`"
    return Fault("arithmetic_error", f"`{function}` divides by zero", hint)


def calculate(sign: str, left: Any, right: Any) -> Number:
    """Return the exact result of `+`, `-` or `*`; raises a Fault for what is no number, or is too long."""
    if type(left) is int and type(right) is int and -(10**18) < left < 10**18 and -(10**18) < right < 10**18:
        return left + right if sign == "+" else left - right if sign == "-" else left * right
    try:
        return arithmetic(sign, number(left, sign), number(right, sign))
    except EvaluationError:
        raise _too_long(sign) from None


def _as_language(value: Number | Fraction, function: str) -> Number:
    try:
        if isinstance(value, Fraction):
            return quotient(value.numerator, value.denominator, function)
        return exact(value)
    except ValueRefused:
        raise _too_long(function) from None


def quotient(left: Number, right: Number, function: str = "/") -> Number:
    """Return a quotient: exact where it has a finite decimal form, else rounded to ROUNDED_TO digits."""
    if not right:
        raise _by_zero(function)
    a, b = Decimal(left), Decimal(right)
    try:
        result = _EXACT.divide(a, b)
    except decimal.Inexact:
        result = _ROUNDING.divide(a, b)
    return _as_language(result, function)


@SHELF.function("+", "x …", 0, None, also=("+'",))
def add_all(ctx: Context, *values: Any) -> Number:
    """Add numbers."""
    total: Number = 0
    for value in values:
        total = calculate("+", total, value)
    return total


def add(ctx: Context, left: Any, right: Any) -> Number:
    """Add two numbers."""
    return calculate("+", left, right)


@SHELF.function("-", "x …", 1, None, also=("-'",))
def subtract(ctx: Context, first: Any, *values: Any) -> Number:
    """Subtract numbers from the first; one number alone is negated."""
    if not values:
        return calculate("-", 0, first)
    for value in values:
        first = calculate("-", first, value)
    return number(first, "-")


@SHELF.function("*", "x …", 0, None, also=("*'",))
def multiply(ctx: Context, *values: Any) -> Number:
    """Multiply numbers."""
    product: Number = 1
    for value in values:
        product = calculate("*", product, value)
    return product


@SHELF.function("/", "x y …", 1, None)
def divide(ctx: Context, first: Any, *values: Any) -> Number:
    """Divide; what has no finite decimal form is rounded to 34 digits."""
    if not values:
        return quotient(1, number(first, "/"))
    result = number(first, "/")
    for value in values:
        result = quotient(result, number(value, "/"))
    return result


@SHELF.function("inc", "x", 1, 1, also=("inc'",))
def inc(ctx: Context, value: Any) -> Number:
    """Add 1."""
    return calculate("+", number(value, "inc"), 1)


@SHELF.function("dec", "x", 1, 1, also=("dec'",))
def dec(ctx: Context, value: Any) -> Number:
    """Subtract 1."""
    return calculate("-", number(value, "dec"), 1)


def _parts(left: Any, right: Any, function: str) -> tuple[Fraction, Fraction]:
    a, b = Fraction(number(left, function)), Fraction(number(right, function))
    if not b:
        raise _by_zero(function)
    return a, b


@SHELF.function("quot", "x y", 2, 2)
def quot(ctx: Context, left: Any, right: Any) -> Number:
    """Divide and cut the fraction off."""
    a, b = _parts(left, right, "quot")
    return _as_language(math.trunc(a / b), "quot")


@SHELF.function("rem", "x y", 2, 2)
def rem(ctx: Context, left: Any, right: Any) -> Number:
    """Return the remainder, with the sign of the dividend."""
    a, b = _parts(left, right, "rem")
    return _as_language(a - b * math.trunc(a / b), "rem")


@SHELF.function("mod", "x y", 2, 2)
def mod(ctx: Context, left: Any, right: Any) -> Number:
    """Return the remainder, with the sign of the divisor."""
    a, b = _parts(left, right, "mod")
    return _as_language(a - b * math.floor(a / b), "mod")


def compared(left: Number, right: Number) -> int:
    """Return -1, 0 or 1 for two numbers."""
    return (left > right) - (left < right)


def _extreme(function: str, sign: int) -> Callable[..., Any]:
    def extreme(ctx: Context, *values: Any) -> Any:
        if len(values) == 1:
            return values[0]
        best = number(values[0], function)
        for value in values[1:]:
            if compared(number(value, function), best) == sign:
                best = value
        return best

    extreme.__doc__ = f"Return the {'greatest' if sign > 0 else 'least'} number."
    return extreme


SHELF.function("max", "x …", 1, None)(_extreme("max", 1))
SHELF.function("min", "x …", 1, None)(_extreme("min", -1))


@SHELF.function("abs", "x", 1, 1)
def abs_(ctx: Context, value: Any) -> Number:
    """Return a number without its sign."""
    one = number(value, "abs")
    return calculate("-", 0, one) if one < 0 else one


# -- rounding ----------------------------------------------------------------------------------------------------------


@SHELF.function("floor", "x", 1, 1)
def floor(ctx: Context, value: Any) -> int:
    """Round down to a whole number."""
    return math.floor(number(value, "floor"))


@SHELF.function("ceil", "x", 1, 1)
def ceil(ctx: Context, value: Any) -> int:
    """Round up to a whole number."""
    return math.ceil(number(value, "ceil"))


@SHELF.function("round", "x", 1, 1)
def round_(ctx: Context, value: Any) -> int:
    """Round to the nearest whole number, a half up."""
    return math.floor(Fraction(number(value, "round")) + Fraction(1, 2))


@SHELF.function("trunc", "x", 1, 1, also=("int",))
def trunc(ctx: Context, value: Any) -> int:
    """Cut the fraction off; of a character give the code point."""
    if isinstance(value, str) and len(value) == 1:
        return ord(value)
    return math.trunc(number(value, "int"))


@SHELF.function("double", "x", 1, 1, also=("float",))
def double(ctx: Context, value: Any) -> Number:
    """Return the number: all numbers are exact decimals."""
    return number(value, "double")


@SHELF.function("sqrt", "x", 1, 1)
def sqrt(ctx: Context, value: Any) -> Number:
    """Return the square root; what has no finite decimal form is rounded to 34 digits."""
    one = number(value, "sqrt")
    if one < 0:
        raise Fault("arithmetic_error", "`sqrt` needs a number that is not negative", "test it with `neg?` before")
    try:
        return _as_language(_EXACT.sqrt(Decimal(one)), "sqrt")
    except decimal.Inexact:
        return _as_language(_ROUNDING.sqrt(Decimal(one)), "sqrt")


@SHELF.function("pow", "x y", 2, 2)
def pow_(ctx: Context, base: Any, exponent: Any) -> Number:
    """Raise a number to a power; exact for whole exponents that are not negative, else rounded to 34 digits."""
    a, b = number(base, "pow"), number(exponent, "pow")
    if not a and b < 0:
        raise Fault("arithmetic_error", "`pow` divides by zero", "test the base before")
    if type(b) is int and abs(a) != 1 and a and abs(b * max(Decimal(a).adjusted(), 0)) > MAX_DIGITS:
        raise _too_long("pow")
    if type(b) is int and 0 <= b <= 4 * MAX_DIGITS:
        return _power(a, b)
    if a < 0 and type(b) is not int:
        raise Fault(
            "arithmetic_error", "a negative number has no power with a fraction", "use `abs`, or a whole exponent"
        )
    try:
        return _as_language(_ROUNDING.power(Decimal(a), Decimal(b)), "pow")
    except decimal.DecimalException:
        raise _too_long("pow") from None


def _power(base: Number, exponent: int) -> Number:
    result: Number = 1
    while exponent:
        if exponent & 1:
            result = calculate("*", result, base)
        exponent >>= 1
        if exponent:
            base = calculate("*", base, base)
    return result


# -- bits --------------------------------------------------------------------------------------------------------------


def _whole(value: Any, function: str) -> int:
    if type(value) is not int:
        raise type_fault(
            function, "a whole number", kind(value) if not isinstance(value, Decimal) else "one with a fraction"
        )
    return value


def _position(value: Any, function: str) -> int:
    at = _whole(value, function)
    if not 0 <= at <= 63:
        raise Fault("bounds_error", f"`{function}` needs a position from 0 to 63, not {at}", "use a smaller position")
    return at


def _bits(name: str, doc: str, combine: Callable[[int, int], int]) -> None:
    def run(ctx: Context, first: Any, *others: Any) -> int:
        result = _whole(first, name)
        for other in others:
            result = combine(result, _whole(other, name))
        return result

    run.__doc__ = doc
    SHELF.function(name, "x y …", 2, None)(run)


def _bit(name: str, doc: str, change: Callable[[int, int], Any]) -> None:
    def run(ctx: Context, value: Any, at: Any) -> Any:
        return _as_whole(change(_whole(value, name), _position(at, name)), name)

    run.__doc__ = doc
    SHELF.function(name, "x n", 2, 2)(run)


def _as_whole(value: Any, function: str) -> Any:
    return value if isinstance(value, bool) else _as_language(value, function)


_bits("bit-and", "Combine whole numbers bit by bit: both.", lambda a, b: a & b)
_bits("bit-or", "Combine whole numbers bit by bit: either.", lambda a, b: a | b)
_bits("bit-xor", "Combine whole numbers bit by bit: only one.", lambda a, b: a ^ b)
_bits("bit-and-not", "Clear the bits of the others.", lambda a, b: a & ~b)
_bit("bit-shift-left", "Shift bits to the left.", lambda value, at: value << at)
_bit("bit-shift-right", "Shift bits to the right, with the sign.", lambda value, at: value >> at)
_bit("bit-set", "Set a bit.", lambda value, at: value | 1 << at)
_bit("bit-clear", "Clear a bit.", lambda value, at: value & ~(1 << at))
_bit("bit-flip", "Change a bit.", lambda value, at: value ^ 1 << at)
_bit("bit-test", "Return whether a bit is set.", lambda value, at: bool(value >> at & 1))


@SHELF.function("bit-not", "x", 1, 1)
def bit_not(ctx: Context, value: Any) -> int:
    """Change all bits."""
    return ~_whole(value, "bit-not")
