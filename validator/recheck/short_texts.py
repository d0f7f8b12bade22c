"""Whether a short text gives wanted answers to some questions: found by trying all short texts."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from itertools import product
from typing import Final

from stepward.validator.recheck.types import is_found

MAX_TRIED: Final = 20_000
"""The most texts that are tried; with more candidates, one is assumed to exist."""


@lru_cache(maxsize=4096)
def may_exist(
    answers: frozenset[tuple[tuple[str, str], bool]], but: frozenset[str], shortest: int, longest: int
) -> bool:
    """Return whether a text of `shortest` to `longest` characters, not in `but`, may answer as `answers`.

    Characters that are in no literal are equivalent: one of them is enough. No question is about a pattern.
    """
    if any(answer and len(literal) > longest for (_, literal), answer in answers):
        return False
    chars = sorted({char for (_, literal), _ in answers for char in literal}.union(*but))
    chars.append(next(chr(code) for code in range(0x110000) if chr(code) not in chars))
    if longest > MAX_TRIED.bit_length() or sum(len(chars) ** size for size in range(longest + 1)) > MAX_TRIED:
        return True
    texts = ("".join(chosen) for size in range(shortest, longest + 1) for chosen in product(chars, repeat=size))
    return any(
        text not in but and all(ANSWERS[question](text, literal) is answer for (question, literal), answer in answers)
        for text in texts
    )


PATTERN: Final = "matches"
"""The question whose literal is a pattern."""

ANSWERS: Final[dict[str, Callable[[str, str], bool]]] = {
    "contains": str.__contains__,
    "starts_with": str.startswith,
    "ends_with": str.endswith,
    PATTERN: lambda text, pattern: is_found(pattern, text),
}
