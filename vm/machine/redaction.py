"""Error texts and requests without what is sensitive: what tools and types quote must not reach a record.

A value is found as it is, with escapes or cut off, and is taken out of the text. Written in another way (`quotes` has
the list) it can't be taken out of a text that goes on to say more of it: then the whole text is.
"""

from __future__ import annotations

import base64
import json
import re
import urllib.parse
from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Final, NamedTuple

from stepward.vm.machine.data import REDACTED
from stepward.vm.values import as_text

CUTS: Final = ("…", "...")
"""What stands where a text was cut: the start of a value may stand before it."""

LEAST: Final = 4
"""Characters of the start of a value that are taken for it before a cut; fewer tell nothing."""

LEAST_OTHERWISE: Final = 6
"""Characters of a value that is looked for in other spellings; of a shorter one half the texts would have some."""

LEAST_IN_BASE64: Final = 5
"""Characters of base64 that are looked for: chance has them once in 10^9 places."""

_MASK: Final = re.compile(r"…|([*•·●▪█x#])\1")
"""What masks leave in place of the characters that they hide."""

FEW: Final = 32
"""Values that are looked for one by one."""

MOST_IN_ONE_CASE: Final = 3
"""Characters that one has at most once it is in one case."""

_BETWEEN: Final = re.compile(r"[\s.,:;_'’/|-]+")
"""What stands between the groups of a number, a date or an account."""


def redacted(text: str, secrets: Iterable[str]) -> str:
    """Return a text without the secrets, also where they are written with escapes, cut off, or in another spelling."""
    known = sorted(set(secrets), key=lambda secret: (-len(secret), secret))
    for secret in known:
        if secret:
            for form in dict.fromkeys((secret, *_escaped(secret))):
                text = _without(text, form)
    return REDACTED if quotes(text, known) else text


def _escaped(secret: str) -> tuple[str, ...]:
    """Return how `repr` and JSON write a text."""
    said = repr(secret)[1:-1]
    return said, said.replace("'", "\\'"), json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]


def _without(text: str, form: str) -> str:
    text = text.replace(form, REDACTED)
    for cut in CUTS:
        *pieces, last = text.split(cut)
        text = cut.join([*(_without_start(piece, form) for piece in pieces), last])
    return text


def _without_start(piece: str, form: str) -> str:
    """Return what stands before a cut, without the start of a secret at its end."""
    for length in range(min(len(piece), len(form) - 1), LEAST - 1, -1):
        if piece.endswith(form[:length]):
            return piece[:-length] + REDACTED
    return piece


# -- other spellings ---------------------------------------------------------------------------------------------------


class Spelled(NamedTuple):
    """A sensitive value in all spellings in which it is looked for.

    `whole` and `grouped` are the value in one case, as it is and without what stands between the groups of a number;
    `folded` is looked for in a text in one case, `joined` in what is left of that without separators, and `base64` in
    the text as it is. `halves` are the first and the last half of `whole`, then those of `grouped`. A text of fewer
    than `least` characters has none of these.
    """

    whole: str
    grouped: str
    folded: tuple[str, ...]
    joined: tuple[str, ...]
    base64: tuple[str, ...]
    halves: tuple[str, ...]
    least: int

    @classmethod
    def of(cls, secret: str) -> Spelled | None:
        """Return the spellings of a value; None where it is too short, or has nothing that tells it from others."""
        whole = _folded(secret)
        grouped = _joined(whole)
        if len(secret) < LEAST_OTHERWISE or not grouped:
            return None
        data = secret.encode()
        folded = tuple(dict.fromkeys((whole, *map(_folded, _escaped(secret)))))
        joined = (data.hex(), grouped) if len(grouped) >= LEAST_OTHERWISE else (data.hex(),)
        encoded = tuple(_in_base64(data))
        halves = (*_halves(whole), *_halves(grouped))
        least = min(map(len, (*folded, *joined, *encoded, *halves)))
        return cls(whole, grouped, folded, joined, encoded, halves, least)

    @property
    def parts(self) -> tuple[str, ...]:
        """All that is looked for: each has at least LEAST_IN_BASE64 characters."""
        return (*self.folded, *self.joined, *self.base64, *self.halves)


class _Read(NamedTuple):
    """A text as the spellings of a value are looked for in it."""

    text: str
    folded: tuple[str, ...]
    joined: tuple[str, ...]

    @classmethod
    def of(cls, text: str) -> _Read:
        folded: tuple[str, ...] = (_folded(text),)
        if "%" in text or "+" in text:
            folded = (*folded, _folded(urllib.parse.unquote_plus(text)))
        return cls(text, folded, tuple(map(_joined, folded)))

    def has(self, secret: Spelled) -> bool:
        """Return whether a value stands in the text, whole, in some spelling."""
        for text in self.folded:
            for form in secret.folded:
                if form in text:
                    return True
        for text in self.joined:
            for form in secret.joined:
                if form in text:
                    return True
        return any(part in self.text for part in secret.base64)

    def has_half(self, secret: Spelled) -> bool:
        """Return whether the first or the last half of a value stands in the text."""
        for text in (*self.folded, *self.joined):
            for half in secret.halves:
                if half in text:
                    return True
        return False

    def has_masked(self, secret: Spelled) -> bool:
        """Return whether half of a value, or more, stands beside a mask in the text."""
        places = ((secret.whole, self.folded), (secret.grouped, self.joined))
        return any(_is_masked(text, value) for value, texts in places for text in texts)


def quotes(text: str, secrets: Iterable[str]) -> bool:
    """Return whether a text has a secret of at least LEAST_OTHERWISE characters in another spelling.

    Those are: in other case, as a URL has it, in groups or with separators of thousands, in hexadecimal, in base64 also
    within longer data, and the first or the last half of it, as masks leave them.
    """
    known = [spelled for secret in secrets if (spelled := Spelled.of(secret)) is not None]
    if not known:
        return False
    read = _Read.of(text)
    return any(read.has_half(secret) or read.has(secret) for secret in known)


class Sought:
    """Sensitive values that outputs are held against. Of thousands only those are looked at that may be in a text.

    Each spelling of a value stands in `_by_start` under its first characters; numbers are found by their digits.
    """

    def __init__(self) -> None:
        self._all: list[Spelled] = []
        self._by_start: dict[str, list[Spelled]] = {}
        self._digits: set[str] = set()

    def __bool__(self) -> bool:
        return bool(self._all)

    def add(self, secret: Spelled) -> None:
        """Look for one more value."""
        self._all.append(secret)
        self._digits |= {secret.whole, *([secret.grouped] if len(secret.grouped) >= LEAST_OTHERWISE else [])}
        for start in {part[:LEAST_IN_BASE64] for part in secret.parts}:
            self._by_start.setdefault(start, []).append(secret)

    def repeats(self, value: str | int | Decimal) -> bool:
        """Return whether a text or a number repeats a sensitive value: a text has it in some spelling, a number is it.

        Half of a value counts beside a mask alone. `quotes` is wider, for it costs an error text no more than its
        words: with the second half of `ada@example.com` each text about that domain would be sensitive.
        """
        if not self._all:
            return False
        if not isinstance(value, str):
            number = _folded(as_text(value))
            return number in self._digits or _joined(number) in self._digits
        most = len(value) if value.isascii() else MOST_IN_ONE_CASE * len(value)
        if most < LEAST_IN_BASE64:
            return False
        read: _Read | None = None
        for secret in self._all if len(self._all) <= FEW else self._near(_Read.of(value)):
            if secret.least <= most:
                read = read or _Read.of(value)
                if read.has(secret) or (read.has_half(secret) and read.has_masked(secret)):
                    return True
        return False

    def _near(self, read: _Read) -> Iterator[Spelled]:
        """Yield the values of which a spelling starts like some part of a text."""
        seen: set[str] = set()
        for text in (read.text, *read.folded, *read.joined):
            for at in range(len(text) - LEAST_IN_BASE64 + 1):
                start = text[at : at + LEAST_IN_BASE64]
                if start in self._by_start and start not in seen:
                    seen.add(start)
                    yield from self._by_start[start]


def _is_masked(text: str, secret: str) -> bool:
    """Return whether a text has the first half of a value, or more, before a mask, or the last half behind one."""
    return _is_cut(text, secret) or _is_cut(text[::-1], secret[::-1])


def _is_cut(text: str, secret: str) -> bool:
    half = next(_halves(secret), "")
    end = 0
    # Each part of the text is looked at once, however often the half stands in it: a text may be made for that.
    while half and (at := text.find(half, end)) >= 0:
        end = at + len(half)
        if _MASK.search(text, end, end + len(half) + 2):
            return True
    return False


def _folded(text: str) -> str:
    return text.replace("...", "…").casefold()


def _joined(text: str) -> str:
    return _BETWEEN.sub("", text)


def _halves(secret: str) -> Iterator[str]:
    """Yield the first and the last half: each text that has the whole has them too. Nothing for what is too short."""
    half = max((len(secret) + 1) // 2, LEAST_OTHERWISE)
    if len(secret) >= half:
        yield secret[:half]
        yield secret[-half:]


def _in_base64(data: bytes) -> Iterator[str]:
    """Yield what base64 has of data wherever it stands in longer data, in both alphabets."""
    for before in range(3):
        whole = base64.b64encode(bytes(before) + data).decode()
        first = (0, 2, 3)[before]  # what comes from the bytes before is not known
        last = (before + len(data)) // 3 * 4
        part = whole[first:last]
        if len(part) >= LEAST_IN_BASE64:
            yield part
            yield part.translate(_FOR_URLS)


_FOR_URLS: Final = str.maketrans("+/", "-_")
