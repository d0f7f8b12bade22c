"""Patterns as automata: which texts a pattern is found in, one character after another.

A pattern becomes a non-deterministic automaton by Thompson's construction (Communications of the ACM 11, 1968), and
that a deterministic one, state by state as somebody asks (Rabin and Scott, IBM Journal 3, 1959). Characters that no
pattern tells apart are one *letter*. A pattern may be found anywhere, and once it is, the search is over.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Final, Literal, NamedTuple

from stepward.vm.patterns.charsets import Ranges
from stepward.vm.patterns.syntax import Anchor, Chars, Choice, Node, Opaque, Repeat, Sequence

MAX_STATES: Final = 2_000
"""States of one automaton."""

MAX_PARTS: Final = 4_000
"""Places of the automaton before it is made deterministic."""

_LIKED: Final = "xyzabcdefghijklmnopqrstuvw0123456789XYZABCDEFGHIJKLMNOPQRSTUVW -_.,:;/@+=#!?'\"()[]{}<>*&%$\\|~^`é\n\t"
"""Characters for examples, the plainest first."""


class TooLarge(Exception):  # noqa: N818 - no error: it is not decided here
    """An automaton has more states than are looked at, or a pattern has a part without a description."""


# -- letters -----------------------------------------------------------------------------------------------------------


class Letters(NamedTuple):
    """The characters that some trees tell apart: an example of each letter, and the letters of each set."""

    examples: tuple[str, ...]
    of: dict[Ranges, int]
    """For each set of characters a bit for each letter that is in it."""


def letters_of(trees: Iterable[Node]) -> Letters:
    """Return the letters of some trees, the plainest first. Raises TooLarge where a part has no description."""
    sets = list(dict.fromkeys(one for tree in trees for one in _sets(tree)))
    ends = sorted({0, 0x110000, *(end for one in sets for low, high in one for end in (low, high + 1))})
    members: dict[tuple[int, ...], list[tuple[int, int]]] = {}
    inside: dict[int, list[int]] = {}
    for number, one in enumerate(sets):
        for low, high in one:
            inside.setdefault(low, []).append(number)
            inside.setdefault(high + 1, []).append(~number)
    now: set[int] = set()
    for low, following in itertools.pairwise(ends):
        for number in inside.get(low, ()):
            (now.discard if number < 0 else now.add)(~number if number < 0 else number)
        if now or not 0xD800 <= low <= following - 1 <= 0xDFFF:
            members.setdefault(tuple(sorted(now)), []).append((low, following - 1))
    found = sorted((_example(spans), kinds) for kinds, spans in members.items())
    of = dict.fromkeys(sets, 0)
    for number, (_, kinds) in enumerate(found):
        for kind in kinds:
            of[sets[kind]] |= 1 << number
    return Letters(tuple(sign for (_, sign), _ in found), of)


def _sets(tree: Node) -> Iterator[Ranges]:
    match tree:
        case Chars(ranges=ranges):
            yield ranges
        case Sequence(parts=parts) | Choice(parts=parts):
            for part in parts:
                yield from _sets(part)
        case Repeat(part=part):
            yield from _sets(part)
        case Opaque():
            raise TooLarge


def _example(spans: list[tuple[int, int]]) -> tuple[int, str]:
    """Return a character of some spans and how plain it is, the less the plainer."""
    for number, sign in enumerate(_LIKED):
        if any(low <= ord(sign) <= high for low, high in spans):
            return number, sign
    code = next((low for low, high in spans if low >= 0x20 and not 0x7F <= low < 0xA0), spans[0][0])
    return len(_LIKED) + code, chr(0xE000 if code == 0xD800 else code)


# -- from a tree to places ---------------------------------------------------------------------------------------------


class _Place(NamedTuple):
    """What can happen at a place: a letter of a set is read, nothing is, or the text has to begin or end here."""

    kind: Literal["read", "skip", "start", "end", "found"]
    next: tuple[int, ...] = ()
    letters: int = 0


class _Places:
    """The places of a tree, made from its end to its start."""

    def __init__(self, tree: Node, letters: Letters) -> None:
        self.letters = letters
        self.all: list[_Place] = [_Place("found")]
        self.first = self._add(tree, 0)

    def _place(self, place: _Place) -> int:
        if len(self.all) >= MAX_PARTS:
            raise TooLarge
        self.all.append(place)
        return len(self.all) - 1

    def _add(self, tree: Node, then: int) -> int:
        """Return the place at which a tree begins that goes on at `then`."""
        match tree:
            case Chars(ranges=ranges):
                return self._place(_Place("read", (then,), self.letters.of[ranges]))
            case Anchor(at=at):
                return self._place(_Place(at, (then,)))
            case Sequence(parts=parts):
                for part in reversed(parts):
                    then = self._add(part, then)
                return then
            case Choice(parts=parts):
                return self._place(_Place("skip", tuple(self._add(part, then) for part in parts)))
            case Repeat(part=part, low=low, high=high):
                return self._repeat(part, low, high, then)
            case Opaque():
                raise TooLarge

    def _repeat(self, part: Node, low: int, high: int | None, then: int) -> int:
        if high is None:
            again = self._place(_Place("skip"))
            self.all[again] = _Place("skip", (self._add(part, again), then))
            then = again
        else:
            end = then
            for _ in range(high - low):
                then = self._place(_Place("skip", (self._add(part, then), end)))
        for _ in range(low):
            then = self._add(part, then)
        return then


# -- the automaton -----------------------------------------------------------------------------------------------------

FOUND: Final = 0
"""The state in which the pattern was found: whatever follows, it stays so."""

LOST: Final = 1
"""The state from which it can't be found any more."""

START: Final = 2


class Automaton:
    """What a search for a pattern has seen of a text; states are numbers, the first is START.

    Raises TooLarge, also from `step`, where it gets too large.
    """

    def __init__(self, tree: Node, letters: Letters) -> None:
        places = _Places(tree, letters)
        self._places, self._first = places.all, places.first
        self._size = len(letters.examples)
        self._ways: list[list[int]] = [[FOUND] * self._size, [LOST] * self._size]
        self._accepts: list[bool] = [True, False]
        self._kept: list[tuple[frozenset[int], bool]] = [(frozenset(), False)] * 2
        self._number: dict[tuple[frozenset[int], bool], int] = {}
        # Where the pattern is found at once the start is FOUND; it is another state only by its number.
        self._add(self._reached([self._first], is_start=True), is_start=True)

    def step(self, state: int, letter: int) -> int:
        """Return the state after one more letter."""
        to = self._ways[state][letter]
        if to < 0:
            to = self._ways[state][letter] = self._step(state, letter)
        return to

    def accepts(self, state: int) -> bool:
        """Return whether the pattern is found in a text that ends in a state."""
        return self._accepts[state]

    def _step(self, state: int, letter: int) -> int:
        going = [
            place.next[0]
            for place in (self._places[number] for number in self._kept[state][0])
            if place.kind == "read" and place.letters >> letter & 1
        ]
        reached = self._reached([*going, self._first], is_start=False)
        if reached is None:
            return FOUND
        if not reached:
            return LOST
        known = self._number.get((reached, False))
        return self._add(reached, is_start=False) if known is None else known

    def _add(self, reached: frozenset[int] | None, *, is_start: bool) -> int:
        if len(self._kept) >= MAX_STATES:
            raise TooLarge
        found = reached is None
        number = len(self._kept)
        self._kept.append((reached or frozenset(), is_start))
        self._ways.append([FOUND if found else -1] * self._size)
        self._accepts.append(reached is None or self._ends(reached, is_start=is_start))
        self._number[reached or frozenset(), is_start] = number
        return number

    def _reached(self, places: list[int], *, is_start: bool) -> frozenset[int] | None:
        """Return the places that are reached without a letter; None where the pattern is found by that."""
        pending, seen = list(places), set(places)
        kept: set[int] = set()
        while pending:
            number = pending.pop()
            place = self._places[number]
            match place.kind:
                case "found":
                    return None
                case "read" | "end":
                    kept.add(number)
                    continue
                case "start" if not is_start:
                    continue
            new = [one for one in place.next if one not in seen]
            seen.update(new)
            pending += new
        return frozenset(kept)

    def _ends(self, reached: frozenset[int], *, is_start: bool) -> bool:
        """Return whether the pattern is found where the text ends here."""
        pending = [number for number in reached if self._places[number].kind == "end"]
        seen = set(pending)
        while pending:
            place = self._places[pending.pop()]
            if place.kind == "found":
                return True
            if place.kind == "read" or (place.kind == "start" and not is_start):
                continue
            new = [one for one in place.next if one not in seen]
            seen.update(new)
            pending += new
        return False
