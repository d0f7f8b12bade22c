"""Maps the code points of a text value to their offsets in the document, through quotes, escapes and folding."""

from __future__ import annotations

import re
from typing import Final, Literal

Style = Literal["plain", "single", "double", "block"]

_ESCAPE: Final = re.compile(r"\\(?:x[0-9A-Fa-f]{2}|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|\r?\n[ \t]*|.)", re.DOTALL)
_SURROGATES: Final = re.compile(r"\\u[dD][89abAB][0-9A-Fa-f]{2}\\u[dD][c-fC-F][0-9A-Fa-f]{2}")
_SPACE: Final = " \t\r\n"


def offsets_in_text(text: str, start: int, end: int, style: Style, value: str) -> list[int] | None:
    """Return the offset in `text` of each code point of `value`, and of its end.

    `text[start:end]` is `value` written in `style`. Returns None if the two do not match, so that the caller marks the
    whole value, not a wrong part of it.
    """
    position = start
    if style == "block":
        position = text.find("\n", start) + 1
    elif style != "plain":
        position += 1
        end -= 1
    offsets = []
    for letter in value:
        found = _find(text, position, end, style, letter)
        if found is None:
            return None
        at, position = found
        offsets.append(at)
    offsets.append(min(position, end))
    return offsets


def _find(text: str, position: int, end: int, style: Style, letter: str) -> tuple[int, int] | None:
    """Return the offset of the next code point `letter`, and the offset after it; None if it is not found."""
    while position < end:
        here = text[position]
        if style == "double" and here == "\\":
            escape = _escape(text, position)
            if escape.group()[1] not in "\r\n":
                return position, escape.end()
            position = escape.end()
        elif style == "single" and here == "'":
            return (position, position + 2) if letter == "'" else None
        elif here == letter:
            return position, position + 1
        elif text.startswith("\r\n", position):
            position += 1
        elif here in _SPACE:
            if letter in " \n":
                return position, _skip_space(text, position, end)
            position += 1
        else:
            return None
    return (end, end) if style == "block" and letter == "\n" else None


def width(text: str, position: int, style: Style) -> int:
    """Return the number of code points in `text` that write the one code point of a value at `position`."""
    if style == "double" and text[position : position + 1] == "\\":
        return _escape(text, position).end() - position
    return 2 if style == "single" and text.startswith("''", position) else 1


def _escape(text: str, position: int) -> re.Match[str]:
    escape = _SURROGATES.match(text, position) or _ESCAPE.match(text, position)
    assert escape is not None, "a backslash in a quoted text starts an escape"
    return escape


def _skip_space(text: str, position: int, end: int) -> int:
    while position < end and text[position] in _SPACE:
        position += 1
    return position
