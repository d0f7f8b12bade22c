"""Which texts of a block patterns allow, decided by derivatives of regular expressions.

The derivative of an expression by a character describes what may follow that character in the texts of the expression
(Brzozowski, Journal of the ACM 11, 1964). No automaton is built: the search extends texts by one character at a time
and records the derivatives of every expression, until there is no new one. A search beyond the limit answers "maybe".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import Final, Literal

from stepward.validator.recheck.changed_texts import sources
from stepward.vm.expressions.letters import WHITE_SPACE
from stepward.vm.patterns.charsets import Ranges
from stepward.vm.patterns.syntax import Anchor, Chars, Choice, Node, Opaque, PatternError, Repeat, Sequence, parse

MAX_WORK: Final = 300_000
"""The most derivatives of parts for one question."""

CACHE_SIZE: Final = 4_096
"""The size of each cache."""

MAX_UNROLLED: Final = 50
"""The most repetitions that are unrolled, for a part with an anchor."""

LAST: Final = 0x10FFFF


class _TooMuch(Exception):  # noqa: N818 - never seen outside this file
    pass


# -- expressions -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Hashed:
    """What computes its hash once: the search looks each expression up for every character."""

    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        names: tuple[str, ...] = self.__match_args__
        object.__setattr__(self, "_hash", hash((type(self), *(getattr(self, name) for name in names))))

    def __hash__(self) -> int:
        return self._hash


@dataclass(frozen=True, slots=True)
class CharSet(_Hashed):
    """One character of a set."""

    ranges: Ranges

    __hash__ = _Hashed.__hash__


@dataclass(frozen=True, slots=True)
class Edge:
    """The empty text at the start or the end of the text."""

    at: Literal["start", "end"]


@dataclass(frozen=True, slots=True)
class Then(_Hashed):
    """One expression and then another."""

    first: Rest
    second: Rest

    __hash__ = _Hashed.__hash__


@dataclass(frozen=True, slots=True)
class Or:
    """One of several expressions; without any, no text matches."""

    parts: frozenset[Rest]


@dataclass(frozen=True, slots=True)
class Times(_Hashed):
    """An expression repeated `least` to `most` times, or without upper limit. It has no anchor."""

    part: Rest
    least: int
    most: int | None

    __hash__ = _Hashed.__hash__


@dataclass(frozen=True, slots=True)
class Nothing:
    """The empty text."""


Rest = CharSet | Edge | Then | Or | Times | Nothing

NEVER: Final = Or(frozenset())
NOTHING: Final = Nothing()
ALL: Final = Times(CharSet(((0, LAST),)), 0, None)
"""Every text."""

SPACES: Final = Times(CharSet(tuple((ord(char), ord(char)) for char in sorted(WHITE_SPACE))), 0, None)
"""White space, or nothing."""

NO_SPACE: Final = CharSet(
    tuple(
        (ord(low) + 1, ord(high) - 1)
        for low, high in pairwise(("\0", *sorted(WHITE_SPACE), chr(LAST)))
        if ord(low) + 1 < ord(high)
    )
)


def then(first: Rest, second: Rest) -> Rest:
    """Return the concatenation of two expressions."""
    if NEVER in (first, second):
        return NEVER
    if first == NOTHING:
        return second
    return first if second == NOTHING else Then(first, second)


def either(parts: Iterable[Rest]) -> Rest:
    """Return the union of several expressions."""
    alternatives: set[Rest] = set()
    for part in parts:
        alternatives |= part.parts if isinstance(part, Or) else {part}
    if ALL in alternatives:
        return ALL
    return next(iter(alternatives)) if len(alternatives) == 1 else Or(frozenset(alternatives))


def times(part: Rest, least: int, most: int | None) -> Rest:
    """Return the repetition of an expression."""
    if most == 0 or (part == NEVER and not least) or part == NOTHING:
        return NOTHING
    if part == NEVER:
        return NEVER
    if not _asks_where(part):
        return part if least == most == 1 else Times(part, least, most)
    if most is None:
        return then(_copies(part, least), Times(part, 0, None))
    optional: Rest = NOTHING
    for _ in range(min(most - least, MAX_UNROLLED + 1)):
        optional = either([NOTHING, then(part, optional)])
    if most > MAX_UNROLLED:
        raise _TooMuch
    return then(_copies(part, least), optional)


def _copies(part: Rest, number: int) -> Rest:
    if number > MAX_UNROLLED:
        raise _TooMuch
    copies: Rest = NOTHING
    for _ in range(number):
        copies = then(part, copies)
    return copies


@lru_cache(CACHE_SIZE)
def _asks_where(rest: Rest) -> bool:
    return isinstance(rest, Edge) or any(map(_asks_where, _parts(rest)))


def _parts(rest: Rest) -> Iterable[Rest]:
    match rest:
        case Then(first=first, second=second):
            return first, second
        case Or(parts=parts):
            return parts
        case Times(part=part):
            return (part,)
    return ()


def _written(tree: Node) -> Rest:
    match tree:
        case Chars(ranges=ranges):
            return CharSet(ranges) if ranges else NEVER
        case Anchor(at=at):
            return Edge(at)
        case Sequence(parts=parts):
            rest: Rest = NOTHING
            for part in reversed(parts):
                rest = then(_written(part), rest)
            return rest
        case Choice(parts=parts):
            return either(_written(part) for part in parts)
        case Repeat(part=part, low=low, high=high):
            return times(_written(part), low, high)
        case Opaque():
            raise _TooMuch


def _sought(rest: Rest) -> Rest:
    """Return the texts that contain a match of an expression."""
    return then(ALL, then(rest, ALL))


def whole(pattern: str) -> str:
    """Return a pattern that has each text from end to end in which a pattern is found; it may have more."""
    every = "[\\x{0}-\\x{10ffff}]*"
    try:
        tree = parse(pattern)
        parts = tree.parts if isinstance(tree, Sequence) else (tree,)
        is_first = pattern.startswith("^") and parts[:1] == (Anchor("start"),)
        is_last = pattern.endswith("$") and len(parts) > is_first and parts[-1] == Anchor("end")
        inner = parts[is_first : len(parts) - is_last]
        if "\\Q" in pattern or any(_asks_where(_written(part)) for part in inner):  # a quote may not end in the pattern
            return every
    except (PatternError, _TooMuch):
        return every
    between = pattern[is_first : len(pattern) - is_last]
    return f"{'' if is_first else every}(?:{between}){'' if is_last else every}"


@lru_cache(CACHE_SIZE)
def _question(question: str, text: str) -> Rest | None:
    """Return the texts that answer a question with yes; None where that is not known.

    A question is a word (`contains`, `starts_with`, `ends_with`, `is`, `matches`) behind the functions that change the
    text before, the last one first.
    """
    *calls, word = question.split()
    if word == "matches":
        pattern = None if "trim" in calls else _pattern(text)
        return None if pattern is None else _before(pattern, tuple(calls))
    rest: Rest = NOTHING
    for char in reversed(text):
        rest = then(_before(CharSet(((ord(char), ord(char)),)), tuple(calls)), rest)
    is_first, is_last = word in ("starts_with", "is"), word in ("ends_with", "is")
    if "trim" not in calls or not text:
        space = SPACES if "trim" in calls and word == "is" else NOTHING
        rest = then(rest, Edge("end")) if is_last else rest
        return _sought(then(Edge("start"), then(space, rest)) if is_first else rest)
    starts, ends = text[0] in WHITE_SPACE, text[-1] in WHITE_SPACE
    if (is_first and starts) or (is_last and ends):
        return NEVER  # a trimmed text has no white space at its ends
    # White space in a trimmed text has something else before and behind it.
    before = then(Edge("start"), SPACES) if is_first else then(NO_SPACE, ALL) if starts else NOTHING
    after = then(SPACES, Edge("end")) if is_last else then(ALL, NO_SPACE) if ends else NOTHING
    return _sought(then(before, then(rest, after)))


def _before(rest: Rest, calls: tuple[str, ...]) -> Rest:
    """Return the texts that become those of an expression; `trim` is left out."""
    if not set(calls) - {"trim"}:
        return rest
    match rest:
        case CharSet(ranges=ranges):
            spans = sources(ranges, calls)
            return CharSet(spans) if spans else NEVER
        case Then(first=first, second=second):
            return then(_before(first, calls), _before(second, calls))
        case Or(parts=parts):
            return either(_before(part, calls) for part in parts)
        case Times(part=part, least=least, most=most):
            return rest if rest == ALL else times(_before(part, calls), least, most)
        case Edge() | Nothing():
            return rest


@lru_cache(CACHE_SIZE)
def _pattern(pattern: str) -> Rest | None:
    """Return the texts that match a pattern; None where that is not known."""
    try:
        return _sought(_written(parse(pattern)))
    except (PatternError, _TooMuch):
        return None


# -- derivatives -------------------------------------------------------------------------------------------------------


class _Derivatives:
    """Computes derivatives, each once, and counts them."""

    def __init__(self) -> None:
        self.work = 0
        self.known: dict[tuple[Rest, int, bool], Rest] = {}

    def may_be_empty(self, rest: Rest, *, is_start: bool, is_end: bool) -> bool:
        """Return whether an expression matches the empty text, at some position of the whole text."""
        self.work += 1
        match rest:
            case Nothing():
                return True
            case Edge(at=at):
                return is_start if at == "start" else is_end
            case Then(first=first, second=second):
                return self.may_be_empty(first, is_start=is_start, is_end=is_end) and self.may_be_empty(
                    second, is_start=is_start, is_end=is_end
                )
            case Or(parts=parts):
                return any(self.may_be_empty(part, is_start=is_start, is_end=is_end) for part in parts)
            case Times(part=part, least=least):
                return least == 0 or self.may_be_empty(part, is_start=is_start, is_end=is_end)
            case CharSet():
                return False

    def by(self, rest: Rest, code: int, *, is_start: bool) -> Rest:
        """Return the derivative by a character; `is_start` says that it is the first character."""
        key = rest, code, is_start
        if key not in self.known:
            self.work += 1
            if self.work > MAX_WORK:
                raise _TooMuch
            self.known[key] = self._by(rest, code, is_start=is_start)
        return self.known[key]

    def _by(self, rest: Rest, code: int, *, is_start: bool) -> Rest:
        match rest:
            case CharSet(ranges=ranges):
                return NOTHING if any(low <= code <= high for low, high in ranges) else NEVER
            case Then(first=first, second=second):
                derivative = then(self.by(first, code, is_start=is_start), second)
                if self.may_be_empty(first, is_start=is_start, is_end=False):
                    derivative = either([derivative, self.by(second, code, is_start=is_start)])
                return derivative
            case Or(parts=parts):
                return either(self.by(part, code, is_start=is_start) for part in parts)
            case Times(part=part, least=least, most=most):
                left = times(part, max(least - 1, 0), None if most is None else most - 1)
                return then(self.by(part, code, is_start=is_start), left)
        return NEVER


# -- the search --------------------------------------------------------------------------------------------------------

TextQuestion = tuple[str, str]
"""A question, such as `contains` or `lower is`, and its literal or pattern."""


@lru_cache(CACHE_SIZE)
def may_match(
    pattern: str | None,
    answers: frozenset[tuple[TextQuestion, bool]] = frozenset(),
    above: int = -1,
    below: int | None = None,
    but: frozenset[str] = frozenset(),
    without: str | None = None,
) -> bool:
    """Return whether there may be a text that matches a pattern, and does not match `without`.

    It answers questions as `answers` says, is not in `but`, and its length is strictly between `above` and `below`.
    True also where the search is too large.
    """
    try:
        # What is not known is left out, which only adds texts.
        required = [] if pattern is None else [_pattern(pattern)]
        refused = [] if without is None else [_pattern(without)]
        required += [_question(*question) for question, answer in answers if answer]
        refused += [_question(*question) for question, answer in answers if not answer]
        refused += [_question("is", text) for text in sorted(but)]
        known = [one for one in required if one is not None]
        return _is_any(known, [one for one in refused if one is not None], above, below)
    except (_TooMuch, RecursionError):
        return True


def _is_any(required: list[Rest], refused: list[Rest], above: int, below: int | None) -> bool:
    """Return whether some text matches all wanted expressions and no refused one, with a length between two bounds."""
    derivatives, number = _Derivatives(), len(required)
    codes = _codes([*required, *refused])
    level: set[tuple[Rest, ...]] = {(*required, *refused)}
    visited: set[tuple[Rest, ...]] = set()
    length = 0
    while level and (below is None or length < below):
        if length > above:
            for state in level:
                ends = [derivatives.may_be_empty(one, is_start=not length, is_end=True) for one in state]
                if all(ends[:number]) and not any(ends[number:]):
                    return True
            if length > 0:
                level -= visited
                visited |= level
        following: set[tuple[Rest, ...]] = set()
        for state in level:
            for code in codes:
                after = tuple([derivatives.by(one, code, is_start=not length) for one in state])
                if NEVER not in after[:number] and ALL not in after[number:]:
                    following.add(after)
        level, length = following, length + 1
    return False


def _codes(rests: Iterable[Rest]) -> list[int]:
    """Return one character of each class that the expressions distinguish."""
    sets: set[Ranges] = {one for rest in rests for one in _sets(rest)}
    starts = {0, 0xE000, *(low for one in sets for low, _ in one), *(high + 1 for one in sets for _, high in one)}
    kinds: dict[frozenset[Ranges], int] = {}
    for code in sorted(starts):
        if code <= LAST and not 0xD800 <= code < 0xE000:
            kind = frozenset(one for one in sets if any(low <= code <= high for low, high in one))
            kinds.setdefault(kind, code)
    return list(kinds.values())


def _sets(rest: Rest) -> Iterable[Ranges]:
    if isinstance(rest, CharSet):
        yield rest.ranges
    for part in _parts(rest):
        yield from _sets(part)


def covers(wide: str | None, narrow: str | None, longest: int | None, upto: int | None) -> bool:
    """Return whether every text of up to `longest` characters that matches `narrow` also matches `wide`.

    And no such text has more than `upto` characters. False where that is not certain.
    """
    below = None if longest is None else longest + 1
    has_pattern = wide is None or wide == narrow or not may_match(narrow, below=below, without=wide)
    return has_pattern and (upto is None or not may_match(narrow, above=upto, below=below))
