"""Reads JSON documents with Python's C scanner; a scanner of our own finds locations if something is reported."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from itertools import pairwise
from typing import Any, Final

from stepward.vm.errors import Problem, ProgramError
from stepward.vm.reading.document import Document, Extent, PathTree
from stepward.vm.reading.finder import Finder
from stepward.vm.reading.limits import MAX_DEPTH
from stepward.vm.reading.scalars import within_limit
from stepward.vm.reading.source import LineIndex, Path, Span

_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')
_PIECE: Final = re.compile(r'("(?:[^"\\]|\\.)*")(\s*:\s*)?|[{}\[\]]|[^\s{}\[\],:"]+')
"""A key with its colon, a text, a bracket, or another scalar: what a valid JSON text has beside commas and spaces."""
_WRITING: Final = r"""(?x)\\u[dD][89abAB][0-9A-Fa-f]{2}\\u[dD][c-fC-F][0-9A-Fa-f]{2}
    |(?P<half>\\u[dD][89a-fA-F][0-9A-Fa-f]{2}|[\ud800-\udfff])
    |\\."""
"""A pair of escapes for one code point, half of such a pair, or any other escape. It is not compiled on import, because
few texts are searched for it."""


def read_json(name: str, text: str) -> Document:
    """Return the document of a JSON text (RFC 8259), with its numbers exact.

    Raises ProgramError (SW001, SW004) if the text is not JSON or exceeds a limit.
    """
    repeats = False

    def mapping(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        nonlocal repeats
        found = dict(pairs)
        repeats = repeats or len(found) < len(pairs)
        return found

    try:
        data = json.loads(text, parse_float=_fraction, parse_constant=float, object_pairs_hook=mapping)
    except json.JSONDecodeError as error:
        raise ProgramError(name, (_unreadable(text, error),)) from None
    except RecursionError:
        raise ProgramError(name, (_too_deep(text),)) from None
    except (ValueError, ArithmeticError):
        help = "write a shorter number, or put it in quotes"
        raise ProgramError(name, (Problem("SW004", "a number has too many digits", help),)) from None
    if _is_too_deep(data):
        raise ProgramError(name, (_too_deep(text),))
    # Searching for lone surrogates costs as much as reading the text, so it is done only if there can be one.
    for half in _halves(text) if "\\u" in text or not _is_encodable(text) else ():
        raise ProgramError(name, (half,))
    problems = tuple(_duplicates(text)) if repeats else ()
    return Document(name, text, "json", data, _Locator(text), problems)


def _halves(text: str) -> Iterator[Problem]:
    """Yield a problem for each lone surrogate, written as a character or as an escape."""
    for writing in re.finditer(_WRITING, text):
        if writing.group("half"):
            span = LineIndex(text).span(writing.start(), writing.end())
            yield Problem("SW001", "half of a surrogate pair is not a text", "write the whole character", span=span)


def _is_encodable(text: str) -> bool:
    try:
        return text.isascii() or bool(text.encode())
    except UnicodeEncodeError:
        return False


def _fraction(text: str) -> Decimal:
    return Decimal(within_limit(text))


def _is_too_deep(data: Any) -> bool:
    """Return whether data is deeper than the limit.

    The C scanner's own limit depends on the interpreter, and is higher than ours.
    """
    holders = (dict, list)
    level = [data] if isinstance(data, holders) else []
    for _ in range(MAX_DEPTH):
        items = [one.values() if isinstance(one, dict) else one for one in level]
        level = [item for among in items for item in among if isinstance(item, holders)]
    return bool(level)


def _unreadable(text: str, error: json.JSONDecodeError) -> Problem:
    message = f"not readable as JSON: {error.msg[:1].lower()}{error.msg[1:]}"
    help = (
        "remove the NUL byte; a program is a text file"
        if "\x00" in text
        else "correct a comma, a bracket or a quote near here"
    )
    return Problem("SW001", message, help, span=Span(error.lineno, error.colno, error.lineno, error.colno + 1))


def _too_deep(text: str) -> Problem:
    depth = 0
    for token in _TOKEN.finditer(text):
        depth += {"{": 1, "[": 1, "}": -1, "]": -1}.get(token.group(), 0)
        if depth > MAX_DEPTH:
            span = LineIndex(text).span(token.start(), token.end())
            return Problem("SW004", f"nested deeper than {MAX_DEPTH} levels", "flatten the document", span=span)
    raise AssertionError("the scanner gave up, so the text is too deep")


def _duplicates(text: str) -> Iterator[Problem]:
    """Yield a problem for each repeated key in an object of a valid JSON text."""
    lines = LineIndex(text)
    keys: list[set[str]] = []
    for token, following in pairwise(_TOKEN.finditer(text)):
        sign = token.group()
        if sign in "{[":
            keys.append(set())
        elif sign in "}]":
            keys.pop()
        elif following.group() == ":":
            key = json.loads(sign)
            if key in keys[-1]:
                message, help = f"the key `{key}` occurs twice in one object", "remove one of the two, or rename it"
                yield Problem("SW003", message, help, span=lines.span(*token.span()))
            keys[-1].add(key)


@dataclass(frozen=True, slots=True)
class _Locator:
    """Finds the extents of paths in a valid JSON text."""

    text: str

    def __call__(self, paths: PathTree) -> dict[Path, Extent]:
        finder, skip, position = Finder(paths), json.JSONDecoder().raw_decode, 0
        while piece := _PIECE.search(self.text, position):
            start, position = piece.span()
            sign = self.text[start]
            if sign in "}]":
                finder.end(position)
            elif sign in "{[":
                if not finder.begin(start, is_mapping=sign == "{"):
                    position = skip(self.text, start)[1]  # the C scanner finds the end of an unwanted value
                    finder.end(position)
            elif piece.lastindex == 2:
                key = json.loads(piece[1]) if "\\" in piece[1] else piece[1][1:-1]
                if finder.wants(key):
                    finder.key(key, start, piece.end(1))
                else:
                    position = skip(self.text, position)[1]
            else:
                finder.scalar(start, position, "double" if sign == '"' else None)
        return finder.found
