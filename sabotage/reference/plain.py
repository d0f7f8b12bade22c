"""Values of the language. A whole number is an int, any other number a Decimal.

Lists are tuples and objects are dicts, so that they can be compared with values of the machine.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Mapping
from decimal import Decimal
from fractions import Fraction
from hashlib import sha256
from typing import Any, Final

DIGITS: Final = 1_000
LEVELS: Final = 64
MOST_LEVELS: Final = 2 * LEVELS
"""The levels of nesting in what a step leaves (language.md, "Documents and limits")."""
MOST_NAMED: Final = 3
"""How many parts that failed the error of a parallel step names."""


class NoValue(Exception):  # noqa: N818 - it says what something is not
    """An object from outside is not a value of the language."""


class TooManyBytes(NoValue):
    """A value of a step has too many bytes."""


class Unworded(str):
    """The text of an error. The language does not define its words, so nothing may depend on them.

    It defines what they tell, though: `says` has texts that have to be in it, `hides` those that may not.
    """

    says: tuple[str, ...] = ()
    hides: tuple[str, ...] = ()

    @classmethod
    def telling(cls, text: str, says: Iterable[str], hides: Iterable[str] = ()) -> Unworded:
        """Return a text, with what it has to say and what it may not."""
        found = cls(text)
        found.says, found.hides = tuple(filter(None, says)), tuple(hides)
        return found


def said_in(why: object) -> tuple[str, ...]:
    """Return what an error has to say; nothing for what is none."""
    return why.says if isinstance(why, Unworded) else ()


def to_value(raw: Any, level: int = 0) -> Any:
    """Convert an object from outside to a value. Raises NoValue if it is not one ("Data" 5 and 6, the table of limits).

    An object that raises when it is read is not a value.
    """
    try:
        return _to_value(raw, level)
    except NoValue:
        raise
    except Exception as error:
        raise NoValue(str(error)) from None


def _to_value(raw: Any, level: int) -> Any:
    if raw is None or isinstance(raw, bool | Unworded):
        return raw
    if isinstance(raw, str):
        raw.encode()  # half a surrogate pair can't be encoded
        return str(raw)
    if isinstance(raw, int | float | Decimal):
        return to_number(raw)
    if level >= LEVELS:
        raise NoValue("nested too deep")
    if isinstance(raw, Mapping):
        return {_key(key): _to_value(item, level + 1) for key, item in raw.items()}
    if isinstance(raw, list | tuple):
        return tuple(_to_value(item, level + 1) for item in raw)
    raise NoValue(f"a {type(raw).__name__} is no value")


def _key(key: Any) -> str:
    if not isinstance(key, str):
        raise NoValue("a key is no text")
    key.encode()
    return str(key)


def to_number(raw: int | float | Decimal | Fraction) -> int | Decimal:
    """Return an exact number ("Data" 5): a float becomes its shortest decimal text, and `1.0` the integer 1.

    Raises NoValue for NaN, infinities, and over 1,000 digits before and after the point ("Documents and limits").
    """
    if isinstance(raw, float):
        if not math.isfinite(raw):
            raise NoValue("not finite")
        raw = Decimal(float.__repr__(raw))
    if isinstance(raw, Decimal):
        if not raw.is_finite():
            raise NoValue("not finite")
        _, digits, exponent = raw.as_tuple()
        assert isinstance(exponent, int)
        # Check the exponent first: 10 to the power of a billion is too long to write out.
        if any(digits) and (raw.adjusted() >= DIGITS or exponent < -DIGITS - len(digits)):
            raise NoValue("too many digits")
        raw = Fraction(raw) if any(digits) else 0
    fraction = Fraction(raw)
    decimals = _digits_after_point(fraction.denominator)
    whole = abs(fraction.numerator) * 10**decimals // fraction.denominator
    if whole >= 10 ** (DIGITS + 1) or max(len(str(whole)) - decimals, 1) + decimals > DIGITS:
        raise NoValue("too many digits")
    if not decimals:
        return int(fraction)
    return Decimal((int(fraction < 0), tuple(int(digit) for digit in str(whole)), -decimals))


def _digits_after_point(denominator: int) -> int:
    """Return the number of digits after the point of a fraction whose denominator has only the factors 2 and 5."""
    twos = fives = 0
    while denominator % 2 == 0:
        denominator, twos = denominator // 2, twos + 1
    while denominator % 5 == 0:
        denominator, fives = denominator // 5, fives + 1
    assert denominator == 1, "no operator divides"
    return max(twos, fives)


def kind(value: Any) -> str:
    """Return the kind of a value, one of six. Integer and number are one kind; a boolean is not a number ("Conditions"
    2)."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | Decimal):
        return "number"
    if isinstance(value, str):
        return "string"
    return "object" if isinstance(value, Mapping) else "array"


def same(left: Any, right: Any) -> bool:
    """Return whether two values are equal, at any depth: `1` and `1.0` are, `1` and `true` are not."""
    if kind(left) != kind(right):
        return False
    if isinstance(left, Mapping):
        return left.keys() == right.keys() and all(same(item, right[key]) for key, item in left.items())
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(same(a, b) for a, b in zip(left, right, strict=True))
    if isinstance(left, Unworded) and isinstance(right, Unworded) and left.says != right.says:
        return False  # the machine writes what they tell into its own words
    return bool(left == right)


def written(value: Any) -> str:
    """Return a value as it is written into longer text ("Data, Choices"): plain digits, JSON with sorted keys."""
    return value if isinstance(value, str) else _json(value, ", ", ": ")


def is_worded(value: Any) -> bool:
    """Return whether the language defines every text in a value: an error in it has words of the machine's own."""
    if isinstance(value, Mapping):
        return all(map(is_worded, value.values()))
    return all(map(is_worded, value)) if isinstance(value, list | tuple) else not isinstance(value, Unworded)


def size(value: Any) -> int:
    """Return the size of a value in bytes of the journal's JSON, as limits count it.

    A value with too many levels is too large for every limit.
    """
    return sys.maxsize if _levels(value) > MOST_LEVELS else len(_json(_recorded(value), ",", ":").encode())


def _levels(value: Any) -> int:
    """Return how deep lists and objects are nested in a value."""
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else None
    return 0 if inner is None else 1 + max(map(_levels, inner), default=0)


def digest_of(value: Any) -> str:
    """Return the digest of a value in the journal's JSON, as policies name the arguments of a call."""
    return sha256(_json(_recorded(value), ",", ":").encode()).hexdigest()


def _recorded(value: Any) -> Any:
    """Return a value as records write it (specs/journal.md, "Canonical JSON"): what JSON has no exact number for is a
    text, and a text that begins like one has a sign more."""
    if isinstance(value, str):
        return f"#{value}" if value.startswith("#") else value
    if isinstance(value, Decimal) or (type(value) is int and abs(value) >= 1 << 53):
        return f"#n{value:f}" if isinstance(value, Decimal) else f"#n{value}"
    if isinstance(value, Mapping):
        return {key: _recorded(item) for key, item in value.items()}
    return [_recorded(item) for item in value] if isinstance(value, list | tuple) else value


def _json(value: Any, comma: str, colon: str) -> str:
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    if isinstance(value, int | Decimal):
        return f"{value:f}" if isinstance(value, Decimal) else str(value)
    if isinstance(value, Mapping):
        fields = (
            json.dumps(key, ensure_ascii=False) + colon + _json(value[key], comma, colon) for key in sorted(value)
        )
        return "{" + comma.join(fields) + "}"
    return "[" + comma.join(_json(item, comma, colon) for item in value) + "]"
