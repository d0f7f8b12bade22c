"""Questions about the texts of several patterns, such as whether one implies another, and shortest examples.

A product of automata is searched breadth-first, so that the first text that leads to a state is a shortest one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from stepward.vm.patterns.automaton import DEAD, START, Automaton, AutomatonTooLarge, Letters, letters_of
from stepward.vm.patterns.matching import PythonPattern
from stepward.vm.patterns.syntax import Node, PatternError, parse

MAX_STEPS: Final = 200_000
"""Maximal number of transitions of a product that are searched, in less than a second."""

MAX_COUNTED: Final = 128
"""The largest length that `lengths_of` distinguishes."""

MAX_CACHED: Final = 1_024
"""Maximal number of cached results of each question."""


State = tuple[int, ...]
"""A state of a product: the state of each automaton, and the length of the text up to a bound."""

Origins = dict[State, tuple[State, int] | None]
"""For each state, the state and the letter from which a search first reached it; None for the first state."""


class Seen(NamedTuple):
    """A state that a search has reached: whether each pattern is found there, and the length of a shortest text to it.

    `text` takes time linear in `length`, so asking for the text of every state takes quadratic time.
    """

    found: tuple[bool, ...]
    length: int
    state: State
    origins: Origins
    letters: Letters

    @property
    def text(self) -> str:
        """A shortest text that leads to the state."""
        signs: list[str] = []
        step = self.origins[self.state]
        while step is not None:
            state, letter = step
            signs.append(self.letters.examples[letter])
            step = self.origins[state]
        return "".join(reversed(signs))


@lru_cache(MAX_CACHED)
def tree_of(pattern: str) -> Node | None:
    """Return the tree of an accepted pattern; None for a pattern of Python's `re` or one that can't be parsed."""
    if isinstance(pattern, PythonPattern):
        return None
    try:
        return parse(pattern)
    except PatternError:
        return None


class Product:
    """The product of several patterns' automata; only texts in which the first `needed` patterns are found count.

    States distinguish lengths of texts up to `counted`. Texts have at most `longest` characters unless that is None.
    Raises TooLarge for an Opaque part of a tree.
    """

    def __init__(self, trees: Sequence[Node], *, needed: int = 0, counted: int = 0, longest: int | None = None) -> None:
        self.letters: Letters = letters_of(trees)
        self.automata = [Automaton(tree, self.letters) for tree in trees]
        self.needed = needed
        self.counted = counted
        self.longest = longest

    def search(self) -> Iterator[Seen]:
        """Yield every state that some text leads to, those with the shortest texts first. May raise TooLarge."""
        size = len(self.letters.examples)
        first = (*(START for _ in self.automata), 0)
        origins: Origins = {first: None}
        level, length, steps = [first], 0, 0
        moves_of: dict[State, list[tuple[State, int]]] = {}
        while level:
            following: list[State] = []
            for state in level:
                found = tuple([one.accepts(at) for one, at in zip(self.automata, state, strict=False)])
                if all(found[: self.needed]):
                    yield Seen(found, length, state, origins, self.letters)
                steps += size
                if steps > MAX_STEPS:
                    raise AutomatonTooLarge
                if length == self.longest:
                    continue
                states = state[:-1]
                if states not in moves_of:
                    moves_of[states] = self._moves(states)
                counted = min(length + 1, self.counted)
                for targets, letter in moves_of[states]:
                    to = (*targets, counted)
                    if to not in origins:
                        origins[to] = state, letter
                        following.append(to)
            level, length = following, length + 1

    def _moves(self, states: State) -> list[tuple[State, int]]:
        """Return the targets of all letters from `states`, each target once, with its first letter."""
        found: dict[State, int] = {}
        for letter in range(len(self.letters.examples)):
            targets = tuple([one.step(at, letter) for one, at in zip(self.automata, states, strict=True)])
            if DEAD not in targets[: self.needed]:
                found.setdefault(targets, letter)
        return list(found.items())


def is_within(pattern: str | None, longest: int | None, other: str | None, other_longest: int | None) -> bool:
    """Return whether every text with one pattern and maximal length certainly has another pattern and maximal length.

    None means no pattern or no maximal length. Returns False also if the search is too large.
    """
    is_short = other_longest is None or (longest is not None and longest <= other_longest)
    return (other is None or other == pattern or _is_found(pattern, longest, other)) and (
        is_short or _is_short(pattern, longest, other_longest)
    )


@lru_cache(MAX_CACHED)
def _is_found(pattern: str | None, longest: int | None, other: str) -> bool:
    """Return whether `other` is found in every text of at most `longest` characters in which `pattern` is found."""
    trees = [tree_of(one) for one in (pattern, other) if one is not None]
    known = [tree for tree in trees if tree is not None]
    if len(known) < len(trees):
        return False
    try:
        return all(seen.found[-1] for seen in Product(known, needed=len(known) - 1, longest=longest).search())
    except AutomatonTooLarge:
        return False


@lru_cache(MAX_CACHED)
def _is_short(pattern: str | None, longest: int | None, most: int | None) -> bool:
    """Return whether all texts of a pattern with at most `longest` characters have at most `most` characters."""
    tree = None if pattern is None else tree_of(pattern)
    if tree is None or most is None:
        return False
    try:
        product = Product([tree], needed=1, counted=most + 1, longest=longest)
        return all(seen.length <= most for seen in product.search())
    except AutomatonTooLarge:
        return False


@lru_cache(MAX_CACHED)
def shortest(pattern: str, longest: int | None = None, most: int = 4) -> tuple[str, ...]:
    """Return a few texts in which a pattern is found, shortest first; none if the search is too large."""
    tree = tree_of(pattern)
    found: list[str] = []
    try:
        for seen in Product([tree], needed=1, counted=most, longest=longest).search() if tree is not None else ():
            found.append(seen.text)
            if len(found) == most:
                break
    except AutomatonTooLarge:
        pass
    return tuple(found)


def is_empty(pattern: str, longest: int | None) -> bool:
    """Return whether a pattern is certainly found in no text of at most `longest` characters."""
    tree = tree_of(pattern)
    try:
        return tree is not None and not any(True for _ in Product([tree], needed=1, longest=longest).search())
    except AutomatonTooLarge:
        return False


@lru_cache(MAX_CACHED)
def lengths_of(pattern: str) -> tuple[int, int | None]:
    """Return the minimal and the maximal length of the texts of a pattern; the maximum is None if it is unknown."""
    tree = tree_of(pattern)
    least, most = 0, None
    try:
        sizes = [seen.length for seen in Product([tree], needed=1, counted=MAX_COUNTED).search()] if tree else []
        if sizes:
            least, most = sizes[0], sizes[-1] if sizes[-1] < MAX_COUNTED else None
    except AutomatonTooLarge:
        pass
    return least, most
