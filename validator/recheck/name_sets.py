"""Sets of names as integers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from stepward.validator.recheck.names import Names
from stepward.validator.recheck.origins import prefixes


class NameSets:
    """Maps names to bits, so that a set of names is an integer: a long program has many large sets.

    The bits below the first number are for other facts.
    """

    def __init__(self, first: int) -> None:
        self._first = first
        self._bit: dict[Names, int] = {}
        self._below: defaultdict[Names, int] = defaultdict(int)

    def set_of(self, members: Iterable[Names]) -> int:
        """Return names as a set."""
        known = 0
        for names in members:
            bit = self._bit.get(names)
            if bit is None:
                bit = self._bit[names] = 1 << (self._first + len(self._bit))
                for prefix in prefixes(names):
                    self._below[prefix] |= bit
            known |= bit
        return known

    def below(self, roots: Iterable[Names]) -> int:
        """Return the roots and their fields as a set, as far as these names have bits."""
        known = 0
        for root in roots:
            known |= self._below.get(root, 0)
        return known

    def has(self, known: int, names: Names) -> bool:
        """Return whether names are in a set."""
        return known & self._bit.get(names, 0) != 0
