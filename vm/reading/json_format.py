"""JSON documents: the C scanner reads them; a scanner of ours finds places in the text when something is reported."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, NamedTuple

from stepward.vm.errors import Problem, ProgramError
from stepward.vm.reading.document import Document, Extent, Wanted
from stepward.vm.reading.limits import MAX_DEPTH
from stepward.vm.reading.scalars import within_limit
from stepward.vm.reading.source import LineIndex, Path, Span

_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+')
_WRITING: Final = r"""(?x)\\u[dD][89abAB][0-9A-Fa-f]{2}\\u[dD][c-fC-F][0-9A-Fa-f]{2}
    |(?P<half>\\u[dD][89a-fA-F][0-9A-Fa-f]{2}|[\ud800-\udfff])
    |\\."""
"""A pair of escapes that write one code point, half of such a pair, or any other escape; few texts are searched for it,
so it is not compiled on import."""


def read_json(name: str, text: str) -> Document:
    """Return the document of a JSON text (RFC 8259), with its numbers exact.

    Raises ProgramError (SW001, SW004) when the text is no JSON or passes a limit.
    """
    try:
        data = json.loads(text, parse_float=_fraction, parse_constant=float)
    except json.JSONDecodeError as error:
        raise ProgramError(name, (_unreadable(text, error),)) from None
    except RecursionError:
        raise ProgramError(name, (_too_deep(text),)) from None
    except (ValueError, ArithmeticError):
        help = "write a shorter number, or put it in quotes"
        raise ProgramError(name, (Problem("SW004", "a number has too many digits", help),)) from None
    entries = _entries(data)
    if entries is None:
        raise ProgramError(name, (_too_deep(text),))
    # The search for halves costs as much as reading the text, so it is made only where there can be one.
    for half in _halves(text) if ("\\" in text and "\\u" in text) or not _is_encodable(text) else ():
        raise ProgramError(name, (half,))
    problems = tuple(_duplicates(text)) if _may_repeat(text, entries) and _repeats(text) else ()
    return Document(name, text, "json", data, _Locator(text), problems)


def _halves(text: str) -> Iterator[Problem]:
    """Yield the surrogates, written as they are or as escapes, that are not one of a pair."""
    for writing in re.finditer(_WRITING, text):
        if writing.group("half"):
            span = LineIndex(text).span(writing.start(), writing.end())
            yield Problem("SW001", "half a surrogate pair is no text", "write the whole character", span=span)


def _is_encodable(text: str) -> bool:
    try:
        return text.isascii() or bool(text.encode())
    except UnicodeEncodeError:
        return False


def _fraction(text: str) -> Decimal:
    return Decimal(within_limit(text))


def _entries(data: Any) -> int | None:
    """Return how many entries all objects have together, or None where the data is too deep.

    The C scanner's own limit on depth hangs on the interpreter, and lets more through than ours.
    """
    entries = 0
    level = [data] if type(data) in (dict, list) else []
    for _ in range(MAX_DEPTH):
        below: list[Any] = []
        for holder in level:
            items = holder
            if type(holder) is dict:
                entries += len(holder)
                items = holder.values()
            for item in items:
                if type(item) is str:  # as most are
                    continue
                if type(item) is dict or type(item) is list:
                    below.append(item)
        if not below:
            return entries
        level = below
    return None


def _may_repeat(text: str, entries: int) -> bool:
    """Whether more keys may be written in a JSON text than its objects have entries: then some key comes twice.

    A colon follows every key. Most texts have no other; where there are, those count that stand as if after a key.
    """
    return entries != text.count(":") and entries < sum(text.count(f"{before}:") for before in '" \t\r\n')


def _repeats(text: str) -> bool:
    """Whether an object of a JSON text names a key twice: surely, and at twice the cost of reading it."""
    written = kept = 0

    def pairs(entries: list[tuple[str, Any]]) -> None:
        nonlocal written, kept
        written += len(entries)
        kept += len(dict(entries))

    json.loads(text, object_pairs_hook=pairs, parse_float=str, parse_int=str)
    return kept < written


def _unreadable(text: str, error: json.JSONDecodeError) -> Problem:
    message = f"not readable as JSON: {error.msg[:1].lower()}{error.msg[1:]}"
    help = (
        "remove the NUL byte; a program is a text file"
        if "\x00" in text
        else "mend a comma, a bracket or a quote near here"
    )
    return Problem("SW001", message, help, span=Span(error.lineno, error.colno, error.lineno, error.colno + 1))


def _too_deep(text: str) -> Problem:
    depth = 0
    for token in _TOKEN.finditer(text):
        depth += {"{": 1, "[": 1, "}": -1, "]": -1}.get(token.group(), 0)
        if depth > MAX_DEPTH:
            span = LineIndex(text).span(token.start(), token.end())
            return Problem("SW004", f"nested deeper than {MAX_DEPTH} levels", "flatten the document", span=span)
    raise AssertionError("the scanner gave up on depth, so there is some")


@dataclass(slots=True)
class _Level:
    path: Path
    wanted: Wanted | None
    start: int
    key: tuple[int, int] | None
    is_object: bool
    next: str | int | None
    next_key: tuple[int, int] | None
    keys: set[str]


class _Entry(NamedTuple):
    """A value, or a key that comes twice (`extent` is then that of the key)."""

    path: Path
    extent: Extent
    repeated: bool = False


def _scan(text: str, wanted: Wanted | None) -> Iterator[_Entry]:
    """Walk a valid JSON text; yield the extents of wanted values, or, without `wanted`, every repeated key."""
    levels: list[_Level] = []
    skip = json.JSONDecoder().raw_decode
    position = 0
    while token := _TOKEN.search(text, position):
        sign, start, end = token.group(), token.start(), token.end()
        position = end
        top = levels[-1] if levels else None
        if sign in ",:":
            if sign == "," and top is not None:
                top.next = None if top.is_object else _following(top.next)
        elif sign in "}]":
            done = levels.pop()
            if done.wanted is not None:
                yield _Entry(done.path, Extent(done.start, end, done.key))
        elif top is not None and top.is_object and top.next is None:
            top.next, top.next_key = json.loads(sign) if "\\" in sign else sign[1:-1], (start, end)
            assert isinstance(top.next, str)
            if wanted is None and top.next in top.keys:
                yield _Entry((*top.path, top.next), Extent(start, end), repeated=True)
            top.keys.add(top.next)
        else:
            inner, path, key = _child(top, wanted)
            if sign in "{[":
                if inner is None and wanted is not None:
                    position = skip(text, start)[1]  # the C scanner finds the end of what nobody asked for
                    continue
                is_object = sign == "{"
                levels.append(_Level(path, inner, start, key, is_object, None if is_object else 0, None, set()))
            elif inner is not None:
                yield _Entry(path, Extent(start, end, key, "double" if sign[0] == '"' else None))


def _following(position: str | int | None) -> int:
    assert isinstance(position, int)
    return position + 1


def _child(top: _Level | None, wanted: Wanted | None) -> tuple[Wanted | None, Path, tuple[int, int] | None]:
    if top is None:
        return wanted, (), None
    assert top.next is not None
    if top.wanted is None or top.next not in top.wanted:
        return None, (), None
    return top.wanted[top.next], (*top.path, top.next), top.next_key


def _duplicates(text: str) -> Iterator[Problem]:
    lines = LineIndex(text)
    for entry in _scan(text, None):
        if entry.repeated:
            message = f"the key `{entry.path[-1]}` comes twice in one object"
            span = lines.span(entry.extent.start, entry.extent.end)
            yield Problem("SW003", message, "remove one of the two, or rename it", span=span)


@dataclass(frozen=True, slots=True)
class _Locator:
    """Finds the extents of paths in a JSON text."""

    text: str

    def __call__(self, wanted: Wanted) -> dict[Path, Extent]:
        return {entry.path: entry.extent for entry in _scan(self.text, wanted)}
