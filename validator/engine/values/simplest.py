"""The simplest values of a type, for witnesses: 0, "", false, the first enum member, [] and {} where they fit.

Every value that is yielded is of the type, as the machine checks it. Without one, the type is too hard for these
attempts, or has no values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from decimal import ROUND_CEILING, Decimal
from itertools import islice
from typing import Any, Final

from stepward.vm.language.types import TypeSpec, fits
from stepward.vm.patterns.languages import shortest
from stepward.vm.values import ValueRefused, exact, freeze

MAX_CANDIDATES: Final = 16
"""The most values of one type that are tried."""

MAX_FILLED: Final = 100_000
"""The most code points of a text, and items of an array, that are made for a `minLength` or `minItems`."""

_ORDER: Final = ("integer", "number", "string", "boolean", "array", "object", "null")
_ANYTHING: Final = TypeSpec()


def simplest(spec: TypeSpec | None) -> tuple[Any, ...]:
    """Return values of a type, the simplest first; `spec` is None for any type."""
    return tuple(islice(fitting(_values(spec or _ANYTHING), spec), MAX_CANDIDATES))


def fitting(values: Iterable[Any], spec: TypeSpec | None) -> Iterator[Any]:
    """Yield the values that are of a type, frozen, each once."""
    keys: set[tuple[type, Any]] = set()
    for value in values:
        try:
            frozen = freeze(value)
        except ValueRefused:
            continue
        # 0 and false are equal in Python, but different here.
        key = (type(frozen), frozen)
        if key not in keys and fits(frozen, spec):
            keys.add(key)
            yield frozen


def _values(spec: TypeSpec) -> Iterator[Any]:
    if spec.enum is not None:
        yield from spec.enum
        return
    if spec.type is None:
        yield ""
    words = set(spec.kinds)
    for kind in _ORDER:
        if kind in words:
            yield from _OF[kind](spec)


def _numbers(spec: TypeSpec) -> Iterator[Any]:
    yield 0
    bounds = [bound.number for bound in (spec.lower_bound, spec.upper_bound) if bound is not None]
    for bound in bounds:
        yield bound
        yield int(Decimal(bound).to_integral_value(ROUND_CEILING))
        yield int(bound)
        yield from (bound + 1, bound - 1)
    if len(bounds) == 2:
        yield Decimal(bounds[0] + bounds[1]) / 2
    yield from (1, -1, 2)


def _strings(spec: TypeSpec) -> Iterator[Any]:
    yield ""
    if spec.pattern is not None:
        yield from shortest(spec.pattern, spec.max_length)
    yield from ("x", "xx", "x" * min(spec.min_length or 0, MAX_FILLED))


def _arrays(spec: TypeSpec) -> Iterator[Any]:
    yield ()
    for item in ("",) if spec.items is None else simplest(spec.items)[:2]:
        yield (item,)
        yield (item,) * min(spec.min_items or 0, MAX_FILLED)


def _objects(spec: TypeSpec) -> Iterator[Any]:
    known = spec.properties or {}
    choices = {name: simplest(known[name]) if name in known else ("",) for name in spec.required}
    if not all(choices.values()):
        return
    base = {name: values[0] for name, values in choices.items()}
    yield base
    optional = {name: simplest(inner) for name, inner in known.items() if name not in base}
    yield base | {name: values[0] for name, values in optional.items() if values}
    for name, values in choices.items():
        for value in values[1:3]:
            yield base | {name: value}


_OF: Final[dict[str, Callable[[TypeSpec], Iterator[Any]]]] = {
    "integer": _numbers,
    "number": _numbers,
    "string": _strings,
    "boolean": lambda _: iter((False, True)),
    "array": _arrays,
    "object": _objects,
    "null": lambda _: iter((None,)),
}


def beside(constant: Any) -> Iterator[Any]:
    """Yield the values that a comparison with a constant distinguishes: the constant, and values just beside it."""
    if isinstance(constant, bool) or constant is None:
        yield from (constant, not constant)
    elif isinstance(constant, int | Decimal):
        yield from (constant, exact(constant + 1), exact(constant - 1))
    elif isinstance(constant, str):
        yield from (constant, constant + "x")
    else:
        for member in constant:
            yield member
            yield (member,)
        yield from ("x", 0)
