"""Names of called programs as they stand in the texts of a program that calls: `$charge/amount` has to be one name.

No document can write a slash in a reference. Where a called program takes its place in the layout of a program, its
texts name `charge/amount` by a word in which a letter that nobody sees stands around the code of the slash.
"""

from __future__ import annotations

import re
from typing import Final

JOINT: Final = "\u3164"
"""A letter without a picture. No document may have it in a name of a program that calls others."""

_LETTER: Final = re.compile(r"\w")
_CODE: Final = re.compile(rf"{JOINT}([0-9a-f]+){JOINT}")


def as_word(name: str) -> str:
    """Return a word that is a name for the lexer, and stands for `name`, whatever characters that has."""
    return "".join(
        one if _LETTER.match(one) and (number or not one.isdigit()) else f"{JOINT}{ord(one):x}{JOINT}"
        for number, one in enumerate(name)
    )


def of_word(word: str) -> str:
    """Return the name for which a word stands: itself, but in the texts of a called program."""
    return _CODE.sub(lambda found: chr(int(found.group(1), 16)), word) if JOINT in word else word


def legible(text: str) -> str:
    """Return a text as people read it: with the names for which its words stand, `$charge/amount`."""
    return of_word(text)


def names_of(words: str) -> tuple[str, ...]:
    """Return the names of a reference without brackets; the first one may stand for a name of a called program."""
    first, *fields = words.split(".")
    return of_word(first), *fields
