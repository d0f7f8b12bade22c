"""Reads escapes of JSON and Python and the encoding of URLs, after the table of "Echoes" in the language page."""

from __future__ import annotations

import unicodedata
from typing import Final
from urllib.parse import unquote_to_bytes

_HEX: Final = "0123456789abcdefABCDEF"
_WITHIN: Final = 2
"""How many of them are read one within another."""
_LETTERS: Final = dict(zip("abfnrtv", "\a\b\f\n\r\t\v", strict=True))
_BYTES: Final = range(0x80, 0x100)


def read(text: str) -> set[str]:
    """Return a text, and what it says once its escapes are read."""
    found = {text}
    for _ in range(_WITHIN):
        of_urls = {_of_url(one) for one in found}
        escaped = {_unescaped(one, as_utf_8=as_utf_8) for one in found for as_utf_8 in (True, False)}
        found |= of_urls | escaped
    return found


def _of_url(text: str) -> str:
    return unquote_to_bytes(text.replace("+", " ").encode(errors="surrogatepass")).decode(errors="replace")


def _unescaped(text: str, *, as_utf_8: bool) -> str:
    result, pending, at = "", b"", 0
    while at < len(text):
        sign, length, is_byte = _escape(text, at) if text[at] == "\\" else (text[at], 1, False)
        if is_byte and as_utf_8:
            pending += sign.encode("latin-1")
        else:
            result += pending.decode(errors="ignore") + sign
            pending = b""
        at += length
    result += pending.decode(errors="ignore")
    return result.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def _escape(text: str, at: int) -> tuple[str, int, bool]:
    """Return what an escape means, its length, and whether it is a byte that is no character of ASCII."""
    kind = text[at + 1 : at + 2]
    for letters, count in (("U", 8), ("uU", 4), ("xX", 2)):
        digits = text[at + 2 : at + 2 + count]
        if kind and kind in letters and len(digits) == count and all(one in _HEX for one in digits):
            number = int(digits, 16)
            if number <= 0x10FFFF:
                return chr(number), 2 + count, kind in "xX" and number in _BYTES
    octal = ""
    while len(octal) < 3 and (digit := text[at + 1 + len(octal) : at + 2 + len(octal)]) and digit in "01234567":
        octal += digit
    if octal:
        return chr(int(octal, 8)), 1 + len(octal), len(octal) == 3 and int(octal, 8) in _BYTES
    if kind == "N" and (named := _named(text, at)):
        return named
    if rest := _half_an_escape(text, at):
        return "", rest, False
    if kind == "\n":
        return "", 2, False
    return (_LETTERS.get(kind.lower(), kind), 2, False) if kind else ("\\", 1, False)


def _named(text: str, at: int) -> tuple[str, int, bool] | None:
    end = text.find("}", at)
    name = text[at + 3 : end]
    if text[at + 2 : at + 3] != "{" or not 0 < len(name) <= 100 or end < 0 or "{" in name:
        return None
    try:
        return unicodedata.lookup(name), end + 1 - at, False
    except KeyError:
        return text[at : end + 1], end + 1 - at, False


def _half_an_escape(text: str, at: int) -> int:
    """Return the length of an escape that a cut has left unfinished, or 0."""
    end = at + 1 + (text[at + 1 : at + 2] in ("u", "U", "x", "X"))
    rest = text[end:]
    digits = len(rest) - len(rest.lstrip(_HEX))
    return end + digits - at if digits <= 7 and rest[digits:].startswith(("…", "...")) else 0
