"""Whether a text with references is of a type when values replace them (specs/language.md, "Types")."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import product
from math import ceil, floor, prod
from typing import Final, NamedTuple

from stepward.validator.recheck.blocks import Block, of_type, of_value
from stepward.validator.recheck.built import text_of
from stepward.validator.recheck.languages import may_match, whole
from stepward.validator.recheck.short_texts import PATTERN
from stepward.validator.recheck.types import covers, fits
from stepward.vm.expressions.syntax import Constant
from stepward.vm.language.types import TypeSpec

MAX_CHOICES: Final = 64
"""The most combinations of what stands in the places of a text that are looked at one by one."""

MAX_COUNTED: Final = 128
"""The lengths that patterns are asked for."""

_ANY_SIGNS: Final = "[\\x{0}-\\x{10ffff}]*"


class Piece(NamedTuple):
    """What may stand in a place: one text, or all texts of some lengths that match a pattern from end to end."""

    least: int
    most: int | None
    shape: str
    text: str | None = None


Given = TypeSpec | Constant | Block | None
"""What gives a reference its values; None for any value."""


def is_filled_of(parts: Iterable[Iterable[Given]], spec: TypeSpec) -> bool:
    """Return whether a text is certainly of a type; each of its parts is given by what its values may be."""
    known = [_pieces(one) for one in parts]
    if prod(map(len, known)) > MAX_CHOICES:
        known = [[_any_of(pieces)] for pieces in known]
    return all(_is_of(chosen, spec) for chosen in product(*known))


def _is_of(pieces: Sequence[Piece], spec: TypeSpec) -> bool:
    texts = [piece.text for piece in pieces if piece.text is not None]
    if len(texts) == len(pieces):
        return fits("".join(texts), spec)
    ends = [piece.most for piece in pieces if piece.most is not None]
    return covers(
        spec,
        TypeSpec.model_construct(
            type=("string",),
            min_length=sum(piece.least for piece in pieces),
            max_length=sum(ends) if len(ends) == len(pieces) else None,
            pattern="^" + "".join(f"(?:{piece.shape})" for piece in pieces) + "$",
        ),
    )


def _pieces(values: Iterable[Given]) -> list[Piece]:
    pieces: dict[Piece, None] = {}
    for value in values:
        match value:
            case None:
                pieces[Piece(0, None, _ANY_SIGNS)] = None
            case Constant(value=constant):
                pieces[_of_block(of_value(constant))] = None
            case Block():
                pieces[_of_block(value)] = None
            case TypeSpec(pattern=pattern):
                for block in of_type(value):
                    is_matched = pattern is not None and block.kind == "string" and not block.single
                    pieces[_matched(_of_block(block), pattern or "") if is_matched else _of_block(block)] = None
    return list(pieces)


def _literal(text: str) -> Piece:
    return Piece(len(text), len(text), "".join(f"\\x{{{ord(char):x}}}" for char in text), text)


def _of_block(block: Block) -> Piece:
    text = text_of(block)
    if text is not None:
        return _literal(text)
    if block.kind == "string":
        return _of_texts(block)
    if block.kind == "number":
        return _of_numbers(block)
    return Piece(0, None, _ANY_SIGNS)


def _of_texts(block: Block) -> Piece:
    least = 0 if block.low is None else max(floor(block.low) + 1, 0)
    most = None if block.high is None else ceil(block.high) - 1
    answers = {word: literal for (word, literal), answer in sorted(block.answers) if answer}
    if PATTERN in answers:
        return _matched(Piece(least, most, _ANY_SIGNS), answers[PATTERN])
    if "starts_with" in answers:
        return Piece(least, most, f"{_literal(answers['starts_with']).shape}{_ANY_SIGNS}")
    end = _literal(answers["ends_with"]).shape if "ends_with" in answers else ""
    return Piece(least, most, f"{_ANY_SIGNS}{end}")


def _matched(piece: Piece, pattern: str) -> Piece:
    """Return the texts of a piece in which a pattern is found."""
    least, most = _lengths(pattern)
    ends = [end for end in (most, piece.most) if end is not None]
    return Piece(max(least, piece.least), min(ends, default=None), whole(pattern))


@lru_cache(256)
def _lengths(pattern: str) -> tuple[int, int | None]:
    """Return bounds of the lengths of the texts in which a pattern is found."""
    lengths = range(MAX_COUNTED)
    least = bisect_left(lengths, True, key=lambda size: may_match(pattern, below=size + 1))
    most = bisect_left(lengths, True, key=lambda size: not may_match(pattern, above=size))
    return least, most if most < MAX_COUNTED else None


def _of_numbers(block: Block) -> Piece:
    """Return how the numbers of a block are written: in digits, without leading zeros and exponents."""
    is_positive = block.low is not None and (block.low >= 0 or (block.whole and block.low >= -1))
    sign = "" if is_positive else "-?"
    if not block.whole:
        return Piece(1, None, f"{sign}[0-9]+(?:\\.[0-9]+)?")
    if block.low is None or block.high is None:
        return Piece(1, None, f"{sign}[0-9]+")
    first, last = floor(block.low) + 1, ceil(block.high) - 1
    return Piece(1, max(len(str(first)), len(str(last))), f"{sign}[0-9]+")


def _any_of(pieces: Sequence[Piece]) -> Piece:
    """Return a piece with all texts of some pieces."""
    ends = [piece.most for piece in pieces if piece.most is not None]
    shape = "|".join(dict.fromkeys(piece.shape for piece in pieces))
    least = min((piece.least for piece in pieces), default=0)
    return Piece(least, max(ends, default=0) if len(ends) == len(pieces) else None, shape)
