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
    true_atoms: frozenset[Atom]


def shortest(atoms: Iterable[Atom], longest: int) -> list[str] | None:
    """Return the shortest text for each combination of answers of texts up to `longest` characters.

    None where the search is too large. One character that no literal has represents all such characters.
    """
    questions = list(dict.fromkeys(atoms))
    literals = [atom.literal for atom in questions]
    begins = {literal[:end] for literal in literals for end in range(len(literal) + 1)} | {""}
    chars = [*dict.fromkeys("".join(literals)), separator(literals)]
    first = _Read("", True, frozenset(_true_at("", questions, is_all=True)))
    visited, level = {first}, [(first, "")]
    texts: dict[frozenset[Atom], str] = {}
    for length in range(longest + 1):
        following: list[tuple[_Read, str]] = []
        for read, text in level:
            texts.setdefault(_answers(read, questions), text)
            if len(visited) > MAX_READ:
                return None
            for char in chars if length < longest else ():
                after = _after(read, char, begins, questions)
                if after not in visited:
                    visited.add(after)
                    following.append((after, text + char))
        level = following
        if not level:
            break
    return list(texts.values())


def _after(read: _Read, char: str, begins: set[str], questions: list[Atom]) -> _Read:
    end = read.end + char
    is_all = read.is_all and end in begins
    while end not in begins:
        end = end[1:]
    return _Read(end, is_all, read.true_atoms.union(_true_at(end, questions, is_all=is_all)))


def _true_at(end: str, questions: list[Atom], *, is_all: bool) -> Iterable[Atom]:
    for atom in questions:
        if (atom.question == "contains" and end.endswith(atom.literal)) or (
            atom.question == "starts_with" and is_all and end == atom.literal
        ):
            yield atom


def _answers(read: _Read, questions: list[Atom]) -> frozenset[Atom]:
    """Return the atoms that are true for a text that ends here."""
    at_end = (
        atom
        for atom in questions
        if (atom.question == "is" and read.is_all and read.end == atom.literal)
        or (atom.question == "ends_with" and read.end.endswith(atom.literal))
    )
    return read.true_atoms.union(at_end)
