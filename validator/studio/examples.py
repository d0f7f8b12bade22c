"""Values of a declared type: an example for who answers, and made-up answers in a sandbox; and a type in words."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, floor
from typing import Any, Final

from stepward.vm.language.type_words import WORDS
from stepward.vm.language.types import TypeSpec, refusal
from stepward.vm.patterns.languages import shortest
from stepward.vm.values import freeze, to_json

TEXT: Final = "an example"
MOST_ITEMS: Final = 20
MOST_NAMED: Final = 12
"""Properties, or members of an `enum`, that the words for a type name."""

_KINDS: Final = ("object", "array", "boolean", "string", "integer", "number", "null")


class NoExample(Exception):  # noqa: N818 - it is no error of anybody
    """No value of a type is easily found."""


def example_of(spec: TypeSpec | None) -> Any:
    """Return a value of a type as plain data; raises NoExample if none is easily found."""
    if spec is None:
        return TEXT
    for value in _candidates(spec):
        if refusal(freeze(value), spec) is None:
            return value
    raise NoExample


def _candidates(spec: TypeSpec) -> Iterator[Any]:
    yield from spec.members()
    if spec.has_default:
        yield spec.default
    for kind in _KINDS:
        if spec.admits(kind):
            yield from _of_kind(spec, kind)


def _of_kind(spec: TypeSpec, kind: str) -> Iterator[Any]:
    match kind:
        case "object":
            yield _object(spec)
        case "array":
            least = spec.min_items or 0
            if least <= MOST_ITEMS:
                yield [example_of(spec.items)] * max(least, 1)
                yield []
        case "boolean":
            yield from (True, False)
        case "string":
            yield from _texts(spec)
        case "integer" | "number":
            yield from _numbers(spec)
        case "null":
            yield None


def _object(spec: TypeSpec) -> dict[str, Any]:
    known = spec.properties or {}
    rest = spec.additional_properties
    found = {name: example_of(part) for name, part in known.items()}
    others = (name for name in spec.required if name not in known)
    return found | {name: example_of(rest if isinstance(rest, TypeSpec) else None) for name in others}


def _texts(spec: TypeSpec) -> Iterator[str]:
    if spec.pattern is not None:
        yield from shortest(spec.pattern, spec.max_length)
    text = TEXT if spec.max_length is None else TEXT[: spec.max_length]
    yield text.ljust(min(spec.min_length or 0, 1_000), ".")


def _numbers(spec: TypeSpec) -> Iterator[Any]:
    yield 1
    low, high = spec.lower_bound, spec.upper_bound
    if low is not None:
        yield from (low.number, ceil(low.number), floor(low.number) + 1)
    if high is not None:
        yield from (high.number, floor(high.number), ceil(high.number) - 1)
    if low is not None and high is not None:
        yield (low.number + high.number) / 2


def type_in_words(spec: TypeSpec | None) -> str:
    """Return in words what a value of a type is."""
    if spec is None:
        return "anything"
    if spec.enum is not None:
        shown = [to_json(freeze(one)) for one in spec.members()[:MOST_NAMED]]
        return f"one of {', '.join(shown)}{', …' if len(spec.enum) > MOST_NAMED else ''}"
    kinds = [kind for kind in _KINDS if spec.type is None or kind in spec.type]
    if len(kinds) == len(_KINDS):
        return "anything"
    return " or ".join(_kind_in_words(spec, kind) for kind in kinds)


def _kind_in_words(spec: TypeSpec, kind: str) -> str:
    if kind == "object" and spec.properties:
        parts = [
            f"`{name}` ({type_in_words(part)}{'' if name in spec.required else ', may be left out'})"
            for name, part in list(spec.properties.items())[:MOST_NAMED]
        ]
        return f"an object with {', '.join(parts)}{', …' if len(spec.properties) > MOST_NAMED else ''}"
    if kind == "array" and spec.items is not None:
        return f"an array, each item {type_in_words(spec.items)}"
    if kind in ("integer", "number"):
        word = "a whole number" if kind == "integer" else "a number"
        low, high = spec.lower_bound, spec.upper_bound
        limits = [] if low is None else [f"{'above' if low.is_open else 'from'} {low.number}"]
        limits += [] if high is None else [f"{'below' if high.is_open else 'to'} {high.number}"]
        return " ".join((word, *limits))
    pattern = f" that matches `{spec.pattern}`" if kind == "string" and spec.pattern is not None else ""
    return f"{WORDS[kind]}{pattern}"
