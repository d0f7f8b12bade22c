"""What some nodes of a graph lead to. It imports nothing: results from the cache need it, too."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

N = TypeVar("N", bound=Hashable)


def reached(starts: Iterable[N], following: Callable[[N], Iterable[N]]) -> dict[N, None]:
    """Return what some nodes lead to, themselves included, in the order in which a search finds it."""
    visited = dict.fromkeys(starts)
    pending = list(visited)
    while pending:
        for target in following(pending.pop()):
            if target not in visited:
                visited[target] = None
                pending.append(target)
    return visited
