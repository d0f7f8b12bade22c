"""What several patterns say together of a text: whether there is one, and the shortest.

A product of automata is searched breadth first, so that the first text that leads to a state is a shortest one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

from stepward.vm.patterns.automaton import LOST, START, Automaton, Letters, TooLarge, letters_of
from stepward.vm.patterns.matching import PythonPattern
from stepward.vm.patterns.syntax import Node, PatternError, parse

MAX_STEPS: Final = 200_000
"""Transitions of a product that are looked at: less than a second."""

MAX_COUNTED: Final = 128
"""The longest length that is told apart, where somebody asks how long the texts of a pattern are."""

MAX_KEPT: Final = 1_024
"""Answers that are kept."""


State = tuple[int, ...]
"""The state of each automaton, and the length as far as it is counted."""

Origins = dict[State, tuple[State, int] | None]
"""From which state, by which letter, a search first came to each state; None for where it began."""


class Seen(NamedTuple):
    """What each pattern of a product says of some texts, and the length of the shortest of them.

    `text` builds a text of that length, in as many steps: whoever asks for every state's takes quadratic time.
    """

    found: tuple[bool, ...]
    length: int
    state: State
    origins: Origins
    letters: Letters

    @property
    def text(self) -> str:
        """A shortest of the texts."""
        signs: list[str] = []
        step = self.origins[self.state]
        while step is not None:
            state, letter = step
            signs.append(self.letters.examples[letter])
            step = self.origins[state]
        return "".join(reversed(signs))


@lru_cache(MAX_KEPT)
def tree_of(pattern: str) -> Node | None:
    """Return the tree of a pattern that was accepted; None where it has none that says what it means."""
    if isinstance(pattern, PythonPattern):
        return None
    try:
        return parse(pattern)
    except PatternError:
        return None


class Product:
    """Several patterns beside one another; the first `needed` of them have to be found.

    Texts are told apart by their length up to `counted`, and have at most `longest` characters unless that is None.
    Raises TooLarge where a part of a tree has no description.
    """

    def __init__(self, trees: Sequence[Node], *, needed: int = 0, counted: int = 0, longest: int | None = None) -> None:
        self.letters: Letters = letters_of(trees)
        self.automata = [Automaton(tree, self.letters) for tree in trees]
        self.needed = needed
        self.counted = counted
        self.longest = longest

    def search(self) -> Iterator[Seen]:
        """Yield what each state that some text leads to says, shortest texts first. Raises TooLarge on its way."""
        size = len(self.letters.examples)
        first = (*(START for _ in self.automata), 0)
        came: Origins = {first: None}
        level, length, steps = [first], 0, 0
        moves: dict[State, list[tuple[State, int]]] = {}
        while level:
            following: list[State] = []
            for state in level:
                found = tuple([one.accepts(at) for one, at in zip(self.automata, state, strict=False)])
                if all(found[: self.needed]):
                    yield Seen(found, length, state, came, self.letters)
                steps += size
                if steps > MAX_STEPS:
                    raise TooLarge
                if length == self.longest:
                    continue
                places = state[:-1]
                if places not in moves:
                    moves[places] = self._moves(places)
                counted = min(length + 1, self.counted)
                for ways, letter in moves[places]:
                    to = (*ways, counted)
                    if to not in came:
                        came[to] = state, letter
                        following.append(to)
            level, length = following, length + 1

    def _moves(self, places: State) -> list[tuple[State, int]]:
        """Return where the letters lead from a state of each automaton, each place once with its first letter."""
        found: dict[State, int] = {}
        for letter in range(len(self.letters.examples)):
            ways = tuple([one.step(at, letter) for one, at in zip(self.automata, places, strict=True)])
            if LOST not in ways[: self.needed]:
                found.setdefault(ways, letter)
        return list(found.items())


def is_within(pattern: str | None, longest: int | None, other: str | None, other_longest: int | None) -> bool:
    """Return whether every text of a pattern and a length is certainly one of another pattern and length.

    None stands for no pattern, and no bound. False also where that is too much to look at.
    """
    is_short = other_longest is None or (longest is not None and longest <= other_longest)
    return (other is None or other == pattern or _is_found(pattern, longest, other)) and (
        is_short or _is_short(pattern, longest, other_longest)
    )


@lru_cache(MAX_KEPT)
def _is_found(pattern: str | None, longest: int | None, other: str) -> bool:
    """Return whether one pattern is found wherever another one is, in texts of a length."""
    trees = [tree_of(one) for one in (pattern, other) if one is not None]
    known = [tree for tree in trees if tree is not None]
    if len(known) < len(trees):
        return False
    try:
        return all(seen.found[-1] for seen in Product(known, needed=len(known) - 1, longest=longest).search())
    except TooLarge:
        return False


@lru_cache(MAX_KEPT)
def _is_short(pattern: str | None, longest: int | None, most: int | None) -> bool:
    """Return whether a pattern is found, in texts of a length, only in those of at most another length."""
    tree = None if pattern is None else tree_of(pattern)
    if tree is None or most is None:
        return False
    try:
        product = Product([tree], needed=1, counted=most + 1, longest=longest)
        return all(seen.length <= most for seen in product.search())
    except TooLarge:
        return False


@lru_cache(MAX_KEPT)
def shortest(pattern: str, longest: int | None = None, most: int = 4) -> tuple[str, ...]:
    """Return a few texts that a pattern is found in, shortest first; none where it is too much to look at."""
    tree = tree_of(pattern)
    found: list[str] = []
    try:
        for seen in Product([tree], needed=1, counted=most, longest=longest).search() if tree is not None else ():
            found.append(seen.text)
            if len(found) == most:
                break
    except TooLarge:
        pass
    return tuple(found)


def is_empty(pattern: str, longest: int | None) -> bool:
    """Return whether a pattern is certainly found in no text of at most `longest` characters."""
    tree = tree_of(pattern)
    try:
        return tree is not None and not any(True for _ in Product([tree], needed=1, longest=longest).search())
    except TooLarge:
        return False


@lru_cache(MAX_KEPT)
def lengths_of(pattern: str) -> tuple[int, int | None]:
    """Return between which lengths the texts lie that a pattern is found in; no upper bound where none is known."""
    tree = tree_of(pattern)
    least, most = 0, None
    try:
        sizes = [seen.length for seen in Product([tree], needed=1, counted=MAX_COUNTED).search()] if tree else []
        if sizes:
            least, most = sizes[0], sizes[-1] if sizes[-1] < MAX_COUNTED else None
    except TooLarge:
        pass
    return least, most
