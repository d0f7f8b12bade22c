"""Redacts sensitive values that tools quote in error texts and requests, so that they do not reach a record.

A value that is written literally, with common escapes or cut off is replaced in the text. If it is written with other
escapes or in another spelling (`quotes` has the list), the whole text is replaced.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Final, NamedTuple

from stepward.vm.machine.data import REDACTED
from stepward.vm.machine.escapes import readings
from stepward.vm.values import as_text

CUTS: Final = ("…", "...")
"""The marks of a cut text; before them may be the start of a value."""

MIN_BEFORE_CUT: Final = 4
"""Length from which the start of a value before a cut is replaced; a shorter one reveals little."""

MIN_LENGTH: Final = 6
"""Length from which a value is searched for in other spellings; a shorter one occurs in many texts."""

MIN_BASE64: Final = 5
"""Characters of base64 that are searched for: by chance they occur once in 10^9 positions."""

_MASK: Final = re.compile(r"…|([*•·●▪█x#])\1")
"""The characters that masks write in place of hidden ones."""

MAX_UNINDEXED: Final = 32
"""Number of values up to which they are searched for one by one."""

MAX_BY_HALVES: Final = 2_000
"""Length of a value up to which exactly halves of it are searched for in errors and requests."""

MAX_CASEFOLD_GROWTH: Final = 3
"""Maximal number of characters that case folding makes of one."""

_BETWEEN: Final = re.compile(r"[\s.,:;_'’/|-]+")
"""The separators between the groups of a number, a date or an account."""


def redacted(text: str, secrets: Iterable[str]) -> str:
    """Return a text without the secrets, also if they are written with escapes, cut off, or in another spelling."""
    known = sorted(set(secrets), key=lambda secret: (-len(secret), secret))
    for secret in known:
        if secret:
            for form in dict.fromkeys((secret, *_escaped(secret))):
                text = _without(text, form)
    return REDACTED if _is_escaped(text, known) or quotes(text, known) else text


def _escaped(secret: str) -> Iterator[str]:
    """Yield a text as `repr`, `ascii` and JSON write it, the last one also with PHP's `\\/`."""
    for escaped in (repr(secret)[1:-1], ascii(secret)[1:-1]):
        yield from (escaped, escaped.replace("'", "\\'"))
    for escaped in (json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]):
        yield from (escaped, escaped.replace("/", "\\/"))


def _is_escaped(text: str, secrets: Iterable[str]) -> bool:
    """Return whether a text has a secret, or its start before a cut, in any escapes."""
    _, *read = readings(text)
    return any(_without(one, secret) != one for one in read for secret in secrets if secret)


def _without(text: str, form: str) -> str:
    text = text.replace(form, REDACTED)
    for cut in CUTS:
        *pieces, last = text.split(cut)
        text = cut.join([*(_without_start(piece, form) for piece in pieces), last])
    return text


def _without_start(piece: str, form: str) -> str:
    """Return the text before a cut, without the start of a secret at its end."""
    for length in range(min(len(piece), len(form) - 1), MIN_BEFORE_CUT - 1, -1):
        if piece.endswith(form[:length]):
            return piece[:-length] + REDACTED
    return piece


# -- other spellings ---------------------------------------------------------------------------------------------------


class Spellings(NamedTuple):
    """All spellings of a sensitive value that are searched for.

    `whole` is the case-folded value, and `grouped` that without separators of groups. `whole` is searched for in a
    case-folded text, `joined` in that without separators, and `base64` in the original text. `halves` are the first
    and the last half of `whole`, then those of `grouped`. A text of fewer than `least` characters has none of these.
    `unfolded` is the value before case folding, with and without separators.
    """

    unfolded: tuple[str, str]
    whole: str
    grouped: str
    joined: tuple[str, ...]
    base64: tuple[str, ...]
    halves: tuple[str, ...]
    least: int

    @classmethod
    def of(cls, secret: str) -> Spellings | None:
        """Return the spellings of a value; None if it is too short or has only separators."""
        marked = _marked(secret)
        unfolded = (marked, _joined(marked))
        whole, grouped = (one.casefold() for one in unfolded)
        if len(secret) < MIN_LENGTH or not grouped:
            return None
        data = secret.encode()
        joined = (data.hex(), grouped) if len(grouped) >= MIN_LENGTH else (data.hex(),)
        encoded = tuple(_in_base64(data))
        # Half of a value is half of its own characters: case folding makes two of `ß`.
        halves = tuple(half for one in unfolded for half in _halves(one))
        least = min(map(len, (whole, *joined, *encoded, *halves)))
        return cls(unfolded, whole, grouped, joined, encoded, halves, least)

    @property
    def parts(self) -> tuple[str, ...]:
        """All texts that are searched for; each has at least MIN_BASE64 characters."""
        return (self.whole, *self.joined, *self.base64, *self.halves)


class _Text(NamedTuple):
    """A text in the forms in which spellings are searched for; `read` has it with its escapes read, too.

    `unbroken` has it without its line ends as well: encoders of mail put them into base64.
    """

    unbroken: tuple[str, ...]
    folded: tuple[str, ...]
    joined: tuple[str, ...]

    @classmethod
    def of(cls, text: str) -> _Text:
        read = readings(text)
        folded = tuple(map(_folded, read))
        unbroken = (*read, *(_LINE_END.sub("", one) for one in read if "\n" in one or "\r" in one))
        return cls(unbroken, folded, tuple(map(_joined, folded)))

    def has(self, secret: Spellings) -> bool:
        """Return whether the text has a whole value in some spelling."""
        is_there = _has_any(self.folded, (secret.whole,)) or _has_any(self.joined, secret.joined)
        return is_there or _has_any(self.unbroken, secret.base64)

    def has_half(self, secret: Spellings) -> bool:
        """Return whether the text has the first or the last half of a value."""
        return _has_any((*self.folded, *self.joined), secret.halves)

    def has_any_half(self, secret: Spellings) -> bool:
        """Return whether the text has half of a value, from any place in it."""
        places = zip(secret.unfolded, (self.folded, self.joined), strict=True)
        return any(_has_any_half(text, value) for value, texts in places for text in texts)

    def has_masked(self, secret: Spellings) -> bool:
        """Return whether the text has at least half of a value beside a mask."""
        places = ((secret.whole, secret.halves[:2], self.folded), (secret.grouped, secret.halves[2:], self.joined))
        return any(_is_masked(text, value, halves) for value, halves, texts in places for text in texts)


def _has_any(texts: Iterable[str], forms: Iterable[str]) -> bool:
    for text in texts:
        for form in forms:
            if form in text:
                return True
    return False


def quotes(text: str, secrets: Iterable[str]) -> bool:
    """Return whether a text has a secret of at least MIN_LENGTH characters in another spelling.

    The spellings are: in other case, with escapes of JSON or Python, URL-encoded, in groups or with thousands
    separators, in hexadecimal, in base64 (also within longer data), and any half of it.
    """
    known = [spelled for secret in secrets if (spelled := Spellings.of(secret)) is not None]
    if not known:
        return False
    read = _Text.of(text)
    return any(read.has(secret) or read.has_any_half(secret) for secret in known)


class Searched:
    """The sensitive values that outputs are searched for, with an index so that thousands of values stay fast.

    `_by_start` indexes each spelling of a value by its first characters; numbers are found by their digits.
    """

    def __init__(self) -> None:
        self._all: list[Spellings] = []
        self._by_start: dict[str, list[Spellings]] = {}
        self._digits: set[str] = set()

    def __bool__(self) -> bool:
        return bool(self._all)

    def add(self, secret: Spellings) -> None:
        """Add a value to search for."""
        self._all.append(secret)
        self._digits |= {secret.whole, *([secret.grouped] if len(secret.grouped) >= MIN_LENGTH else [])}
        for start in {part[:MIN_BASE64] for part in secret.parts}:
            self._by_start.setdefault(start, []).append(secret)

    def repeats(self, value: str | int | Decimal) -> bool:
        """Return whether a text has a sensitive value in some spelling, or a number is one.

        Half of a value counts only beside a mask. `quotes` is stricter, because that costs only the words of an error
        text: here, the second half of `ada@example.com` would make every text about that domain sensitive.
        """
        if not self._all:
            return False
        if not isinstance(value, str):
            number = _folded(as_text(value))
            return number in self._digits or _joined(number) in self._digits
        longest = len(value) if value.isascii() else MAX_CASEFOLD_GROWTH * len(value)
        if longest < MIN_BASE64:
            return False
        read: _Text | None = None
        for secret in self._all if len(self._all) <= MAX_UNINDEXED else self._near(_Text.of(value)):
            if secret.least <= longest:
                read = read or _Text.of(value)
                if read.has(secret) or (read.has_half(secret) and read.has_masked(secret)):
                    return True
        return False

    def _near(self, read: _Text) -> Iterator[Spellings]:
        """Yield the values with a spelling whose start occurs in a text."""
        seen: set[str] = set()
        for text in (*read.unbroken, *read.folded, *read.joined):
            for at in range(len(text) - MIN_BASE64 + 1):
                start = text[at : at + MIN_BASE64]
                if start in self._by_start and start not in seen:
                    seen.add(start)
                    yield from self._by_start[start]


def _is_masked(text: str, secret: str, halves: tuple[str, ...]) -> bool:
    """Return whether a text has at least the first half of a value before a mask, or the last half after one."""
    if not halves:
        return False
    first, last = halves
    return _is_cut(text, first, len(secret)) or _is_cut(text[::-1], last[::-1], len(secret))


def _is_cut(text: str, half: str, length: int) -> bool:
    end = 0
    # Each part of the text is searched once, however often it has the half: hostile texts must not be slow.
    while (at := text.find(half, end)) >= 0:
        end = at + len(half)
        if _MASK.search(text, end, at + max(length, 2 * len(half)) + 2):
            return True
    return False


def _marked(text: str) -> str:
    return text.replace("...", "…")


def _folded(text: str) -> str:
    return _marked(text).casefold()


def _joined(text: str) -> str:
    return _BETWEEN.sub("", text)


def _halves(secret: str) -> Iterator[str]:
    """Yield the case-folded first and last half of a value of at least MIN_LENGTH; nothing for a shorter value."""
    half = _half(secret)
    if len(secret) >= half:
        yield secret[:half].casefold()
        yield secret[-half:].casefold()


def _half(secret: str) -> int:
    return max((len(secret) + 1) // 2, MIN_LENGTH)


def _has_any_half(text: str, secret: str) -> bool:
    """Return whether a case-folded text has half of a value. A quarter is enough of a long value, which is faster."""
    half = _half(secret)
    if half > len(text):
        return False
    quarter = (half + 1) // 2
    for at in range(0, len(secret) - quarter + 1, quarter):
        # Each half contains one of these parts.
        if secret[at : at + quarter].casefold() in text:
            starts = range(max(at + quarter - half, 0), min(at, len(secret) - half) + 1)
            if len(secret) > MAX_BY_HALVES or any(secret[start : start + half].casefold() in text for start in starts):
                return True
    return False


def _in_base64(data: bytes) -> Iterator[str]:
    """Yield the base64 of data at any offset within longer data, in both alphabets."""
    for before in range(3):
        whole = base64.b64encode(bytes(before) + data).decode()
        first = (0, 2, 3)[before]  # these characters depend on the bytes before
        last = (before + len(data)) // 3 * 4
        part = whole[first:last]
        if len(part) >= MIN_BASE64:
            yield part
            yield part.translate(_FOR_URLS)


_LINE_END: Final = re.compile(r"\s*[\r\n]\s*")
_FOR_URLS: Final = str.maketrans("+/", "-_")
