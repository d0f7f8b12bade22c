"""Questions about a text: equality with literals, literals in it, before it, behind it, and its length.

No string solver is used, because such solvers hang on a dozen `contains`. A question about a text is an *atom*, one
Boolean; `facts` adds the relations between the atoms of one text, and `text_of` writes a text with given answers. These
relations hold for every text, so what they rule out is impossible. Where no length is asked for they are complete as
well: a character that no literal has separates the parts of a text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import permutations
from typing import Final, Literal, NamedTuple, assert_never

from stepward.vm.expressions.operators import Question
from stepward.vm.patterns.matching import matches

ANSWERS: Final[dict[Question | Literal["matches"], Callable[[str, str], bool]]] = {
    "is": str.__eq__,
    "contains": str.__contains__,
    "starts_with": str.startswith,
    "ends_with": str.endswith,
    "matches": lambda text, pattern: matches(pattern, text),
}

MAX_ORDERED: Final = 5
"""The most parts of a text that are tried in every order."""


class Atom(NamedTuple):
    """A question about a text, and its literal; that of `matches` is a pattern."""

    question: Question | Literal["matches"]
    literal: str

    def of(self, text: str) -> bool:
        """Return the answer for one text."""
        return ANSWERS[self.question](text, self.literal)


def implied(atom: Atom, other: Atom) -> bool:
    """Return whether every text for which `atom` holds is one for which `other` holds."""
    if other.question == "is":
        return atom == other
    if atom.question == "is":
        return other.of(atom.literal)
    if "matches" in (atom.question, other.question):
        return atom == other
    if other.question == "contains":
        return other.literal in atom.literal
    return not other.literal or (atom.question == other.question and other.of(atom.literal))


def excluded(atom: Atom, other: Atom) -> bool:
    """Return whether no text satisfies both atoms."""
    for first, second in ((atom, other), (other, atom)):
        if first.question == "is":
            return not second.of(first.literal)
    if atom.question == other.question and atom.question in ("starts_with", "ends_with"):
        return not (atom.of(other.literal) or other.of(atom.literal))
    return False


def least_length(atom: Atom, other: Atom) -> int:
    """Return a lower bound of the length of a text that satisfies both atoms."""
    a, b = atom.literal, other.literal
    if a in b or b in a:
        return max(len(a), len(b))
    orders = [(a, b), (b, a)]
    if atom.question == "starts_with" or other.question == "ends_with":
        orders = [(a, b)]
    elif atom.question == "ends_with" or other.question == "starts_with":
        orders = [(b, a)]
    return min(len(joined(first, second)) for first, second in orders)


def joined(first: str, second: str) -> str:
    """Return the concatenation of two texts, with the largest overlap."""
    for shared in range(min(len(first), len(second)), 0, -1):
        if first.endswith(second[:shared]):
            return first + second[shared:]
    return first + second


def parts_of(question: Question, text: str) -> list[str]:
    """Return the texts that satisfy a question about a literal: itself, its parts, its prefixes or suffixes."""
    ends = range(len(text) + 1)
    match question:
        case "is":
            return [text]
        case "starts_with":
            return [text[:end] for end in ends]
        case "ends_with":
            return [text[start:] for start in ends]
        case "contains":
            return list(dict.fromkeys(text[start:end] for start in ends for end in range(start, len(text) + 1)))
        case _:
            assert_never(question)


def separator(literals: Iterable[str]) -> str:
    """Return a character that no literal contains, a letter if possible."""
    used = set("".join(literals))
    for char in "xyzabcdefghijklmnopqrstuvwXYZ0123456789-_":
        if char not in used:
            return char
    return next(chr(code) for code in range(0x100, 0x3000) if chr(code) not in used)


@dataclass(frozen=True)
class TextRequirements:
    """The requirements on a text: an answer for each atom, and a length if one was asked for."""

    answers: Mapping[Atom, bool]
    length: int | None = None

    def fits(self, text: str) -> bool:
        """Return whether a text satisfies the requirements."""
        if self.length is not None and len(text) != self.length:
            return False
        return all(atom.of(text) is answer for atom, answer in self.answers.items())


def text_of(required: TextRequirements, avoid: Iterable[str] = ()) -> str | None:
    """Return the simplest text found that is as wanted and not in `avoid`; None if there is none."""
    refused = set(avoid)
    return next((text for text in _candidates(required, refused) if text not in refused and required.fits(text)), None)


def _candidates(required: TextRequirements, refused: set[str]) -> Iterator[str]:
    literals = [atom.literal for atom in required.answers]
    for atom, answer in required.answers.items():
        if answer and atom.question == "is":
            yield atom.literal
            return
    char = separator((*literals, *refused))
    start = max(_true(required, "starts_with"), key=len, default="")
    end = max(_true(required, "ends_with"), key=len, default="")
    inner = [part for part in _maximal(_true(required, "contains")) if part not in start and part not in end]
    shapes = list(_shapes(start, inner, end, char))
    yield from shapes
    for number in range(len(refused) + 1):
        for shape in shapes[-2:]:
            yield shape + char * number + end if end else shape + char * number
    if required.length is not None:
        yield from _padded(shapes, required.length, start, end, char)


def _padded(shapes: list[str], length: int, start: str, end: str, char: str) -> Iterator[str]:
    for shape in shapes:
        missing = length - len(shape)
        if missing > 0:
            body = shape[len(start) : len(shape) - len(end)] if len(shape) >= len(start) + len(end) else ""
            yield start + char * missing + body + end
            yield start + body + char * missing + end


def _shapes(start: str, inner: list[str], end: str, char: str) -> Iterator[str]:
    """Yield texts with the required prefix, suffix and parts: overlapping ones first, then ones with separators."""
    orders = permutations(inner) if len(inner) <= MAX_ORDERED else iter([tuple(inner)])
    for order in orders:
        text = ""
        for part in (start, *order, end):
            text = joined(text, part)
        yield text
    yield start + "".join(inner) + end
    yield char.join(part for part in (start, *inner, end) if part) or char
    yield start + char + "".join(part + char for part in inner) + end


def _true(required: TextRequirements, question: Question) -> list[str]:
    return [atom.literal for atom, answer in required.answers.items() if answer and atom.question == question]


def _maximal(parts: list[str]) -> list[str]:
    """Return the parts that no other part contains."""
    return [part for part in dict.fromkeys(parts) if not any(part != other and part in other for other in parts)]


def classes(atoms: Iterable[Atom], limit: int) -> list[str] | None:
    """Return a text for each combination of answers to the atoms; None when there are more than `limit`.

    Complete: the answers of every text are those of one of these. Such a text is a literal, or it consists of the
    longest literal that it starts with, those that it contains, and the longest that it ends with, all separated.
    """
    questions = list(dict.fromkeys(atoms))
    inner = list(dict.fromkeys(atom.literal for atom in questions if atom.question == "contains" and atom.literal))
    starts = ["", *dict.fromkeys(atom.literal for atom in questions if atom.question == "starts_with" and atom.literal)]
    ends = ["", *dict.fromkeys(atom.literal for atom in questions if atom.question == "ends_with" and atom.literal)]
    literals = list(dict.fromkeys(atom.literal for atom in questions))
    if len(inner) > limit.bit_length() or len(starts) * len(ends) << len(inner) > limit:
        return None
    char = separator(literals)
    texts: dict[tuple[bool, ...], str] = {tuple(atom.of(text) for atom in questions): text for text in literals}
    for start in starts:
        for end in ends:
            for chosen in range(1 << len(inner)):
                parts = [part for number, part in enumerate(inner) if chosen >> number & 1]
                separated = start + char + "".join(part + char for part in parts) + end
                answers = tuple(atom.of(separated) for atom in questions)
                if answers not in texts:
                    required = TextRequirements(dict(zip(questions, answers, strict=True)))
                    texts[answers] = text_of(required) or separated
    return list(texts.values())
