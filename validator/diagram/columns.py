"""Folds a long picture into columns, or a wide one into rows, so that its shape is close to the shape of a screen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from stepward.validator.diagram.picture import Edge, Picture, holders

MAX_COLUMNS: Final = 12

MAX_STEPS: Final = 30
"""A picture with more steps is folded; a collapsed one is folded at any size."""


class _Screen(NamedTuple):
    """The pixels of a screen along the ranks and across them, and about what a rank and a node take of them."""

    along: int
    across: int
    rank: int
    node: int


_SCREENS: Final = {
    (True, False): _Screen(along=740, across=1280, rank=42, node=105),
    (True, True): _Screen(along=1280, across=740, rank=110, node=45),
    (False, False): _Screen(along=740, across=1280, rank=80, node=230),
    (False, True): _Screen(along=1280, across=740, rank=240, node=90),
}
"""The screen for a picture, by whether it is collapsed and whether it runs from left to right."""


def columns_of(picture: Picture, edges: Iterable[Edge], ranks: Mapping[str, int]) -> tuple[tuple[str, ...], ...]:
    """Return the names of the nodes of each column, or row; nothing where the picture is best in one piece.

    A picture around a step is never folded, and a picture of few steps only if it is collapsed. The number of columns
    is the lowest that fits a screen. If none fits, it is the one with the shape closest to a screen.
    """
    steps = [node for node in picture.nodes if node.step]
    if any(node.is_focus for node in steps) or not (picture.is_brief or len(steps) > MAX_STEPS):
        return ()
    screen = _SCREENS[picture.is_brief, picture.is_sideways]
    holder = holders(picture.nodes)
    pairs = [(holder[edge.start], holder[edge.end]) for edge in edges]
    at = _beside(pairs, ranks)
    crossing = Counter(
        rank for start, end in pairs for rank in range(min(at[start], at[end]) + 1, max(at[start], at[end]) + 1)
    )
    count = max(at.values()) + 1
    most = min(MAX_COLUMNS, -(-count * screen.rank // screen.along) + 1)
    size = _Size(at, screen)
    foldings = [_breaks(crossing, count, columns) for columns in range(1, most + 1)]
    best = next((breaks for breaks in foldings if size.of(breaks) <= 1), None) or min(foldings, key=size.of)
    if len(best) == 2:
        return ()
    return tuple(
        tuple(node.name for node in picture.nodes if low <= at[node.name] < high) for low, high in pairwise(best)
    )


def _beside(pairs: Iterable[tuple[str, str]], ranks: Mapping[str, int]) -> dict[str, int]:
    """Return the ranks, in which an ending that one node leads to has the rank of this node: they stay together."""
    before: dict[str, set[str]] = {}
    leads = set()
    for start, end in pairs:
        before.setdefault(end, set()).add(start)
        leads.add(start)
    alone = {end: min(starts) for end, starts in before.items() if len(starts) == 1 and end not in leads}
    return {name: ranks[alone.get(name, name)] for name in ranks}


def _breaks(crossing: Mapping[int, int], count: int, columns: int) -> list[int]:
    """Return the first rank of each column and the end of the last: about equal columns that few edges join."""
    even = count / columns
    best: dict[int, tuple[float, list[int]]] = {0: (0, [0])}
    for number in range(1, columns + 1):
        found: dict[int, tuple[float, list[int]]] = {}
        for end in range(1, count) if number < columns else (count,):
            reached = [
                (cost + (end - start - even) ** 2, breaks)
                for start, (cost, breaks) in best.items()
                if max(start, 1) < end
            ]
            if reached:
                cost, breaks = min(reached)
                found[end] = (cost + crossing.get(end, 0) ** 2, [*breaks, end])
        best = found
    return best[count][1] if count in best else [0, count]


class _Size(NamedTuple):
    """The size of a folded picture in screens."""

    ranks: Mapping[str, int]
    screen: _Screen

    def of(self, breaks: Sequence[int]) -> float:
        """Return how many screens long or wide, whichever is more, a picture with these breaks is."""
        wide = Counter(self.ranks.values())
        parts = list(pairwise(breaks))
        stubs = 2 * (len(parts) > 1)
        along = (max(high - low for low, high in parts) + stubs) * self.screen.rank
        across = sum(max(wide[rank] for rank in range(low, high)) for low, high in parts) * self.screen.node
        return max(along / self.screen.along, across / self.screen.across)
