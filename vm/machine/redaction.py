"""Error texts without what is sensitive: tools and types quote values, and what they quote must not reach a record."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final

from stepward.vm.machine.data import REDACTED

CUTS: Final = ("…", "...")
"""What stands where a text was cut: the start of a value may stand before it."""

LEAST: Final = 4
"""Characters of the start of a value that are taken for it before a cut; fewer tell nothing."""


def redacted(text: str, secrets: Iterable[str]) -> str:
    """Return a text without the secrets, also where they are written with escapes, or cut off."""
    for secret in sorted(set(secrets), key=lambda secret: (-len(secret), secret)):
        if secret:
            for form in dict.fromkeys((secret, *_escaped(secret))):
                text = _without(text, form)
    return text


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
