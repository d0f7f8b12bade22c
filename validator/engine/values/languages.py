"""The partition of texts by patterns, questions and lengths together, computed with automata.

Each question about a text is a pattern as well: equal to a literal, containing it, beginning or ending with it. In the
product of all these automata each state represents texts with the same answers; the first text that reaches a state is
a shortest one.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from itertools import islice, product
from math import floor
from typing import Final

from stepward.validator.engine.values.domains import Form
from stepward.validator.engine.values.texts import Atom, TextRequirements
from stepward.vm.patterns.automaton import AutomatonTooLarge
from stepward.vm.patterns.languages import Product, tree_of
from stepward.vm.patterns.syntax import Anchor, Node, Opaque, literal
from stepward.vm.patterns.syntax import Sequence as Parts
from stepward.vm.values import Number

MAX_COMBINATIONS: Final = 16
"""The most combinations of patterns that are searched for a text."""

MAX_ATOMS: Final = 64
"""The most questions in one product."""


def pattern_of(atom: Atom) -> Node:
    """Return a question about a text as a pattern."""
    text = literal(atom.literal)
    match atom.question:
        case "is":
            return Parts((Anchor("start"), *text, Anchor("end")))
        case "contains":
            return Parts(text)
        case "starts_with":
            return Parts((Anchor("start"), *text))
        case "ends_with":
            return Parts((*text, Anchor("end")))
        case "matches":
            return tree_of(atom.literal) or Opaque(atom.literal)


def cut_by_automata(
    atoms: Iterable[Atom], lengths: Iterable[Number], pattern: str | None, longest: int | None, most: int
) -> list[str] | None:
    """Return a shortest text for each class of the texts that match a pattern, up to a length.

    Two texts belong to one class when they give the same answer to each atom, and their lengths compare equally with
    each of `lengths`: below, at, or above. None where there are more than `most`, or where the search is too large.
    """
    questions = list(dict.fromkeys(atoms))
    known = [] if pattern is None else [tree_of(pattern)]
    trees = [tree for tree in known if tree is not None]
    if len(trees) < len(known) or len(questions) > MAX_ATOMS:
        return None
    needed = len(trees)
    trees += [pattern_of(atom) for atom in questions]
    points = sorted(lengths)
    counted = max(floor(points[-1]) + 1, 0) if points else 0
    texts: dict[tuple[tuple[bool, ...], int, int], str] = {}
    try:
        for result in Product(trees, needed=needed, counted=counted, longest=longest).search():
            where = (result.found, bisect_left(points, result.length), bisect_right(points, result.length))
            if where not in texts:
                texts[where] = result.text
            if len(texts) > most:
                return None
    except AutomatonTooLarge:
        return None
    return list(texts.values())


def formed_text(
    required: TextRequirements, types: Iterable[tuple[tuple[Form, ...], tuple[str, ...]]], avoid: Iterable[str] = ()
) -> str | None:
    """Return the shortest text found that is as wanted, not in `avoid`, and of every type; None if there is none.

    Each type is given by its forms and by its other texts.
    """
    types, refused = list(types), set(avoid)
    for text in dict.fromkeys(text for _, known in types for text in known):
        if text not in refused and required.fits(text) and all(_is_of(text, *one) for one in types):
            return text
    for forms in islice(product(*(forms for forms, _ in types)), MAX_COMBINATIONS):
        text_found = _sought(required, forms, refused)
        if text_found is not None:
            return text_found
    return None


def _is_of(text: str, forms: tuple[Form, ...], known: tuple[str, ...]) -> bool:
    return text in known or any(form.has(text) for form in forms)


def _sought(required: TextRequirements, forms: tuple[Form, ...], refused: set[str]) -> str | None:
    """Return a shortest text of all forms that is as wanted and not refused."""
    known = [tree_of(form.pattern) for form in forms]
    trees = [tree for tree in known if tree is not None]
    if len(trees) < len(known):
        return None
    needed = len(trees)
    answers = [*required.answers.values(), *(False for _ in refused)]
    trees += [pattern_of(atom) for atom in (*required.answers, *(Atom("is", text) for text in sorted(refused)))]
    bounds = [bound for bound in (required.length, *(form.max_length for form in forms)) if bound is not None]
    counted = 0 if required.length is None else required.length + 1
    try:
        for result in Product(trees, needed=needed, counted=counted, longest=min(bounds, default=None)).search():
            if list(result.found[needed:]) == answers and required.length in (None, result.length):
                return result.text
    except AutomatonTooLarge:
        pass
    return None
