"""Decides which patterns are accepted: those of RE2, bounded in size; refusals say why."""

from __future__ import annotations

import re
from typing import Final

import re2

from stepward.vm.patterns.matching import compiled
from stepward.vm.patterns.syntax import Anchor, Chars, Choice, Node, Opaque, PatternError, Repeat, Sequence, parse

MAX_SIZE: Final = 2_000
"""Maximal size of a pattern with its repetitions written out: matching may take that many steps per character."""

MAX_SEARCHED: Final = 200
"""Maximal size of a pattern that is tested for emptiness when a type is loaded."""

_TABLE: Final = "see the table of patterns in specs/language.md"


def require_accepted(pattern: str) -> None:
    """Raise PatternError if a text is not a pattern, is too large, or has another meaning in Python's `re`."""
    tree = parse(pattern)
    try:
        compiled(pattern)
    except re2.error as error:
        raise PatternError(_words(error), _TABLE) from None
    if (size := written_out(tree)) > MAX_SIZE:
        help = f"repeat less, {MAX_SIZE:,} at most, or limit the length with `maxLength`"
        raise PatternError(f"with its repetitions written out it has {size:,} characters", help)
    found = re.search(r"(?<!\\)(?:\\\\)*(\{,[0-9]+\})", pattern)
    if found is not None:
        written = found[1]
        help = f"write `{{0{written[1:]}` to repeat, or `\\{written}` for the text itself"
        raise PatternError(f"`{written}` is plain text here, and a repetition in Python", help)


def _words(error: re2.error) -> str:
    argument = error.args[0] if error.args else ""
    text = argument.decode(errors="replace") if isinstance(argument, bytes) else str(argument)
    return "it is too large" if "too large" in text else text or "it is no regular expression"


def has_no_text(pattern: str, longest: int | None) -> bool:
    """Return whether an accepted pattern is certainly found in no text of at most `longest` characters."""
    tree = parse(pattern)
    if longest is not None and _shortest_length(tree) > longest:
        return True
    if not _may_be_empty(tree) or written_out(tree) > MAX_SEARCHED:
        return False
    from stepward.vm.patterns.languages import is_empty

    return is_empty(pattern, longest)


def _shortest_length(tree: Node) -> int:
    """Return a lower bound of the lengths of the texts of a pattern."""
    match tree:
        case Chars():
            return 1
        case Sequence(parts=parts):
            return sum(map(_shortest_length, parts))
        case Choice(parts=parts):
            return min(map(_shortest_length, parts))
        case Repeat(part=part, low=low):
            return low * _shortest_length(part)
    return 0


def _may_be_empty(tree: Node, *, is_first: bool = True, is_last: bool = True) -> bool:
    """Return whether a pattern may have no texts: it has an anchor in its middle, or an empty set of characters."""
    match tree:
        case Chars(ranges=ranges):
            return not ranges
        case Anchor(at=at):
            return not (is_first if at == "start" else is_last)
        case Choice(parts=parts):
            return any(_may_be_empty(part, is_first=is_first, is_last=is_last) for part in parts)
        case Repeat(part=part):
            return _may_be_empty(part, is_first=False, is_last=False)
        case Sequence(parts=parts):
            last = len(parts) - 1
            return any(
                _may_be_empty(part, is_first=is_first and not number, is_last=is_last and number == last)
                for number, part in enumerate(parts)
            )
    return False


def written_out(tree: Node) -> int:
    """Return the size of a pattern with its repetitions written out, in characters."""
    match tree:
        case Chars() | Opaque():
            return 1
        case Sequence(parts=parts) | Choice(parts=parts):
            return sum(map(written_out, parts))
        case Repeat(part=part, low=low, high=high):
            return written_out(part) * max(low, high or 0, 1)
    return 0
