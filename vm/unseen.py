"""Tells characters that nobody sees in a text, or that change how the text around them is shown.

Some of them are spelling where they stand: joiners in the scripts and emoji that need them, and the selector behind an
emoji. There they are seen, by what they do to their neighbours.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

_IGNORABLE: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0000-\U000e0fff]"
)
"""The characters of Unicode's property Default_Ignorable_Code_Point that their category does not tell."""

_BLANK: Final = "\u2800"
"""A pattern of Braille without dots."""

_CATEGORIES: Final = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"})

_KEYCAP: Final = "\u20e3"

_BEHIND_EMOJI: Final = frozenset("\ufe0f\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff")
"""The selector of an emoji, and the colours of skin."""

_JOINING: Final = (
    *("ARABIC", "SYRIAC", "MONGOLIAN", "NKO", "MANDAIC"),
    *("DEVANAGARI", "BENGALI", "GURMUKHI", "GUJARATI", "ORIYA", "TAMIL", "TELUGU", "KANNADA", "MALAYALAM"),
    *("SINHALA", "KHMER", "MYANMAR", "TIBETAN"),
)
"""The scripts whose spelling needs joiners, as the names of characters have them."""


def unseen(text: str) -> str | None:
    """Return the first character of a text that nobody sees, or None."""
    if text.isascii() and text.isprintable():
        return None
    for at, character in enumerate(text):
        if _is_unseen(character) and not _is_spelling(text, at):
            return character
    return None


def _is_unseen(character: str) -> bool:
    if character in "\n\t":
        return False
    is_blank = character == _BLANK or _IGNORABLE.match(character) is not None
    return is_blank or unicodedata.category(character) in _CATEGORIES


def _is_spelling(text: str, at: int) -> bool:
    """Return whether a joiner, or the selector of an emoji, belongs to the spelling of what is around it."""
    before, after = text[at - 1 : at], text[at + 1 : at + 2]
    match text[at]:
        case "\u200c":
            return _joins(before) and _joins(after)
        case "\u200d":
            return (_joins(before) and _joins(after)) or (_is_emoji(before, or_sign=True) and _is_emoji(after))
        case "\ufe0f":
            return _is_emoji(before) or (bool(before) and before in "0123456789#*" and after == _KEYCAP)
    return False


def _joins(character: str) -> bool:
    is_letter = bool(character) and unicodedata.category(character)[0] in "LM"
    return is_letter and unicodedata.name(character, "").startswith(_JOINING) and not _is_unseen(character)


def _is_emoji(character: str, *, or_sign: bool = False) -> bool:
    """Return whether a character is a symbol; with `or_sign` also what may stand behind one."""
    is_symbol = bool(character) and character != _BLANK and unicodedata.category(character) == "So"
    return is_symbol or (or_sign and character in _BEHIND_EMOJI)
