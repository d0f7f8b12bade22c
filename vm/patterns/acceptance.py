"""Which patterns are accepted: what RE2 accepts, bounded in size; and in words why another one is not."""

from __future__ import annotations

import re
from typing import Final

import re2

from stepward.vm.patterns.matching import compiled
from stepward.vm.patterns.syntax import Anchor, Chars, Choice, Node, Opaque, PatternError, Repeat, Sequence, parse

MAX_SIZE: Final = 2_000
"""Characters of a pattern whose repetitions are written out: a search may take as many for each one of the text."""

MAX_SOUGHT: Final = 200
"""Characters of a pattern whose texts are sought when a type is read."""

_TABLE: Final = "see the table of patterns in specs/language.md"


def require_accepted(pattern: str) -> None:
    """Raise PatternError for what is no pattern, too large for one, or means something else to whoever knows `re`."""
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
    said = error.args[0] if error.args else ""
    text = said.decode(errors="replace") if isinstance(said, bytes) else str(said)
    return "it is too large" if "too large" in text else text or "it is no regular expression"


def has_no_text(pattern: str, longest: int | None) -> bool:
    """Return whether a pattern that was accepted is certainly found in no text of at most `longest` characters."""
    tree = parse(pattern)
    if longest is not None and _least(tree) > longest:
        return True
    if not _is_odd(tree) or written_out(tree) > MAX_SOUGHT:
        return False
    from stepward.vm.patterns.languages import is_empty

    return is_empty(pattern, longest)


def _least(tree: Node) -> int:
    """Return the length of the shortest text of a pattern, or less."""
    match tree:
        case Chars():
            return 1
        case Sequence(parts=parts):
            return sum(map(_least, parts))
        case Choice(parts=parts):
            return min(map(_least, parts))
        case Repeat(part=part, low=low):
            return low * _least(part)
    return 0


def _is_odd(tree: Node, *, is_first: bool = True, is_last: bool = True) -> bool:
    """Return whether an end of the text is asked for amid a pattern, or a character of no set: it may have no text."""
    match tree:
        case Chars(ranges=ranges):
            return not ranges
        case Anchor(at=at):
            return not (is_first if at == "start" else is_last)
        case Choice(parts=parts):
            return any(_is_odd(part, is_first=is_first, is_last=is_last) for part in parts)
        case Repeat(part=part):
            return _is_odd(part, is_first=False, is_last=False)
        case Sequence(parts=parts):
            last = len(parts) - 1
            return any(
                _is_odd(part, is_first=is_first and not number, is_last=is_last and number == last)
                for number, part in enumerate(parts)
            )
    return False


def written_out(tree: Node) -> int:
    """Return how many characters a pattern has when its repetitions are written out."""
    match tree:
        case Chars() | Opaque():
            return 1
        case Sequence(parts=parts) | Choice(parts=parts):
            return sum(map(written_out, parts))
        case Repeat(part=part, low=low, high=high):
            return written_out(part) * max(low, high or 0, 1)
    return 0
