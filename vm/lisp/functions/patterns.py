"""Regular expressions, matched by RE2 in time that is linear in the text."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

from stepward.vm.lisp.context import Context
from stepward.vm.lisp.faults import Fault, type_fault
from stepward.vm.lisp.functions.collections import index
from stepward.vm.lisp.functions.function_table import FunctionTable
from stepward.vm.lisp.values import Regex, Vector, kind
from stepward.vm.patterns.matching import MAX_CACHED, MAX_MEMORY

SHELF: Final = FunctionTable("regular expressions")

MAX_PATTERN: Final = 1_000
"""Maximal characters of a pattern."""


@lru_cache(MAX_CACHED)
def _compiled(source: str) -> Any:
    import re2

    options = re2.Options()
    options.max_mem = MAX_MEMORY
    options.log_errors = False
    return re2.compile(source, options)


def regex(ctx: Context, source: str) -> Regex:
    """Return the regular expression of a text; raises a Fault for one that RE2 does not take."""
    import re2

    if len(source) > MAX_PATTERN:
        raise Fault("bounds_error", f"a pattern has over {MAX_PATTERN} characters", "write a shorter one")
    ctx.meter.step()
    try:
        return Regex(source, _compiled(source))
    except re2.error as error:
        reason = error.args[0]
        words = reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
        hint = "the patterns are those of RE2: without look-around and back-references"
        raise Fault("invalid_form", f"`{ctx.shown(source)}` is no pattern: {words}", hint) from None


def _regex(value: Any, function: str) -> Regex:
    if not isinstance(value, Regex):
        raise type_fault(function, "a regular expression", kind(value), 'write `#"[0-9]+"`, or `(re-pattern s)`')
    return value


def _subject(value: Any, function: str) -> str:
    if not isinstance(value, str):
        raise type_fault(function, "a text to search in", kind(value))
    return value


def groups_of(ctx: Context, match: Any) -> Any:
    """Return a match: its text, or a vector of it and its groups if the pattern has groups."""
    if not match.re.groups:
        return ctx.text(match[0])
    return ctx.vector(ctx.text(part) if part is not None else None for part in (match[0], *match.groups()))


def matches_of(ctx: Context, pattern: Regex, whole: str) -> Iterator[Any]:
    """Return all matches in a text, and count a step for each."""
    for match in pattern.compiled.finditer(whole):
        ctx.meter.step()
        yield match


def split_at_matches(ctx: Context, pattern: Regex, whole: str, limit: int) -> Vector:
    """Return the parts of a text between matches, at most `limit`; without one empty parts at the end are cut."""
    parts: list[str] = []
    at = 0
    for match in matches_of(ctx, pattern, whole):
        if limit > 0 and len(parts) == limit - 1:
            break
        if match.end() == 0 or (match.start() == match.end() == len(whole)):
            continue
        parts.append(whole[at : match.start()])
        at = match.end()
    parts.append(whole[at:])
    if not limit:
        while len(parts) > 1 and not parts[-1]:
            parts.pop()
    return ctx.vector(map(ctx.text, parts if parts != [""] or not whole else []))


@SHELF.function("re-pattern", "s", 1, 1)
def re_pattern(ctx: Context, source: Any) -> Regex:
    """Return the regular expression of a text."""
    return source if isinstance(source, Regex) else regex(ctx, _subject(source, "re-pattern"))


@SHELF.function("re-find", "re s", 2, 2)
def re_find(ctx: Context, pattern: Any, whole: Any) -> Any:
    """Return the first match in a text, nil without one; with groups a vector of the match and its groups."""
    match = _regex(pattern, "re-find").compiled.search(_subject(whole, "re-find"))
    return None if match is None else groups_of(ctx, match)


@SHELF.function("re-matches", "re s", 2, 2)
def re_matches(ctx: Context, pattern: Any, whole: Any) -> Any:
    """Return the match of a whole text, nil if it does not match."""
    match = _regex(pattern, "re-matches").compiled.fullmatch(_subject(whole, "re-matches"))
    return None if match is None else groups_of(ctx, match)


@SHELF.function("re-seq", "re s", 2, 2)
def re_seq(ctx: Context, pattern: Any, whole: Any) -> Any:
    """Return all matches in a text, nil without one."""
    found = ctx.list(
        groups_of(ctx, match) for match in matches_of(ctx, _regex(pattern, "re-seq"), _subject(whole, "re-seq"))
    )
    return found if len(found) else None


@SHELF.function("re-split", "re s", 2, 2)
def re_split(ctx: Context, pattern: Any, whole: Any) -> Vector:
    """Split a text at a regular expression."""
    return split_at_matches(ctx, _regex(pattern, "re-split"), _subject(whole, "re-split"), 0)


@SHELF.function("extract", "pattern s group", 2, 3)
def extract(ctx: Context, pattern: Any, whole: Any, *group: Any) -> Any:
    """Return a group of the first match (the first one), nil without it; the pattern may be a text."""
    number_of = index(group[0], "extract") if group else 1
    match = re_pattern(ctx, pattern).compiled.search(_subject(whole, "extract"))
    if match is None or not 0 <= number_of <= match.re.groups or match[number_of] is None:
        return None
    return ctx.text(match[number_of])


@SHELF.function("extract-int", "pattern s group default", 2, 4)
def extract_int(ctx: Context, pattern: Any, whole: Any, *args: Any) -> Any:
    """Return a group of the first match as a whole number, else the default or nil."""
    found = extract(ctx, pattern, whole, *args[:1])
    value = None if found is None else ctx.functions["parse-long"].run(ctx, found)
    return value if value is not None or len(args) < 2 else args[1]
