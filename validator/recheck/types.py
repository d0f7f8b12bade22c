"""Membership of values in types, and inclusion of types, written from the language's page ("Types")."""

from __future__ import annotations

from decimal import Decimal
from functools import lru_cache
from typing import Any, Final

from stepward.validator.recheck.languages import covers as covers_texts
from stepward.vm.language.types import TypeSpec

WORDS: Final = frozenset({"boolean", "integer", "number", "string", "array", "object", "null"})
NUMBERS: Final = frozenset({"integer", "number"})
MAX_COUNTED: Final = 128
"""The most signs of a `minLength` that a pattern is asked for."""

NOTHING: Final = TypeSpec.model_construct(type=())
"""The type that has no value."""


def words(spec: TypeSpec) -> frozenset[str]:
    """Return the words for the kinds of value that a type allows; without `type` those of the members of `enum`."""
    if spec.type is not None:
        return frozenset(spec.type)
    if spec.enum is not None:
        return frozenset(kind for kind in WORDS if any(is_a(member, kind) for member in spec.enum))
    return WORDS


def allows(spec: TypeSpec, kind: str) -> bool:
    """Return whether a value of a kind may be of a type; an integer is a number."""
    return kind in words(spec)


def is_a(value: Any, kind: str) -> bool:
    """Return whether a value is of a kind."""
    match value:
        case None:
            return kind == "null"
        case bool():
            return kind == "boolean"
        case int():
            return kind in NUMBERS
        case Decimal():
            return kind == "number" or (kind == "integer" and value == value.to_integral_value())
        case str():
            return kind == "string"
        case dict():
            return kind == "object"
    return kind == "array"


def key_of(value: Any) -> Any:
    """Return a key that is equal for equal values of the language: `1` and `1.0` are equal, `1` and `true` are not."""
    match value:
        case bool():
            return "boolean", value
        case dict():
            return "object", frozenset((name, key_of(item)) for name, item in value.items())
        case list() | tuple():
            return "array", tuple(map(key_of, value))
    return value


class _Spec:
    """A type by identity, because comparing a long `enum` is slow."""

    __slots__ = ("spec",)

    def __init__(self, spec: TypeSpec) -> None:
        self.spec = spec

    def __hash__(self) -> int:
        return id(self.spec)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Spec) and other.spec is self.spec


@lru_cache(maxsize=256)
def _listed(spec: _Spec) -> frozenset[Any]:
    return frozenset(map(key_of, spec.spec.enum or ()))


def fits(value: Any, spec: TypeSpec) -> bool:
    """Return whether a value is of a type; a keyword restricts only the kind of value that it belongs to."""
    if spec.type is not None and not any(is_a(value, kind) for kind in spec.type):
        return False
    if spec.enum is not None and key_of(value) not in _listed(_Spec(spec)):
        return False
    if isinstance(value, str):
        is_short = spec.max_length is None or len(value) <= spec.max_length
        if spec.min_length is not None and len(value) < spec.min_length:
            return False
        return is_short and (spec.pattern is None or is_found(spec.pattern, value))
    if isinstance(value, dict):
        return all(name in value for name in spec.required) and all(
            _is_field(name, item, spec) for name, item in value.items()
        )
    if isinstance(value, list | tuple):
        if not (spec.min_items or 0) <= len(value) <= (len(value) if spec.max_items is None else spec.max_items):
            return False
        return spec.items is None or all(fits(item, spec.items) for item in value)
    if is_a(value, "number"):
        if spec.exclusive_minimum is not None and not value > spec.exclusive_minimum:
            return False
        if spec.exclusive_maximum is not None and not value < spec.exclusive_maximum:
            return False
        return not (spec.minimum is not None and value < spec.minimum) and not (
            spec.maximum is not None and value > spec.maximum
        )
    return True


def _is_field(name: str, value: Any, spec: TypeSpec) -> bool:
    if spec.properties is not None and name in spec.properties:
        return fits(value, spec.properties[name])
    additional = spec.additional_properties
    return fits(value, additional) if isinstance(additional, TypeSpec) else additional is not False


@lru_cache(maxsize=1024)
def is_pattern(text: str) -> bool:
    """Return whether RE2 accepts a text as a pattern."""
    import re2

    options = re2.Options()
    options.log_errors = False
    try:
        re2.compile(text, options)
    except re2.error:
        return False
    return True


def is_found(pattern: str, text: str) -> bool:
    """Return whether a pattern of RE2 is found in a text."""
    import re2

    options = re2.Options()
    options.log_errors = False
    return re2.search(pattern, text, options) is not None


def has_default(spec: TypeSpec) -> bool:
    """Return whether a type has a default; null counts where the type allows it."""
    return "default" in spec.model_fields_set and (spec.default is not None or allows(spec, "null"))


def covers(wide: TypeSpec, narrow: TypeSpec) -> bool:
    """Return whether every value of `narrow` is one of `wide`; false where that is not certain.

    Patterns are included where both are the same text, or where derivatives show it.
    """
    if narrow.enum is not None:
        return all(fits(member, wide) for member in narrow.enum if fits(member, narrow))
    kinds, known = words(narrow), words(wide)
    if wide.enum is not None or not all(kind in known or (kind == "integer" and "number" in known) for kind in kinds):
        return False
    return (
        (not kinds & NUMBERS or _covers_numbers(wide, narrow))
        and ("string" not in kinds or _covers_texts(wide, narrow))
        and (
            "array" not in kinds
            or (
                _covers_counts(wide, narrow)
                and (wide.items is None or (narrow.items is not None and covers(wide.items, narrow.items)))
            )
        )
        and ("object" not in kinds or _covers_objects(wide, narrow))
    )


def _covers_numbers(wide: TypeSpec, narrow: TypeSpec) -> bool:
    lows = [end for end in (narrow.minimum, narrow.exclusive_minimum) if end is not None]
    highs = [end for end in (narrow.maximum, narrow.exclusive_maximum) if end is not None]
    above, below = wide.exclusive_minimum, wide.exclusive_maximum
    open_low, open_high = narrow.exclusive_minimum, narrow.exclusive_maximum
    return (
        (wide.minimum is None or any(end >= wide.minimum for end in lows))
        and (wide.maximum is None or any(end <= wide.maximum for end in highs))
        and (above is None or any(end > above for end in lows) or (open_low is not None and open_low >= above))
        and (below is None or any(end < below for end in highs) or (open_high is not None and open_high <= below))
    )


def _covers_counts(wide: TypeSpec, narrow: TypeSpec) -> bool:
    """Return whether the arrays of `narrow` have numbers of items that `wide` allows."""
    is_short = wide.max_items is None or (narrow.max_items is not None and narrow.max_items <= wide.max_items)
    return is_short and (narrow.min_items or 0) >= (wide.min_items or 0)


def _covers_texts(wide: TypeSpec, narrow: TypeSpec) -> bool:
    if (narrow.min_length or 0) < (wide.min_length or 0) and not _are_long(narrow, wide.min_length or 0):
        return False
    is_short = wide.max_length is None or (narrow.max_length is not None and narrow.max_length <= wide.max_length)
    if is_short and wide.pattern in (None, narrow.pattern):
        return True
    return covers_texts(wide.pattern, narrow.pattern, narrow.max_length, None if is_short else wide.max_length)


def _are_long(narrow: TypeSpec, least: int) -> bool:
    """Return whether the pattern of a type lets all its texts have at least some length."""
    if narrow.pattern is None or least > MAX_COUNTED:
        return False
    return covers_texts(f"^[\\x{{0}}-\\x{{10ffff}}]{{{least}}}", narrow.pattern, narrow.max_length, None)


def _covers_objects(wide: TypeSpec, narrow: TypeSpec) -> bool:
    if not set(wide.required) <= set(narrow.required):
        return False
    names = {*(wide.properties or ()), *(narrow.properties or ()), None}
    return all(_covers_field(_field(wide, name), _field(narrow, name)) for name in names)


def _field(spec: TypeSpec, name: str | None) -> TypeSpec | bool:
    """Return the type of a field: True where it may hold anything, False where it may not exist; None is any other
    field."""
    if name is not None and spec.properties is not None and name in spec.properties:
        return spec.properties[name]
    return True if spec.additional_properties is None else spec.additional_properties


def _covers_field(wide: TypeSpec | bool, narrow: TypeSpec | bool) -> bool:
    if wide is True or narrow is False:
        return True
    if wide is False:
        return False
    return covers(wide, TypeSpec.model_construct() if narrow is True else narrow)
