"""The shortest text for every way in which questions about a text can be answered, up to a length.

A text is read sign by sign. What is kept of it is its longest end with which a literal begins (as in the automaton of
Aho and Corasick, 1975), whether that is all of it, and which literals it has held or begun with. Two texts of which the
same is kept answer alike from then on, so a breadth-first search finds every answer, by its shortest text.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from stepward.validator.engine.values.texts import Atom, separator

MAX_READ: Final = 20_000
"""States of one search."""


class _Read(NamedTuple):
    """What is kept of a text: its end, whether that is all, and the atoms that hold whatever follows."""

    end: str
    is_all: bool
    held: frozenset[Atom]


def shortest(atoms: Iterable[Atom], longest: int) -> list[str] | None:
    """Return the shortest text for each way in which texts of at most `longest` signs answer; None where the search
    is too large.

    A sign that no literal has stands for all such signs.
    """
    asked = list(dict.fromkeys(atoms))
    literals = [atom.literal for atom in asked]
    begins = {literal[:end] for literal in literals for end in range(len(literal) + 1)} | {""}
    signs = [*dict.fromkeys("".join(literals)), separator(literals)]
    first = _Read("", True, frozenset(_held("", asked, is_all=True)))
    seen, level = {first}, [(first, "")]
    found: dict[frozenset[Atom], str] = {}
    for length in range(longest + 1):
        following: list[tuple[_Read, str]] = []
        for read, text in level:
            found.setdefault(_answers(read, asked), text)
            if len(seen) > MAX_READ:
                return None
            for sign in signs if length < longest else ():
                after = _after(read, sign, begins, asked)
                if after not in seen:
                    seen.add(after)
                    following.append((after, text + sign))
        level = following
        if not level:
            break
    return list(found.values())


def _after(read: _Read, sign: str, begins: set[str], asked: list[Atom]) -> _Read:
    end = read.end + sign
    is_all = read.is_all and end in begins
    while end not in begins:
        end = end[1:]
    return _Read(end, is_all, read.held.union(_held(end, asked, is_all=is_all)))


def _held(end: str, asked: list[Atom], *, is_all: bool) -> Iterable[Atom]:
    for atom in asked:
        if (atom.question == "contains" and end.endswith(atom.literal)) or (
            atom.question == "starts_with" and is_all and end == atom.literal
        ):
            yield atom


def _answers(read: _Read, asked: list[Atom]) -> frozenset[Atom]:
    """Return the atoms that hold of a text that ends here."""
    here = (
        atom
        for atom in asked
        if (atom.question == "is" and read.is_all and read.end == atom.literal)
        or (atom.question == "ends_with" and read.end.endswith(atom.literal))
    )
    return read.held.union(here)
