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
from typing import Final

from stepward.vm.machine.data import REDACTED

CUTS: Final = ("…", "...")
"""What stands where a text was cut: the start of a value may stand before it."""

LEAST: Final = 4
"""Characters of the start of a value that are taken for it before a cut; fewer tell nothing."""

LEAST_OTHERWISE: Final = 6
"""Characters of a value that is looked for in other spellings; of a shorter one half the texts would have some."""

LEAST_IN_BASE64: Final = 5
"""Characters of base64 that are looked for: chance has them once in 10^9 places."""

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


def quotes(text: str, secrets: Iterable[str]) -> bool:
    """Return whether a text has a secret of at least LEAST_OTHERWISE characters in another spelling.

    Those are: in other case, as a URL has it, in groups or with separators of thousands, in hexadecimal, in base64 also
    within longer data, and the first or the last half of it, as masks leave them.
    """
    long = [secret for secret in secrets if len(secret) >= LEAST_OTHERWISE]
    if not long:
        return False
    folded = {_folded(text), _folded(urllib.parse.unquote_plus(text))}
    joined = {_joined(one) for one in folded}
    return any(_is_in(text, folded, joined, secret) for secret in long)


def _is_in(text: str, folded: set[str], joined: set[str], secret: str) -> bool:
    plain, short = _folded(secret), _joined(_folded(secret))
    if any(part in one for part in _halves(plain) for one in folded):
        return True
    parts = [*_halves(short), secret.encode().hex()]
    if any(part in one for part in parts for one in joined):
        return True
    return any(part in text for part in _in_base64(secret.encode()))


def _folded(text: str) -> str:
    return text.casefold()


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
