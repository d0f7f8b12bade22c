"""The classes of one reference: a representative value for each, and the class of every other value.

The representative of a class is one of many values. Whether a source of the reference can give a value of a class is
asked of the class, never of its representative: a tool whose texts are all empty never gives the text "x", but gives a
text that does not contain "ok".
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Hashable
from dataclasses import replace
from decimal import Decimal
from typing import Any

from stepward.validator.engine.values.cuts import Cuts, TooMany, class_values
from stepward.validator.engine.values.domains import Domain
from stepward.validator.engine.values.states import UNDEFINED


class Partition:
    """The classes of a domain under some cuts; raises TooMany where there are too many."""

    def __init__(self, domain: Domain, cuts: Cuts, *, may_be_missing: bool) -> None:
        bounds = {bound for one in domain.ranges for bound in (one.low, one.high) if bound is not None}
        longest = {domain.max_length} if cuts.asks_length and domain.max_length is not None else set()
        self.cuts = replace(cuts, numbers=cuts.numbers | bounds, lengths=cuts.lengths | longest)
        missing = [UNDEFINED] if may_be_missing or domain.undefined else []
        self.values: list[Any] = [*missing, *class_values(domain, self.cuts)]
        """A value for each class, numbers in ascending order."""
        single = [value for value in self.values if cuts.whole and type(value) in (int, Decimal)]
        self._points = sorted(self.cuts.numbers.union(single))
        self._lengths = sorted(self.cuts.lengths)
        self._texts = {atom.literal for atom in cuts.atoms if atom.question == "is"}.union(domain.texts)
        self._atoms = [atom for atom in cuts.atoms if atom.question != "is"]
        self._number = {self._class_key(value): number for number, value in enumerate(self.values)}
        assert len(self._number) == len(self.values), "two values of one class"

    def class_of(self, value: Any) -> int | None:
        """Return the class of a value, which may be UNDEFINED; None for a value outside of the domain."""
        return self._number.get(self._class_key(value))

    def classes_of(self, domain: Domain) -> int:
        """Return the classes with a defined value of a domain, as the bits of an integer.

        Raises TooMany where that is not easy to compute, and where a value of the domain has no class.
        """
        classes = 0
        for value in class_values(domain, self.cuts):
            number = self.class_of(value)
            if number is None:
                raise TooMany
            classes |= 1 << number
        return classes

    def _class_key(self, value: Any) -> Hashable:
        """Return a key that is equal exactly for values of the same class."""
        if isinstance(value, str):
            if value in self._texts:
                return value
            answers = tuple(atom.of(value) for atom in self._atoms)
            return "texts", answers, self._between(self._lengths, len(value))
        if value is UNDEFINED or value is None or isinstance(value, bool):
            return type(value), value
        if isinstance(value, int | Decimal):
            return "number", self._between(self._points, value)
        return ("object",) if isinstance(value, dict) else ("array", self._between(self._lengths, len(value)))

    @staticmethod
    def _between(points: list[Any], value: Any) -> tuple[int, int]:
        return bisect_left(points, value), bisect_right(points, value)
