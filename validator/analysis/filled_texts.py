"""The type of a text with references in it, from what may be written in their places."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import product
from math import ceil, floor, prod
from typing import Any, Final, NamedTuple, assert_never

from stepward.vm.expressions.syntax import Constant
from stepward.vm.expressions.template import parts
from stepward.vm.language.types import TypeSpec
from stepward.vm.patterns.languages import lengths_of, tree_of
from stepward.vm.patterns.syntax import Anchor, Chars, Choice, Node, Opaque, Repeat, Sequence
from stepward.vm.values import as_text

Given = TypeSpec | Constant | None
"""A type or a value that a reference may have; None for any value."""

MAX_TEXTS: Final = 64
"""The most texts that are listed one by one."""

_ANY: Final = "[\\x{0}-\\x{10ffff}]*"


class Written(NamedTuple):
    """Texts that may be written in one place: their lengths, and a pattern of the whole of each.

    `text` is the only one, where there is one.
    """

    shortest: int
    longest: int | None
    pattern: str
    text: str | None = None


_ANYTHING: Final = Written(0, None, _ANY)
_JSON: Final = Written(2, None, _ANY)


def filled_type(text: str, values_of: Callable[[tuple[str, ...]], Iterable[Given]]) -> TypeSpec:
    """Return a type that has every text which this one becomes when its references are replaced."""
    pieces = [[_only(piece)] if isinstance(piece, str) else _written(values_of(piece.names)) for piece in parts(text)]
    if (
        all(one.text is not None for alternatives in pieces for one in alternatives)
        and prod(map(len, pieces)) <= MAX_TEXTS
    ):
        texts = ("".join(one.text or "" for one in chosen) for chosen in product(*pieces))
        return TypeSpec.model_construct(type=("string",), enum=tuple(dict.fromkeys(texts)))
    longest = [one.longest for alternatives in pieces for one in alternatives]
    ends = [max((one.longest or 0 for one in alternatives), default=0) for alternatives in pieces]
    patterns = ("|".join(dict.fromkeys(one.pattern for one in alternatives)) for alternatives in pieces)
    return TypeSpec.model_construct(
        type=("string",),
        min_length=sum(min((one.shortest for one in alternatives), default=0) for alternatives in pieces),
        max_length=None if None in longest else sum(ends),
        pattern=f"^{''.join(f'(?:{one})' for one in patterns)}$",
    )


def _only(text: str) -> Written:
    return Written(len(text), len(text), "".join(f"\\x{{{ord(char):x}}}" for char in text), text)


def _written(values: Iterable[Given]) -> list[Written]:
    return list(dict.fromkeys(one for spec in values for one in _of(spec)))


def _of(value: Given) -> Iterator[Written]:
    match value:
        case None:
            yield _ANYTHING
        case Constant(value=constant):
            yield _of_value(constant)
        case TypeSpec() if value.enum is not None:
            yield from map(_of_value, value.members())
        case TypeSpec():
            for kind in sorted(value.kinds):
                yield from _of_kind(value, kind)


def _of_value(value: Any) -> Written:
    return _JSON if isinstance(value, dict | list | tuple) else _only(as_text(value))


def _of_kind(spec: TypeSpec, kind: str) -> Iterator[Written]:
    match kind:
        case "null":
            yield _only("null")
        case "boolean":
            yield from (_only("true"), _only("false"))
        case "integer":
            yield _of_numbers(spec, is_whole=True)
        case "number":
            yield _of_numbers(spec, is_whole=False)
        case "string":
            least, most = (0, None) if spec.pattern is None else lengths_of(spec.pattern)
            ends = [end for end in (most, spec.max_length) if end is not None]
            yield Written(max(spec.min_length or 0, least), min(ends, default=None), _inside(spec.pattern))
        case _:
            yield _JSON


def _of_numbers(spec: TypeSpec, *, is_whole: bool) -> Written:
    """Return how the numbers of a type are written: in plain digits."""
    low, high = spec.lower_bound, spec.upper_bound
    sign = "" if low is not None and low.number >= 0 else "-?"
    if not is_whole:
        return Written(1, None, f"{sign}[0-9]+(?:\\.[0-9]+)?")
    ends = None if low is None or high is None else (floor(low.number), ceil(high.number))
    return Written(1, None if ends is None else max(len(str(end)) for end in ends), f"{sign}[0-9]+")


def is_readable(pattern: str) -> bool:
    """Return whether all parts of a pattern are known."""
    tree = tree_of(pattern)
    return tree is not None and not _has(tree, Opaque)


def _inside(pattern: str | None) -> str:
    """Return a pattern of the whole of each text in which a pattern is found."""
    tree = None if pattern is None else tree_of(pattern)
    if pattern is None or tree is None or "\\Q" in pattern:  # a quote may not end in the pattern
        return _ANY
    inner, start, end = list(tree.parts) if isinstance(tree, Sequence) else [tree], _ANY, _ANY
    if pattern[0] == "^" and inner[:1] == [Anchor("start")]:
        inner, pattern, start = inner[1:], pattern[1:], ""
    if pattern[-1:] == "$" and inner[-1:] == [Anchor("end")]:
        inner, pattern, end = inner[:-1], pattern[:-1], ""
    return _ANY if any(_has(one, Anchor, Opaque) for one in inner) else f"{start}(?:{pattern}){end}"


def _has(node: Node, *kinds: type) -> bool:
    """Return whether a pattern has a part of some kinds."""
    match node:
        case Repeat(part=part):
            return _has(part, *kinds)
        case Sequence(parts=parts) | Choice(parts=parts):
            return any(_has(one, *kinds) for one in parts)
        case Chars() | Anchor() | Opaque():
            return isinstance(node, kinds)
        case _:
            assert_never(node)
