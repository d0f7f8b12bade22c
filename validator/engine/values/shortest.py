"""The shortest text for each combination of answers to some questions, up to a length.

A text is read character by character. Its state is the longest suffix that is a prefix of a literal (as in the
automaton of Aho and Corasick, 1975), whether that is the whole text, and which literals it has contained or begun with.
Two texts in the same state answer alike from then on, so a breadth-first search finds every combination of answers,
each by its shortest text.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from stepward.validator.engine.values.texts import Atom, separator

MAX_READ: Final = 20_000
"""The most states of one search."""


class _Read(NamedTuple):
    """The state after a prefix of a text: its suffix, whether that is the whole prefix, and the atoms that are already
    true."""

    end: str
    is_all: bool
    held: frozenset[Atom]


def shortest(atoms: Iterable[Atom], longest: int) -> list[str] | None:
    """Return the shortest text for each combination of answers of texts up to `longest` characters.

    None where the search is too large. One character that no literal has represents all such characters.
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
    """Return the atoms that are true for a text that ends here."""
    here = (
        atom
        for atom in asked
        if (atom.question == "is" and read.is_all and read.end == atom.literal)
        or (atom.question == "ends_with" and read.end.endswith(atom.literal))
    )
    return read.held.union(here)
