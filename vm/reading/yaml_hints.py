"""What to write where YAML can't read a condition: its quotes and brackets mean something to YAML, too."""

from __future__ import annotations

import re
from typing import Final

_VALUE: Final = re.compile(r"(?P<key>[\w-]+)[\"']?[ \t]*:[ \t]+(?P<text>(?:\$|not[ \t]|len\(|defined\(|['\"]).*)")
_QUOTED: Final = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"\\]|\\.)*\"")
_CLOSING: Final = {"[": "]", "{": "}", "(": ")"}


def quoted_instead(line: str, column: int) -> str:
    """Return how to quote the condition of a line that YAML stops at, at an offset; empty where there is none."""
    found = None
    for match in re.finditer(r"[\w-]+[\"']?[ \t]*:[ \t]+", line):
        value = _VALUE.match(line, match.start())
        if value is not None and match.end() <= column <= match.end() + len(_extent(value["text"])) + 1:
            found = value
    if found is None:
        return ""
    text = _extent(found["text"])
    if _QUOTED.fullmatch(text):
        return ""
    mark = '"' if "'" in text and '"' not in text and "\\" not in text else "'"
    inside = text.replace("'", "''") if mark == "'" else text
    return f"put the condition in quotes: `{found['key']}: {mark}{inside}{mark}`"


def _extent(text: str) -> str:
    """Return a condition from the start of a text: up to a comma or bracket of the mapping around it."""
    position, open_brackets = 0, ""
    while position < len(text):
        quoted = _QUOTED.match(text, position)
        sign = text[position]
        if quoted is not None:
            position = quoted.end()
            continue
        if sign in _CLOSING:
            open_brackets += _CLOSING[sign]
        elif open_brackets and sign == open_brackets[-1]:
            open_brackets = open_brackets[:-1]
        elif (not open_brackets and sign in ",}]") or text.startswith(" #", position):
            break
        position += 1
    return text[:position].rstrip()
