"""Questions about `lower`, `upper` and `trim` of a text, as patterns that the text itself matches or not.

`lower($x) == 'ok'` is asked of `$x` by the pattern `^[oO][kK]$`, with each letter that becomes `k`. A change of case
leaves white space as it is, so that it does not matter when `trim` is called.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from stepward.validator.engine.values.texts import Atom
from stepward.vm.expressions import letters
from stepward.vm.expressions.operators import FunctionName, Question
from stepward.vm.expressions.syntax import Expression, FunctionCall, Reference
from stepward.vm.patterns.languages import tree_of
from stepward.vm.patterns.syntax import Anchor, Chars, Choice, Node, Opaque, Repeat, Sequence

_CHANGES: Final = ("lower", "upper", "trim")
_LAST_LETTER: Final = 0x1FFFF
"""No letter beyond this one has another case."""

_SPACE: Final = "[" + "".join(f"\\x{{{ord(char):x}}}" for char in letters.WHITE_SPACE) + "]"
_NO_SPACE: Final = f"[^{_SPACE[1:]}"


def changed(tree: Expression) -> tuple[Reference, tuple[FunctionName, ...]] | None:
    """Return the reference of a changed text, and what is called, the last call first; None for another expression."""
    calls: list[FunctionName] = []
    while isinstance(tree, FunctionCall) and tree.function in _CHANGES:
        calls.append(tree.function)
        tree = tree.operand
    return (tree, tuple(calls)) if isinstance(tree, Reference) else None


@lru_cache(maxsize=4096)
def question_of(calls: tuple[FunctionName, ...], question: Question, literal: str) -> Atom:
    """Return the question about a text that is this question about its changed form."""
    if not calls:
        return Atom(question, literal)
    text = "".join(_one_of(_before(calls, char)) for char in literal)
    if "trim" not in calls or not literal:
        before, after = "^" if question in ("is", "starts_with") else "", "$" if question in ("is", "ends_with") else ""
        if "trim" in calls and question == "is":
            before, after = f"^{_SPACE}*", "$"
        return Atom("matches", f"(?s){before}{text}{after}")
    starts, ends = literal[0] in letters.WHITE_SPACE, literal[-1] in letters.WHITE_SPACE
    is_first, is_last = question in ("is", "starts_with"), question in ("is", "ends_with")
    if (is_first and starts) or (is_last and ends):
        return Atom("matches", "[^\\x{0}-\\x{10ffff}]")
    # White space at an end of the literal is left only where something else stands beyond it.
    before = f"^{_SPACE}*" if is_first else f"{_NO_SPACE}.*" if starts else ""
    after = f"{_SPACE}*$" if is_last else f".*{_NO_SPACE}" if ends else ""
    return Atom("matches", f"(?s){before}{text}{after}")


def found_in(calls: tuple[FunctionName, ...], pattern: str) -> Atom | None:
    """Return the question whether a pattern is found in a changed text; None where it can't be asked of the text."""
    if not calls:
        return Atom("matches", pattern)
    tree = None if "trim" in calls else tree_of(pattern)
    written = None if tree is None else _written(tree, calls)
    return None if written is None else Atom("matches", f"(?s){written}")


def _written(node: Node, calls: tuple[FunctionName, ...]) -> str | None:
    """Return a pattern with every set of characters replaced by those that become one of them."""
    match node:
        case Chars(ranges=ranges):
            if sum(high - low for low, high in ranges) > 0x80:
                return None
            codes = {chr(code) for low, high in ranges for code in range(low, high + 1)}
            return _one_of(frozenset().union(*(_before(calls, char) for char in codes)))
        case Sequence(parts=parts) | Choice(parts=parts):
            written = [one for one in (_written(part, calls) for part in parts) if one is not None]
            between = "|" if isinstance(node, Choice) else ""
            return f"(?:{between.join(written)})" if len(written) == len(parts) else None
        case Repeat(part=part, low=low, high=high):
            inner = _written(part, calls)
            return None if inner is None else f"(?:{inner}){{{low},{'' if high is None else high}}}"
        case Anchor(at=at):
            return "\\A" if at == "start" else "\\z"
        case Opaque():
            return None


def _one_of(chars: frozenset[str]) -> str:
    """Return the pattern of one character of a set."""
    if not chars:
        return "[^\\x{0}-\\x{10ffff}]"
    return "[" + "".join(f"\\x{{{ord(char):x}}}" for char in sorted(chars)) + "]"


def _before(calls: tuple[FunctionName, ...], char: str) -> frozenset[str]:
    """Return the characters that become this one."""
    chars = frozenset({char})
    for call in calls:
        if call != "trim":
            change = letters.lower if call == "lower" else letters.upper
            stay = {one for one in chars if change(one) == one}
            chars = frozenset(stay.union(*(_sources(call).get(one, ()) for one in chars)))
    return chars


@lru_cache(maxsize=2)
def _sources(call: FunctionName) -> dict[str, list[str]]:
    """Return for each character the others whose lower or upper case it is."""
    every = "".join([chr(code) for code in range(_LAST_LETTER + 1) if not 0xD800 <= code <= 0xDFFF])
    sources: dict[str, list[str]] = {}
    for char, cased in zip(every, letters.lower(every) if call == "lower" else letters.upper(every), strict=True):
        if char != cased:
            sources.setdefault(cased, []).append(char)
    return sources
