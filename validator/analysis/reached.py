"""What some nodes of a graph lead to. It imports nothing: results from the cache need it, too."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

N = TypeVar("N", bound=Hashable)


def reached(starts: Iterable[N], following: Callable[[N], Iterable[N]]) -> dict[N, None]:
    """Return what some nodes lead to, themselves included, in the order in which a search finds it."""
    found = dict.fromkeys(starts)
    pending = list(found)
    while pending:
        for target in following(pending.pop()):
            if target not in found:
                found[target] = None
                pending.append(target)
    return found
