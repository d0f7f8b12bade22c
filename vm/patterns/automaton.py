"""Patterns as automata, which read a text character by character and say whether the pattern is found in it.

A pattern becomes a non-deterministic automaton (NFA) by Thompson's construction (Communications of the ACM 11, 1968),
and a deterministic one by the subset construction (Rabin and Scott, IBM Journal 3, 1959), which computes states on
demand. Characters that no pattern distinguishes are one *letter*. A pattern may be found anywhere in a text.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Final, Literal, NamedTuple

from stepward.vm.patterns.charsets import Ranges
from stepward.vm.patterns.syntax import Anchor, Chars, Choice, Node, Opaque, Repeat, Sequence

MAX_STATES: Final = 2_000
"""Maximal number of states of a deterministic automaton."""

MAX_NFA_STATES: Final = 4_000
"""Maximal number of states of an NFA."""

_PLAIN: Final = "xyzabcdefghijklmnopqrstuvw0123456789XYZABCDEFGHIJKLMNOPQRSTUVW -_.,:;/@+=#!?'\"()[]{}<>*&%$\\|~^`é\n\t"
"""Preferred characters of examples, best first."""


class AutomatonTooLarge(Exception):  # noqa: N818 - no error: it is not decided here
    """An automaton has too many states, or a pattern has a part that its tree does not describe."""


# -- letters -----------------------------------------------------------------------------------------------------------


class Letters(NamedTuple):
    """The letters of some trees: an example of each letter, and the letters of each set of characters."""

    examples: tuple[str, ...]
    of: dict[Ranges, int]
    """For each set of characters, a bit mask of its letters."""


def letters_of(trees: Iterable[Node]) -> Letters:
    """Return the letters of some trees, those with the best examples first. Raises TooLarge for an Opaque part."""
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
            raise AutomatonTooLarge


def _example(spans: list[tuple[int, int]]) -> tuple[int, str]:
    """Return a character of some spans, with its rank among examples before it."""
    for number, sign in enumerate(_PLAIN):
        if any(low <= ord(sign) <= high for low, high in spans):
            return number, sign
    code = next((low for low, high in spans if low >= 0x20 and not 0x7F <= low < 0xA0), spans[0][0])
    return len(_PLAIN) + code, chr(0xE000 if code == 0xD800 else code)


# -- from a tree to an NFA ---------------------------------------------------------------------------------------------


class _NfaState(NamedTuple):
    """A state of an NFA: it reads a letter of a set, moves on freely, or only at the start or the end of the text."""

    kind: Literal["read", "skip", "start", "end", "found"]
    next: tuple[int, ...] = ()
    letters: int = 0


class _Nfa:
    """The NFA of a tree, built from the end of the tree to its start."""

    def __init__(self, tree: Node, letters: Letters) -> None:
        self.letters = letters
        self.states: list[_NfaState] = [_NfaState("found")]
        self.first = self._add(tree, 0)

    def _append(self, nfa_state: _NfaState) -> int:
        if len(self.states) >= MAX_NFA_STATES:
            raise AutomatonTooLarge
        self.states.append(nfa_state)
        return len(self.states) - 1

    def _add(self, tree: Node, then: int) -> int:
        """Add the states of a tree that continues at state `then`; return its first state."""
        match tree:
            case Chars(ranges=ranges):
                return self._append(_NfaState("read", (then,), self.letters.of[ranges]))
            case Anchor(at=at):
                return self._append(_NfaState(at, (then,)))
            case Sequence(parts=parts):
                for part in reversed(parts):
                    then = self._add(part, then)
                return then
            case Choice(parts=parts):
                return self._append(_NfaState("skip", tuple(self._add(part, then) for part in parts)))
            case Repeat(part=part, low=low, high=high):
                return self._repeat(part, low, high, then)
            case Opaque():
                raise AutomatonTooLarge

    def _repeat(self, part: Node, low: int, high: int | None, then: int) -> int:
        if high is None:
            again = self._append(_NfaState("skip"))
            self.states[again] = _NfaState("skip", (self._add(part, again), then))
            then = again
        else:
            end = then
            for _ in range(high - low):
                then = self._append(_NfaState("skip", (self._add(part, then), end)))
        for _ in range(low):
            then = self._add(part, then)
        return then


# -- the automaton -----------------------------------------------------------------------------------------------------

FOUND: Final = 0
"""The state in which the pattern was found; it is never left."""

DEAD: Final = 1
"""The state from which the pattern can't be found any more."""

START: Final = 2


class Automaton:
    """The deterministic automaton of a pattern. States are numbers, and the first is START.

    Raises TooLarge, also from `step`, if it gets too many states.
    """

    def __init__(self, tree: Node, letters: Letters) -> None:
        nfa = _Nfa(tree, letters)
        self._nfa, self._first = nfa.states, nfa.first
        self._size = len(letters.examples)
        self._table: list[list[int]] = [[FOUND] * self._size, [DEAD] * self._size]
        self._accepts: list[bool] = [True, False]
        self._subsets: list[tuple[frozenset[int], bool]] = [(frozenset(), False)] * 2
        self._number_of: dict[tuple[frozenset[int], bool], int] = {}
        # If the pattern is found in the empty text, START is a second number of the state FOUND.
        self._add(self._reached([self._first], is_start=True), is_start=True)

    def step(self, state: int, letter: int) -> int:
        """Return the state after one more letter."""
        to = self._table[state][letter]
        if to < 0:
            to = self._table[state][letter] = self._step(state, letter)
        return to

    def accepts(self, state: int) -> bool:
        """Return whether the pattern is found in a text that leads to a state."""
        return self._accepts[state]

    def _step(self, state: int, letter: int) -> int:
        targets = [
            nfa_state.next[0]
            for nfa_state in (self._nfa[number] for number in self._subsets[state][0])
            if nfa_state.kind == "read" and nfa_state.letters >> letter & 1
        ]
        reached = self._reached([*targets, self._first], is_start=False)
        if reached is None:
            return FOUND
        if not reached:
            return DEAD
        known = self._number_of.get((reached, False))
        return self._add(reached, is_start=False) if known is None else known

    def _add(self, reached: frozenset[int] | None, *, is_start: bool) -> int:
        if len(self._subsets) >= MAX_STATES:
            raise AutomatonTooLarge
        found = reached is None
        number = len(self._subsets)
        self._subsets.append((reached or frozenset(), is_start))
        self._table.append([FOUND if found else -1] * self._size)
        self._accepts.append(reached is None or self._reached(reached, is_start=is_start, is_end=True) is None)
        self._number_of[reached or frozenset(), is_start] = number
        return number

    def _reached(self, numbers: Iterable[int], *, is_start: bool, is_end: bool = False) -> frozenset[int] | None:
        """Return the NFA states that are reached without reading a letter; None if the pattern is found that way."""
        pending, visited = list(numbers), set(numbers)
        reached: set[int] = set()
        while pending:
            number = pending.pop()
            nfa_state = self._nfa[number]
            match nfa_state.kind:
                case "found":
                    return None
                case "read":
                    reached.add(number)
                    continue
                case "end" if not is_end:
                    reached.add(number)
                    continue
                case "start" if not is_start:
                    continue
            new = [one for one in nfa_state.next if one not in visited]
            visited.update(new)
            pending += new
        return frozenset(reached)
