"""The values of the language: immutable, with exact numbers and without NaN."""

from __future__ import annotations

import decimal
import math
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NoReturn

from stepward.vm.errors import EvaluationError, StepwardError

if TYPE_CHECKING:
    from json import JSONEncoder

Number = int | decimal.Decimal

MAX_DIGITS: Final = 1_000
"""Maximal number of digits of a number written out in full, so that arithmetic stays bounded."""

MAX_DEPTH: Final = 64
"""Maximal nesting of lists and objects in one value."""

# The product of two accepted numbers has at most twice the digits on each side of the point: exact in this context.
_EXACT: Final = decimal.Context(
    prec=4 * MAX_DIGITS,
    Emax=decimal.MAX_EMAX,
    Emin=decimal.MIN_EMIN,
    traps=[decimal.Inexact, decimal.InvalidOperation, decimal.Overflow],
)
_LARGEST_INT: Final = 10**MAX_DIGITS


class ValueRefused(StepwardError):  # noqa: N818 - reads better where it is caught than with a suffix
    """A value is not one of the language: it is NaN, too long, too deep, or of a type that JSON does not have."""


class TooLarge(ValueRefused):
    """A value has more than the `most` bytes that it may have."""

    def __init__(self, most: int) -> None:
        super().__init__(f"it has more than {most} bytes")


class FrozenMap(dict[str, Any]):
    """An object value: a dict that refuses to change, so that code outside of the machine can't rewrite a run."""

    __slots__ = ()

    def _refuse(self, *_args: object, **_kwargs: object) -> NoReturn:
        raise TypeError("an object value of a program can't be changed; make a dict of it first")

    __setitem__ = __delitem__ = clear = pop = popitem = setdefault = update = __ior__ = _refuse

    # Pydantic shares a default value that can be hashed; any other it copies for every step.
    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))

    def __copy__(self) -> FrozenMap:
        return self

    def __deepcopy__(self, memo: object) -> FrozenMap:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return (FrozenMap, (dict(self),))


def exact(number: float | Number) -> Number:
    """Return the value of the language for `number`: an int if it is whole, else a normalized Decimal.

    A float counts as its shortest decimal text. Raises ValueRefused for NaN, infinities and over MAX_DIGITS digits.
    """
    if type(number) is int:
        if -_LARGEST_INT < number < _LARGEST_INT:
            return number
        raise ValueRefused(f"a number has over {MAX_DIGITS} digits")
    if isinstance(number, int):
        return exact(int(number))
    if isinstance(number, float):
        if not math.isfinite(number):
            raise ValueRefused("a number must be finite, not NaN or an infinity")
        # A subclass (numpy has one) may have a `__repr__` of its own.
        number = decimal.Decimal(float.__repr__(number))
    assert isinstance(number, decimal.Decimal)
    if not number.is_finite():
        raise ValueRefused("a number must be finite, not NaN or an infinity")
    if not number:
        return 0
    exponent = number.as_tuple().exponent
    assert isinstance(exponent, int)
    if number.adjusted() >= MAX_DIGITS or (exponent < 0 and _written_digits(number) > MAX_DIGITS):
        raise ValueRefused(f"a number has over {MAX_DIGITS} digits")
    normal = number.normalize(_EXACT)
    return int(normal) if normal == normal.to_integral_value() else normal


def _written_digits(number: decimal.Decimal) -> int:
    """Count the digits of a fraction written without an exponent and without trailing zeros."""
    _, digits, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    trailing = len(digits) - len("".join(map(str, digits)).rstrip("0"))
    return max(number.adjusted() + 1, 1) + max(-(exponent + trailing), 0)


def arithmetic(operator: str, left: Number, right: Number) -> Number:
    """Return the exact sum, difference or product; raises EvaluationError when it has over MAX_DIGITS digits."""
    a, b = decimal.Decimal(left), decimal.Decimal(right)
    compute = {"+": _EXACT.add, "-": _EXACT.subtract, "*": _EXACT.multiply}[operator]
    try:
        return exact(compute(a, b))
    except (ValueRefused, decimal.DecimalException):
        raise EvaluationError(f"the result of `{operator}` has over {MAX_DIGITS} digits") from None


class ByteBudget:
    """A budget of bytes of canonical JSON, spent while a value is copied.

    A list that holds one list many times, as YAML aliases make it, is small in memory and huge when written out: the
    copy has to stop early. The bytes taken never exceed those of the text.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._left = most

    def take(self, size: int) -> None:
        """Spend `size` bytes; raises TooLarge when fewer are left."""
        self._left -= size
        if self._left < 0:
            raise TooLarge(self.most)


def freeze(value: object, depth: int = 0, room: ByteBudget | None = None) -> Any:
    """Return an immutable copy of a JSON-like value with exact numbers.

    Lists become tuples, dicts become FrozenMap. Raises ValueRefused for values that the language does not have, and
    TooLarge for one that exceeds `room`.
    """
    if room is not None:
        room.take(_least_size(value))
    if isinstance(value, str):
        return _text(value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, (int, float, decimal.Decimal)):
        return exact(value)
    if depth >= MAX_DEPTH:
        raise ValueRefused(f"a value is nested deeper than {MAX_DEPTH} levels")
    if isinstance(value, (dict, Mapping)):
        return FrozenMap({_key(key, room): freeze(item, depth + 1, room) for key, item in value.items()})
    if isinstance(value, list | tuple):
        return tuple(freeze(item, depth + 1, room) for item in value)
    raise ValueRefused(f"a value must be text, a number, true, false, null, a list or an object, not {_kind(value)}")


def _least_size(value: object) -> int:
    """Return a lower bound of a value's bytes of canonical JSON, without its items."""
    kind = type(value)
    if kind is str:
        return len(value) + 2  # type: ignore[arg-type]
    return max(len(value) + 1, 2) if kind is list or kind is tuple else 1  # type: ignore[arg-type]


def _key(key: object, room: ByteBudget | None) -> str:
    if not isinstance(key, str):
        raise ValueRefused(f"a key of an object must be text, not `{key}`")
    if room is not None:
        room.take(len(key) + 3)
    return _text(key)


def _text(text: str) -> str:
    # Half a surrogate pair can't be written as UTF-8: a journal that held one could not be saved.
    try:
        if not text.isascii():
            text.encode()
    except UnicodeEncodeError:
        raise ValueRefused("half a surrogate pair is no text") from None
    return str.__str__(text)


def _kind(value: object) -> str:
    return f"a {type(value).__name__}"


def as_text(value: Any) -> str:
    """Return a value as it is written inside a longer text: a text unchanged, a number in plain digits, else JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    if isinstance(value, decimal.Decimal):
        return format(value, "f")
    if isinstance(value, int):
        return format(decimal.Decimal(value), "f")
    assert isinstance(value, Mapping | list | tuple), "what stands in a text was frozen before"
    # The order in which a tool happened to write an object must not change what a model is asked.
    parts: list[str] = []
    _write_json(value, 0, 0, parts, in_order=False)
    return "".join(parts)


def to_json(value: Any, indent: int = 0) -> str:
    """Return a value as JSON text, with exact numbers and the order of its keys unchanged.

    `indent` is the number of spaces of one level; 0 gives a single line.
    """
    parts: list[str] = []
    _write_json(value, indent, 0, parts)
    return "".join(parts)


def _quoted(text: str) -> str:
    return _encoder().encode(text)


@cache
def _encoder() -> JSONEncoder:
    from json import JSONEncoder

    return JSONEncoder(ensure_ascii=False)


def _write_json(value: Any, indent: int, level: int, parts: list[str], *, in_order: bool = True) -> None:
    """Append the pieces of a value as JSON text to `parts`."""
    if isinstance(value, str):
        parts.append(_quoted(value))
        return
    is_object = isinstance(value, (dict, Mapping))
    if not is_object and not isinstance(value, list | tuple):
        parts.append(as_text(value))
        return
    opening, closing = ("{", "}") if is_object else ("[", "]")
    if not value:
        parts.append(opening + closing)
        return
    pad = "\n" + " " * (indent * (level + 1)) if indent else ""
    separator = "," + (pad or " ")
    before = opening + pad
    entries: Any = ((None, item) for item in value)
    if is_object:
        entries = value.items() if in_order else sorted(value.items())
    for key, item in entries:
        parts.append(before if key is None else before + _quoted(key) + ": ")
        _write_json(item, indent, level + 1, parts, in_order=in_order)
        before = separator
    parts.append(("\n" + " " * (indent * level) if indent else "") + closing)
