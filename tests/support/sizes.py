"""How much a random search tries; a helper, no tests stand here.

Every run of the tests tries a few cases of each search, and few of a table of like cases. `STEPWARD_MANY=1` tries many:
the nightly run does.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterable
from itertools import product
from typing import Any, Final, TypeVar

T = TypeVar("T")
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
MANY: Final = bool(os.environ.get("STEPWARD_MANY"))


def size(few: int, many: int) -> int:
    """Return how many cases a search tries: `few`, or `many` if `STEPWARD_MANY` is set."""
    return many if MANY else few


def asked_for(name: str, few: int, many: int) -> int:
    """Return the number in the environment variable of that name; without one, as `size`."""
    return int(os.environ.get(name, size(few, many)))


ROTATION: Final = 0x9E3779B1
"""2^32 by the golden ratio. Its multiples, modulo 2^32, are spread evenly, and in step with no period: so a choice of a
product of cases has each value of each factor."""


def is_by_day(at: int, one_in: int) -> bool:
    """Return whether the case at a place is tried by day: one in so many, the first among them."""
    return MANY or at * ROTATION % 2**32 * one_in < 2**32


def by_day(cases: Iterable[T], one_in: int) -> list[T]:
    """Return one in so many cases, every time the same ones; all if `STEPWARD_MANY` is set."""
    return [case for at, case in enumerate(cases) if is_by_day(at, one_in)]


def square_by_day(first: Collection[A], second: Collection[B], third: Collection[C]) -> list[tuple[A, B, C]]:
    """Return every case of three factors; by day a Latin square: each value of one meets each value of each other one.

    No factor has fewer values than the third.
    """
    assert len(third) <= min(len(first), len(second))
    return [
        (one, two, three)
        for (row, one), (column, two), (sign, three) in product(enumerate(first), enumerate(second), enumerate(third))
        if MANY or (row + column + sign) % len(third) == 0
    ]


def parted_by_day(items: Iterable[Any]) -> tuple[list[Any], list[Any]]:
    """Return those of the tests that are tried by day, and the others: of the cases of a test, what `one_in` says."""
    kept, left, places = list[Any](), list[Any](), Counter[str]()
    for item in items:
        mark, function = item.get_closest_marker("one_in"), item.nodeid.partition("[")[0]
        is_kept = mark is None or is_by_day(places[function], mark.args[0])
        (kept if is_kept else left).append(item)
        places[function] += 1
    return kept, left
