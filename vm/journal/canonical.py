"""Writes and reads values in records: RFC 8785 JSON without floats, so that anybody can compute the same bytes.

RFC 8785 has only doubles. Numbers that it would round, and references to sensitive values, are *tagged strings*: a text
that starts with `#` and a letter for its kind. A user's text that starts with `#` gets another `#` before it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any, Final, NamedTuple, NoReturn

from stepward.vm.errors import StepwardError
from stepward.vm.values import FrozenMap, ValueRefused, exact

LARGEST: Final = 2**53 - 1
"""The largest integer that every reader of JSON reads exactly."""

TAG: Final = "#"
NUMBER: Final = "#n"
SEALED: Final = "#v"


class Sealed(NamedTuple):
    """A sensitive value: its reference and commitment in records, and the value itself.

    `is_gone` means that it was erased: `value` is None, and the reference and the salted commitment stay.
    """

    reference: str
    commitment: str
    value: Any
    is_gone: bool = False


def has_gone(value: Any) -> bool:
    """Return whether a value, or one within it, was erased."""
    if isinstance(value, Sealed):
        return value.is_gone
    if isinstance(value, dict):
        return any(map(has_gone, value.values()))
    return isinstance(value, tuple) and any(map(has_gone, value))


class Secret(NamedTuple):
    """A sensitive value that is not sealed yet: it must not reach a record."""

    value: Any


class NotCanonicalError(StepwardError):
    """Bytes are not the canonical JSON of records."""


# `ensure_ascii=False` and these separators give the bytes of RFC 8785 for the data of records, except for the order of
# keys beyond the Basic Multilingual Plane: the RFC sorts by UTF-16 code units, Python by code points.
def _encoder() -> Callable[[Any, int], Iterable[str]]:
    """Return what writes JSON with sorted keys in pieces; `JSONEncoder.encode` would make a C encoder per text."""
    make: Any = getattr(json.encoder, "c_make_encoder", None)
    if make is None:  # not every Python has the C encoder
        plain = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":"), allow_nan=False)
        return lambda value, _: plain.iterencode(value)
    found: Callable[[Any, int], Iterable[str]] = make(
        None, _refuse_object, json.encoder.encode_basestring, None, ":", ",", True, False, False
    )
    return found


def _refuse_object(value: object) -> NoReturn:
    raise TypeError(f"a {type(value).__name__} is no JSON")


_pieces: Final = _encoder()
quoted: Final[Callable[[str], str]] = json.encoder.encode_basestring
"""Returns the canonical text of a text."""

_encode_in_order: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


def canonical(value: Any) -> str:
    """Return the RFC 8785 text of plain JSON data without floats, such as `portable` returns.

    Raises UnicodeEncodeError for half a surrogate pair, which values of the language can't have.
    """
    text = "".join(_pieces(value, 0))
    # A character beyond the plane takes two units of UTF-16; counting units is faster than checking each character.
    if text.isascii() or len(text.encode("utf-16-le")) == 2 * len(text):
        return text
    return _encode_in_order(_ordered(value))


def _ordered(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _ordered(value[key]) for key in sorted(value, key=_code_units)}
    return [_ordered(item) for item in value] if isinstance(value, list | tuple) else value


def _code_units(key: str) -> bytes:
    return key.encode("utf-16-be")


def read_canonical(raw: bytes) -> Any:
    """Return the plain JSON data in canonical bytes.

    Raises NotCanonicalError unless `canonical` writes exactly these bytes: for another order of keys, white space, a
    repeated key, a fraction, an integer beyond LARGEST, and anything that is not JSON.
    """
    try:
        text = raw.decode()
        data, _ = (_decode_exactly if _may_have_large(raw) else _decode)(text)  # extra text fails the comparison
        if canonical(data) == text:
            return data
    except (ValueError, RecursionError):
        raise NotCanonicalError("this is no JSON that a record can hold") from None
    raise NotCanonicalError("this JSON is not written the canonical way")


def _integer(text: str) -> int:
    number = int(text) if len(text) <= len(str(-LARGEST)) else LARGEST + 1
    return number if -LARGEST <= number <= LARGEST else _refuse_number(text)


def _refuse_number(text: str) -> NoReturn:
    raise ValueError(f"{text[:40]} stands without its tag")


def _may_have_large(raw: bytes) -> bool:
    """Return whether there may be an integer beyond LARGEST: checking each would double the time of reading."""
    return _TOO_MANY_DIGITS in raw.translate(_DIGITS_AS_ZEROS) or _NEAR_LARGEST.search(raw) is not None


_TOO_MANY_DIGITS: Final = b"0" * (len(str(LARGEST)) + 1)
_DIGITS_AS_ZEROS: Final = bytes.maketrans(b"123456789", b"000000000")
_NEAR_LARGEST: Final = re.compile(rb"9[0-9]{15}")  # LARGEST starts with 9, and has 16 digits

_decode: Final = json.JSONDecoder(parse_float=_refuse_number, parse_constant=_refuse_number).raw_decode
_decode_exactly: Final = json.JSONDecoder(
    parse_float=_refuse_number, parse_int=_integer, parse_constant=_refuse_number
).raw_decode


def portable(value: Any) -> Any:
    """Return a frozen value of the language as JSON data, with exact numbers, and references for sensitive values."""
    kind = type(value)
    if kind is str:
        return value if value[:1] != TAG else TAG + value
    if value is None or kind is bool:
        return value
    if kind is int:
        return value if -LARGEST <= value <= LARGEST else f"{NUMBER}{Decimal(value)}"
    if kind is Decimal:
        return f"{NUMBER}{value:f}"
    if kind is Sealed:
        return f"{SEALED}{value.reference}:{value.commitment}"
    if isinstance(value, dict):
        return {key: portable(item) for key, item in value.items()}
    assert isinstance(value, list | tuple), f"{kind} is no value of the language"
    return [portable(item) for item in value]


def restored(data: Any, unseal: Callable[[str, str], Sealed]) -> Any:
    """Return the value of data from `portable`; `unseal` returns the sensitive value of a reference and commitment.

    Raises NotCanonicalError for an unknown tag, and for data that `portable` would write differently.
    """
    try:
        return _restored(data, unseal)
    except RecursionError:
        raise NotCanonicalError("it is nested too deep") from None


def _restored(data: Any, unseal: Callable[[str, str], Sealed]) -> Any:
    kind = type(data)
    if kind is str:
        return data if data[:1] != TAG else _tagged(data, unseal)
    if kind is dict:
        return FrozenMap(
            {
                key: item if type(item) is str and item[:1] != TAG else _restored(item, unseal)
                for key, item in data.items()
            }
        )
    if kind is list:
        return tuple([_restored(item, unseal) for item in data])
    if data is None or kind is bool or (kind is int and -LARGEST <= data <= LARGEST):
        return data
    raise NotCanonicalError("a number that not every reader of JSON has exactly stands without its tag")


def _tagged(text: str, unseal: Callable[[str, str], Sealed]) -> Any:
    tag = text[:2]
    if tag == TAG + TAG:
        return text[1:]
    if tag == NUMBER:
        try:
            number = exact(Decimal(text[2:]))
        except (ArithmeticError, ValueRefused):
            raise NotCanonicalError(f"`{text[:40]}` is no number") from None
        if portable(number) == text:
            return number
        raise NotCanonicalError(f"`{text[:40]}` is not how its number is written")
    if tag == SEALED:
        reference, _, commitment = text[2:].partition(":")
        return unseal(reference, commitment)
    raise NotCanonicalError(f"`{text[:40]}` has a tag that this version does not know")


def opened(value: Any) -> Any:
    """Return a value with its sensitive parts as plain values; raises ErasedError if one was erased."""
    kind = type(value)
    if kind is Sealed:
        if value.is_gone:
            raise ErasedError(value.reference)
        return value.value
    if kind is Secret:
        return value.value
    if isinstance(value, dict):
        return FrozenMap((key, opened(item)) for key, item in value.items())
    if kind is tuple:
        return tuple(opened(item) for item in value)
    return value


def is_sealed(value: Any) -> bool:
    """Return whether a value, or a part of it, is sensitive."""
    if isinstance(value, Sealed | Secret):
        return True
    if isinstance(value, dict):
        return any(is_sealed(item) for item in value.values())
    return isinstance(value, tuple) and any(is_sealed(item) for item in value)


class ErasedError(StepwardError):
    """A sensitive value was erased: nobody can read it any more."""

    def __init__(self, reference: str) -> None:
        self.reference = reference
        super().__init__(f"the sensitive value `{reference}` was erased")
