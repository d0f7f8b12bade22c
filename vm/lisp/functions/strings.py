"""Texts. Positions and lengths count code points."""

from __future__ import annotations

import re
from typing import Any, Final

from stepward.vm.expressions import letters
from stepward.vm.lisp.context import Context
from stepward.vm.lisp.faults import Fault, type_fault
from stepward.vm.lisp.functions.collections import index
from stepward.vm.lisp.functions.function_table import FunctionTable
from stepward.vm.lisp.values import Keyword, Map, Regex, Steps, Vector, is_number, kind
from stepward.vm.values import ValueRefused, exact

SHELF: Final = FunctionTable("texts", "string")

WHITE_SPACE: Final = "".join(sign for sign in letters.WHITE_SPACE if sign not in "\x85\xa0\u2007\u202f")
"""White space, without the spaces at which no line may be broken: as in Clojure."""


def _text(value: Any, function: str) -> str:
    """Return a value that has to be a text; a number or a keyword counts as its text, as in Clojure."""
    if isinstance(value, str):
        return value
    if is_number(value) or isinstance(value, bool | Keyword):
        from stepward.vm.lisp.printing import scalar

        return scalar(value)
    hint = 'test it before, or give a default: `(or s "")`' if value is None else ""
    raise type_fault(function, "a text", kind(value), hint)


def _string(value: Any, function: str) -> str:
    if not isinstance(value, str):
        raise type_fault(function, "a text", kind(value), "make a text of it with `str`")
    return value


@SHELF.function("str", "x …", 0, None, space="core")
def str_(ctx: Context, *values: Any) -> str:
    """Return values as one text; nil is an empty one."""
    return ctx.written(values, readable=False)


@SHELF.function("pr-str", "x …", 0, None, space="core")
def pr_str(ctx: Context, *values: Any) -> str:
    """Return values as they stand in a program, with a space between them."""
    return ctx.written(values, readable=True, separator=" ")


@SHELF.function("subs", "s start end", 2, 3, space="core")
def subs(ctx: Context, value: Any, *bounds: Any) -> str:
    """Return a part of a text."""
    whole = _string(value, "subs")
    start = index(bounds[0], "subs")
    stop = index(bounds[1], "subs") if len(bounds) > 1 else len(whole)
    if not 0 <= start <= stop <= len(whole):
        hint = "for the first characters of a text that may be shorter: `(join (take n s))`"
        raise Fault("bounds_error", f"the part {start} to {stop} is not within the {len(whole)} characters", hint)
    return ctx.text(whole[start:stop])


@SHELF.function("join", "separator coll", 1, 2)
def join(ctx: Context, *args: Any) -> str:
    """Return the items as one text, with a separator between them."""
    separator = ctx.written(args[:-1], readable=False)
    return ctx.written(ctx.items(args[-1], "join"), readable=False, separator=separator)


@SHELF.function("upper-case", "s", 1, 1, also=("upcase",))
def upper_case(ctx: Context, value: Any) -> str:
    """Return a text in upper case."""
    return ctx.text(letters.upper(_text(value, "upper-case")))


@SHELF.function("lower-case", "s", 1, 1, also=("downcase",))
def lower_case(ctx: Context, value: Any) -> str:
    """Return a text in lower case."""
    return ctx.text(letters.lower(_text(value, "lower-case")))


@SHELF.function("trim", "s", 1, 1)
def trim(ctx: Context, value: Any) -> str:
    """Return a text without white space at its ends."""
    return ctx.text(_string(value, "trim").strip(WHITE_SPACE))


@SHELF.function("triml", "s", 1, 1)
def triml(ctx: Context, value: Any) -> str:
    """Return a text without white space at its start."""
    return ctx.text(_string(value, "triml").lstrip(WHITE_SPACE))


@SHELF.function("trimr", "s", 1, 1)
def trimr(ctx: Context, value: Any) -> str:
    """Return a text without white space at its end."""
    return ctx.text(_string(value, "trimr").rstrip(WHITE_SPACE))


@SHELF.function("trim-newline", "s", 1, 1)
def trim_newline(ctx: Context, value: Any) -> str:
    """Return a text without line breaks at its end."""
    return ctx.text(_string(value, "trim-newline").rstrip("\r\n"))


@SHELF.function("blank?", "s", 1, 1)
def is_blank(ctx: Context, value: Any) -> bool:
    """Return whether a text has only white space; nil has."""
    return value is None or not _string(value, "blank?").strip(WHITE_SPACE)


@SHELF.function("starts-with?", "s part", 2, 2)
def starts_with(ctx: Context, value: Any, part: Any) -> bool:
    """Return whether a text starts with another one."""
    return _text(value, "starts-with?").startswith(_string(part, "starts-with?"))


@SHELF.function("ends-with?", "s part", 2, 2)
def ends_with(ctx: Context, value: Any, part: Any) -> bool:
    """Return whether a text ends with another one."""
    return _text(value, "ends-with?").endswith(_string(part, "ends-with?"))


@SHELF.function("includes?", "s part", 2, 2)
def includes(ctx: Context, value: Any, part: Any) -> bool:
    """Return whether a text contains another one."""
    return _string(part, "includes?") in _text(value, "includes?")


@SHELF.function("index-of", "s part start", 2, 3)
def index_of(ctx: Context, value: Any, part: Any, *start: Any) -> int | None:
    """Return the position of a part in a text, nil without one."""
    first = max(index(start[0], "index-of"), 0) if start else 0
    whole, sought = _text(value, "index-of"), _string(part, "index-of")
    found = whole.find(sought, min(first, len(whole)))
    return None if found < 0 else found


@SHELF.function("last-index-of", "s part start", 2, 3)
def last_index_of(ctx: Context, value: Any, part: Any, *start: Any) -> int | None:
    """Return the last position of a part in a text, nil without one."""
    whole, sought = _text(value, "last-index-of"), _string(part, "last-index-of")
    if not start:
        found = whole.rfind(sought)
    else:
        last = index(start[0], "last-index-of")
        found = whole.rfind(sought, 0, last + len(sought)) if last >= 0 else -1
    return None if found < 0 else found


# -- replacing and splitting -------------------------------------------------------------------------------------------


@SHELF.function("replace", "s match replacement", 2, 3)
def replace(ctx: Context, *args: Any) -> Any:
    """Replace a text or a regular expression in a text; with two arguments the items of a collection, by a map."""
    if len(args) == 2:
        return _replaced_items(ctx, *args)
    whole, sought, new = _text(args[0], "replace"), args[1], args[2]
    if isinstance(sought, Regex):
        return _replaced_matches(ctx, whole, sought, new)
    part, other = _string(sought, "replace"), _string(new, "replace")
    ctx.meter.expect(2 * (len(whole) + whole.count(part) * len(other)), "a text in which parts are replaced")
    return ctx.text(whole.replace(part, other))


def _replaced_items(ctx: Context, table: Any, collection: Any) -> Any:
    if not isinstance(table, Map | Vector):
        raise type_fault("replace", "a map of old to new items", kind(table))
    out = ctx.store()
    for item in ctx.items(collection, "replace"):
        ctx.meter.step()
        out.add(ctx.lookup(table, item, item))
    return out.vector() if isinstance(collection, Vector) else out.list()


def _replaced_matches(ctx: Context, whole: str, pattern: Regex, new: Any, most: int = 0) -> Steps:
    """Return a text in which each match is replaced by a text, with `$1` for a group, or by what a function gives."""
    from stepward.vm.lisp.functions.patterns import groups_of, matches_of

    parts, at, length = [], 0, 0
    for number_of, match in enumerate(matches_of(ctx, pattern, whole)):
        if most and number_of == most:
            break
        if isinstance(new, str):
            piece = _filled(new, match)
        else:
            piece = _string((yield from ctx.apply(new, groups_of(ctx, match))), "replace")
        parts += [whole[at : match.start()], piece]
        length += len(piece)
        ctx.meter.expect(2 * length, f"a text of {length} characters")
        at = match.end()
    parts.append(whole[at:])
    return ctx.text("".join(parts))


def _filled(template: str, match: Any) -> str:
    """Return a replacement with `$1` as the text of a group, `\\$` as `$`."""

    def part(found: re.Match[str]) -> str:
        if found[1]:
            return found[1]
        number_of = int(found[2])
        if number_of > match.re.groups:
            raise Fault("bounds_error", f"the pattern has no group {number_of}", "write `\\\\$` for a dollar sign")
        return match[number_of] or ""

    return re.sub(r"\\(.)|\$(\d)", part, template)


@SHELF.function("replace-first", "s match replacement", 3, 3)
def replace_first(ctx: Context, value: Any, sought: Any, new: Any) -> Any:
    """Replace the first text or match in a text."""
    whole = _string(value, "replace-first")
    if isinstance(sought, Regex):
        return _replaced_matches(ctx, whole, sought, new, most=1)
    return ctx.text(whole.replace(_string(sought, "replace-first"), _string(new, "replace-first"), 1))


@SHELF.function("split", "s separator limit", 2, 3)
def split(ctx: Context, value: Any, separator: Any, *limit: Any) -> Vector:
    """Split a text at a regular expression or a text; empty parts at the end are left out."""
    from stepward.vm.lisp.functions.patterns import regex, split_at_matches

    whole = _string(value, "split")
    if isinstance(separator, str):
        separator = regex(ctx, re.escape(separator))
    elif not isinstance(separator, Regex):
        raise type_fault("split", "a regular expression", kind(separator), 'write `#","`')
    return split_at_matches(ctx, separator, whole, index(limit[0], "split") if limit else 0)


@SHELF.function("split-lines", "s", 1, 1)
def split_lines(ctx: Context, value: Any) -> Vector:
    """Split a text into lines; empty ones at the end are left out."""
    from stepward.vm.lisp.functions.patterns import regex, split_at_matches

    return split_at_matches(ctx, regex(ctx, "\r?\n"), _string(value, "split-lines"), 0)


# -- names and numbers -------------------------------------------------------------------------------------------------


@SHELF.function("name", "x", 1, 1, space="core")
def name(ctx: Context, value: Any) -> str:
    """Return the name of a keyword, or a text itself."""
    if isinstance(value, Keyword):
        return value.name.rpartition("/")[2] if len(value.name) > 1 else value.name
    return _string(value, "name")


@SHELF.function("namespace", "x", 1, 1, space="core")
def namespace(ctx: Context, value: Any) -> str | None:
    """Return what stands before the `/` of a keyword, nil without one."""
    if not isinstance(value, Keyword):
        raise type_fault("namespace", "a keyword", kind(value))
    return value.name.rpartition("/")[0] or None


@SHELF.function("keyword", "name", 1, 2, space="core")
def keyword(ctx: Context, *parts: Any) -> Keyword | None:
    """Return the keyword of a name; nil for what is no name."""
    if len(parts) == 2:
        names = [part.name if isinstance(part, Keyword) else part for part in parts]
        if names[0] is not None:
            return ctx.keyword("/".join(_string(part, "keyword") for part in names))
        return ctx.keyword(_string(names[1], "keyword"))
    if isinstance(parts[0], Keyword):
        return parts[0]
    return ctx.keyword(parts[0]) if isinstance(parts[0], str) else None


@SHELF.function("parse-long", "s", 1, 1, also=("parse-int",), space="core")
def parse_long(ctx: Context, value: Any) -> Any:
    """Return the whole number that a text is, nil if it is none."""
    digits = _string(value, "parse-long")
    if len(digits) > 20 or not re.fullmatch(r"[+-]?[0-9]+", digits):
        return None
    found = int(digits)
    return found if -(2**63) <= found < 2**63 else None


@SHELF.function("parse-double", "s", 1, 1, space="core")
def parse_double(ctx: Context, value: Any) -> Any:
    """Return the number that a text is, nil if it is none."""
    from decimal import Decimal

    found = _string(value, "parse-double").strip(WHITE_SPACE + "\x00")
    match = re.fullmatch(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,9})?)[dDfF]?", found)
    if match is None or len(found) > 4_000:
        return None
    try:
        return exact(Decimal(match[1]))
    except ValueRefused:
        return None


@SHELF.function("parse-boolean", "s", 1, 1, space="core")
def parse_boolean(ctx: Context, value: Any) -> bool | None:
    """Return the boolean that a text is, nil if it is none."""
    return {"true": True, "false": False}.get(_string(value, "parse-boolean"))
