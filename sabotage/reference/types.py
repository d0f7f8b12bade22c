"""Types: a check of values against keywords with the meaning of JSON Schema."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from stepward.sabotage.reference.plain import kind, same

if TYPE_CHECKING:
    from stepward.vm.language.types import TypeSpec


def is_of(value: Any, spec: TypeSpec | None) -> bool:
    """Return whether a value is of a type; a keyword restricts only values of its own kind ("Types")."""
    if spec is None:
        return True
    if spec.type is not None and not any(_is_a(value, word) for word in spec.type):
        return False
    if spec.enum is not None and not any(same(value, member) for member in spec.enum):
        return False
    if kind(value) == "number":
        return _is_between(value, spec)
    if isinstance(value, str):
        fits = _has_size(value, spec.min_length, spec.max_length)
        return fits and (spec.pattern is None or is_found(spec.pattern, value))
    if isinstance(value, Mapping):
        return _is_object_of(value, spec)
    if not isinstance(value, list | tuple):
        return True
    return _has_size(value, spec.min_items, spec.max_items) and all(is_of(item, spec.items) for item in value)


def _is_between(value: Any, spec: TypeSpec) -> bool:
    return (
        (spec.minimum is None or value >= spec.minimum)
        and (spec.maximum is None or value <= spec.maximum)
        and (spec.exclusive_minimum is None or value > spec.exclusive_minimum)
        and (spec.exclusive_maximum is None or value < spec.exclusive_maximum)
    )


def _has_size(value: Any, least: int | None, most: int | None) -> bool:
    return (least is None or len(value) >= least) and (most is None or len(value) <= most)


def is_found(pattern: str, text: str) -> bool:
    """Whether a pattern of RE2 is found in a text ("Types, Patterns")."""
    import re2

    options = re2.Options()
    options.log_errors = False
    return re2.search(pattern, text, options) is not None


def _is_object_of(value: Mapping[str, Any], spec: TypeSpec) -> bool:
    if any(name not in value for name in spec.required):
        return False
    known, others = spec.properties or {}, spec.additional_properties
    for name, item in value.items():
        if name in known:
            if not is_of(item, known[name]):
                return False
        elif others is False or (others not in (None, True) and not is_of(item, others)):  # type: ignore[arg-type]
            return False
    return True


def _is_a(value: Any, word: str) -> bool:
    if word == "integer":
        return kind(value) == "number" and not isinstance(value, Decimal)  # whole numbers are ints here
    return kind(value) == word


def default_of(spec: TypeSpec | None) -> tuple[bool, Any]:
    """Return whether a type has a default, and which; null counts if the type accepts it ("Types, Choices")."""
    if spec is None or "default" not in spec.model_fields_set:
        return False, None
    return spec.default is not None or _admits_null(spec), spec.default


def _admits_null(spec: TypeSpec) -> bool:
    if spec.type is not None:
        return "null" in spec.type
    return spec.enum is None or None in spec.enum


def completed(values: Mapping[str, Any], specs: Mapping[str, TypeSpec | None]) -> dict[str, Any] | None:
    """Return the given values with defaults for the rest, or None if one is missing, unknown or of another type.

    "The program" 1 for arguments, 2 for inputs.
    """
    result = dict(values)
    for name, spec in specs.items():
        if name not in result:
            has_default, default = default_of(spec)
            if not has_default:
                return None
            result[name] = default
    is_fine = all(name in specs and is_of(value, specs[name]) for name, value in result.items())
    return result if is_fine else None


def hidden_paths(spec: TypeSpec | None, value: Any) -> set[tuple[str, ...]]:
    """Return the paths of the fields and items that a type marks `sensitive`; `()` is the whole value."""
    if spec is None:
        return set()
    if spec.sensitive:
        return {()}
    if isinstance(value, Mapping):
        known, others = spec.properties or {}, spec.additional_properties
        rest = None if isinstance(others, bool) else others
        return {(name, *path) for name, item in value.items() for path in hidden_paths(known.get(name, rest), item)}
    items = value if isinstance(value, list | tuple) else ()
    return {(f"[{at}]", *path) for at, item in enumerate(items) for path in hidden_paths(spec.items, item)}
