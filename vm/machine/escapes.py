r"""Reads texts whose characters are escaped: by JSON, by Python, or for a URL, also one within another.

Python's escapes include all of JSON's but `\/`. A byte of Python (`b'\xc3\xbc'`) is read as a character, and bytes in
a row also as UTF-8.
"""

from __future__ import annotations

import re
import unicodedata
import urllib.parse
from collections.abc import Iterator
from typing import Final

DEPTH: Final = 2
"""How often escapes are read one within another, as in JSON that is a text of JSON."""

_BYTES: Final = r"(?:\\(?:[xX][89a-fA-F][0-9a-fA-F]|[23][0-7]{2}))+"
_HEX: Final = "[0-9a-fA-F]"
_ESCAPE: Final = re.compile(
    rf"(?P<bytes>{_BYTES})"
    rf"|\\U(?P<long>00(?:0{_HEX}|10){_HEX}{{4}})|\\[uU](?P<short>{_HEX}{{4}})|\\[xX](?P<byte>{_HEX}{{2}})"
    r"|\\(?P<octal>[0-7]{1,3})|\\N\{(?P<name>[^{}]{1,100})\}"
    # A cut may leave half of an escape.
    rf"|(?P<rest>\\[uUxX]?{_HEX}{{0,7}})(?=…|\.\.\.)"
    r"|\\(?P<one>.)",
    re.DOTALL,
)
_ONE: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "\n": ""}
"""What a character behind a backslash stands for; every other one is itself."""

_PAIR: Final = re.compile("[\ud800-\udbff][\udc00-\udfff]")


def readings(text: str) -> tuple[str, ...]:
    """Return a text, and all that it may be with its escapes read."""
    found = {text: None}
    fresh = [text]
    for _ in range(DEPTH):
        fresh = [read for one in fresh for read in _read(one) if read not in found]
        found.update(dict.fromkeys(fresh))
    return tuple(found)


def _read(text: str) -> Iterator[str]:
    if "%" in text or "+" in text:
        yield urllib.parse.unquote_plus(text)
    if "\\" in text:
        for encoding in ("latin-1", "utf-8"):
            read = _ESCAPE.sub(lambda found: _character(found, encoding), text)  # noqa: B023
            yield _PAIR.sub(_joined, read)


def _character(found: re.Match[str], encoding: str) -> str:
    """Return what an escape stands for; bytes in a row are read in an encoding."""
    escape = found[0]
    match found.lastgroup:
        case "bytes":
            data = bytes(int(one[1:], 16) if one[0] in "xX" else int(one, 8) for one in escape[1:].split("\\"))
            return data.decode(encoding, errors="ignore")
        case "long" | "short" | "byte":
            return chr(int(escape[2:], 16))
        case "octal":
            return chr(int(escape[1:], 8))
        case "name":
            try:
                return unicodedata.lookup(escape[3:-1])
            except KeyError:
                return escape
        case "rest":
            return ""
    return _ONE.get(escape[1].lower(), escape[1])


def _joined(pair: re.Match[str]) -> str:
    """Return the character of two surrogates."""
    return pair[0].encode("utf-16-be", "surrogatepass").decode("utf-16-be")
