"""Finds the name that a misspelt one stands for."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from stepward.vm.language.other_words import are_opposed
from stepward.vm.reading.source import Correction, Place

_MISSPELT: Final = 0.8
"""The similarity, by difflib, from which one name counts as a misspelling of another: `aprove` (0.92) of `approve`,
but not `retire_old` (0.67) of `keep_old`."""

MAX_CANDIDATES: Final = 400
"""Maximal number of names to search for a similar one: a program may have a finding, and so a search, for each."""


def alike(name: str, candidates: Iterable[str], n: int, cutoff: float = 0.6) -> list[str]:
    """Return the candidates most similar to a name. difflib is imported only if there is something to report."""
    from difflib import get_close_matches

    return get_close_matches(name, [one for one in candidates if not are_opposed(name, one)], n, cutoff)


def _words(name: str) -> list[str]:
    return sorted(name.replace("-", "_").lower().split("_"))


def _near(name: str, candidates: Collection[str], n: int, cutoff: float = 0.6) -> list[str]:
    """Return the candidates with the same words as a name, else those most similar to it; none of too many."""
    if len(candidates) > MAX_CANDIDATES:
        return []
    known = sorted(candidates)
    # The same words in another order beat similar letters: `count_orders` is `orders_count`.
    return [one for one in known if one != name and _words(one) == _words(name)] or alike(name, known, n, cutoff)


def only_near(name: str, candidates: Collection[str]) -> str | None:
    """Return the candidate that a name is surely a misspelling of, or None: it has to be similar, and the only one."""
    near = _near(name, candidates, n=2, cutoff=_MISSPELT)
    return near[0] if len(near) == 1 else None


def respelt(place: Place, name: str, candidates: Collection[str]) -> Correction | None:
    """Return the fix that replaces a misspelt name at `place` by the candidate that is surely meant, or None."""
    near = only_near(name, candidates)
    return Correction(place, near) if near else None


def near_words(name: str, candidates: Collection[str]) -> str:
    """Return a question that offers the candidate most similar to a name, or an empty text."""
    near = near_name(name, candidates)
    return f"did you mean `{near}`?" if near else ""


def near_name(name: str, candidates: Collection[str]) -> str | None:
    """Return the candidate most similar to a name, or None if none is similar."""
    return next(iter(_near(name, candidates, n=1)), None)
