"""Hints for people who write an expression as in another language: what to write instead.

A rewrite is offered only when it parses: a help that does not work is worse than none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from stepward.vm.errors import ExpressionError
from stepward.vm.expressions.lexer import FIELD, INDEX, NAME
from stepward.vm.expressions.operators import (
    FUNCTION_METHODS,
    FUNCTION_WORDS,
    INSTEAD,
    KEYWORDS,
    METHODS,
    OPERATORS,
    SIGNS,
    STRING,
)

MAX_REWRITTEN: Final = 2_000
"""Maximal length of a text that is rewritten: the search is quadratic, and nobody reads a longer help."""

_SIGN: Final = "|".join(
    map(re.escape, sorted((one for one in (*SIGNS, *INSTEAD) if not one.isidentifier()), key=len, reverse=True))
)
_PARTS: Final = rf"(?:\.{NAME}\b(?!\s*\()|{INDEX}|{FIELD})"
_PIECE: Final = re.compile(
    rf"""(?P<space>\s+)
    |(?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[“”][^“”]*[“”]|[‘’][^‘’]*[‘’])
    |(?P<method>\.{NAME}\s*\()
    |(?P<reference>\$\{{\s*{NAME}{_PARTS}*\s*\}}|\{{\{{\s*\$?{NAME}{_PARTS}*\s*\}}\}}|\${NAME}{_PARTS}*)
    |(?P<path>(?!(?:in|and|or|not)\b){NAME}{_PARTS}+)
    |(?P<word>{NAME})
    |(?P<number>[0-9]+(?:_[0-9]+)+|(?<![\w.])\.[0-9]+)
    |(?P<sign>{_SIGN}|.)""",
    re.VERBOSE | re.DOTALL,
)
_QUOTED_REFERENCE: Final = re.compile(rf"""(['"])(\${NAME}(?:\.{NAME})*)\1""")
_METHOD: Final = re.compile(rf"\.{NAME}\s*\(")
_PARENTHESISED: Final = re.compile(r"\bin\s*\(([^()]*)\)")
_SIGNS: Final = {**INSTEAD, ";": "", "!": "not "}


def _listed(word: str, items: Sequence[str]) -> str:
    quoted = [f"`{item}`" for item in items]
    return f"{', '.join(quoted[:-1])} {word} {quoted[-1]}"


_OF_TEXTS: Final = [word for word, row in OPERATORS.items() if row.takes in ("contains", STRING) and not row.is_negated]
_ASK: Final = f"ask with {_listed('or', _OF_TEXTS)}"
_TAKES_TEXT: Final = {
    *(word for word, row in OPERATORS.items() if row.asks != "order"),
    *("=", "===", "is", ",", "["),
}
"""The words and signs after which a bare word is read as a text."""

_MISSING: Final = {
    "[": "an index is a whole number from 0, directly after the name: `$list[0]`; for any item, ask with `contains`",
    "#": "a condition holds no comment; put it beside the condition",
    "like": _ASK,
    "between": "write two comparisons joined by `and`",
}
"""Features of other languages that this one lacks, and what to do instead."""

_DROPPED_METHODS: Final = frozenset(["casefold", "lstrip", "rstrip", "title"])

_CALLED_METHOD: Final = re.compile(
    rf"""(?:(?P<quote>['"])(?P<quoted>\${NAME}(?:\.{NAME})*)(?P=quote)
    |(?P<plain>\$?{NAME}(?:\.{NAME}\b(?!\s*\())*|\w+\([^()]*\)))
    \.(?P<method>{"|".join(FUNCTION_METHODS)})\(\s*\)""",
    re.VERBOSE,
)
"""A method for which there is a function, after a reference or a call."""

_INFIX_MATCH: Final = re.compile(rf"""(\${NAME}(?:\.{NAME})*)\s+matches\s+('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")""")
"""`$x matches 'pattern'`, for which there is a function."""

Parses = Callable[[str], bool]


def improve(error: ExpressionError, parses: Parses) -> ExpressionError:
    """Return the error with a help that says what to write, and with a rewrite if one is found that parses."""
    text = error.text
    rewrite = rewritten(text, parses)
    help = error.help
    reason = _reason(text, error)
    if rewrite is not None and rewrite != text:
        help = f"write `{rewrite}`" + (f": {reason}" if reason else "")
    elif reason:
        help = reason
    message, start, end = error.message, error.start, error.end
    dot = start if _METHOD.match(text, start) else max(text.rfind(".", 0, start), 0)
    if _METHOD.match(text, start) or _METHOD.fullmatch(text, dot, end):
        message, start = "a condition can't call a method", dot
        end = text.find(")", dot) + 1 or end
    return ExpressionError(
        text, message, start, end, help or "write a comparison, such as `$name == 'yes'`", rewrite or ""
    )


def _reason(text: str, error: ExpressionError) -> str:
    if _METHOD.search(text):
        if _CALLED_METHOD.search(text):
            return ""
        return "conditions have no methods; let `allowed_outputs` fix how the reply is spelled"
    here = text[error.start : error.end]
    if text[error.start : error.start + 1] in ("/", "%") or text[max(error.start - 1, 0) : error.end] == "**":
        return "numbers have `+`, `-` and `*` only; let a tool compute anything else"
    if "?" in here and here[:1] not in ("'", '"'):
        return "an expression has no `? :`; use a condition step"
    if here in _MISSING:
        return _MISSING[here]
    if here[:1] in ("'", '"') and text[error.start - 1 : error.start] == here[0]:
        return f"write a quote inside a text as `\\{here[0]}`, or put the text into the other quotes"
    if re.match(rf"{NAME}\s*\(", text[error.start :]) and here not in KEYWORDS | INSTEAD.keys():
        return f"the functions are {_listed('and', FUNCTION_WORDS)}; let a tool compute anything else"
    if error.message.startswith("expected `)` to close") and error.start == len(text):
        return "close it with `)`"
    return ""


def equivalent(text: str, parses: Parses) -> str | None:
    """Return `rewritten(text, parses)` if it surely has the same meaning, else None.

    The meaning may change if a method is dropped (`.lower()`), or if bare words are read as a text or a variable.
    """
    matches = list(_PIECE.finditer(_with_calls(text)))
    for number, match in enumerate(matches):
        piece = match.group()
        if match.lastgroup == "word" and _is_uncalled(piece, matches, number):
            return None
        if match.lastgroup == "method" and piece.strip(".( \t") in _DROPPED_METHODS:
            return None
        if match.lastgroup == "path":
            return None
        if match.lastgroup == "word" and (piece == "undefined" or piece not in KEYWORDS | INSTEAD.keys() | {"is"}):
            return None
    return rewritten(text, parses)


def rewritten(text: str, parses: Parses) -> str | None:
    """Return `text` translated into the language if the result parses, else None."""
    if len(text) > MAX_REWRITTEN:
        return None
    pieces = _pieces(_with_calls(text))
    candidate = "".join(pieces).strip()
    turned = _turn_in_around(candidate) if _has_text_habit(text) else candidate
    for attempt in (turned, candidate, _PARENTHESISED.sub(r"in [\1]", candidate)):
        if parses(attempt):
            return attempt
    return None


def _with_calls(text: str) -> str:
    """Write functions before their operand: `lower($x)` for `$x.lower()`, `matches($x, 'a')` for `$x matches 'a'`."""
    count = 1
    while count:
        text, count = _CALLED_METHOD.subn(
            lambda found: f"{FUNCTION_METHODS[found['method']]}({found['quoted'] or found['plain']})", text
        )
    return _INFIX_MATCH.sub(r"matches(\1, \2)", text)


def _pieces(text: str) -> list[str]:
    """Translate `text` piece by piece; unknown pieces stay unchanged."""
    pieces: list[str] = []
    matches = list(_PIECE.finditer(text))
    skip_closing: list[int] = []
    depth = 0
    for number, match in enumerate(matches):
        kind, piece = match.lastgroup, match.group()
        if kind == "method":
            name = piece.strip(".( \t")
            depth += 1
            if name in _DROPPED_METHODS or name in METHODS:
                skip_closing.append(depth - 1)
                pieces += [f" {METHODS[name]} "] if name in METHODS else []
                continue
        elif piece == "(":
            depth += 1
        elif piece == ")":
            depth -= 1
            if skip_closing and skip_closing[-1] == depth:
                skip_closing.pop()
                continue
        translated = _translated(kind, piece, matches, number)
        if not translated and pieces and pieces[-1].isspace():
            pieces.pop()
        pieces.append(translated)
    return pieces


def _translated(kind: str | None, piece: str, matches: list[re.Match[str]], number: int) -> str:
    if kind == "text":
        quoted = _QUOTED_REFERENCE.fullmatch(piece)
        if quoted:
            return quoted.group(2)
        return f"'{piece[1:-1]}'" if piece[0] in "“”‘’" else piece
    if kind == "reference":
        return "$" + _with_dots(piece.strip("${} \t"))
    if kind == "path":
        return "$" + _with_dots(piece.removeprefix("steps.").removeprefix("inputs."))
    if kind == "space":
        return piece if piece.isascii() else " "
    if kind == "number":
        return f"0{piece}" if piece[0] == "." else piece.replace("_", "")
    if kind == "sign":
        return _SIGNS.get(piece, piece)
    is_bare = piece not in KEYWORDS or _is_uncalled(piece, matches, number)
    if kind == "word" and (is_bare or (piece == "not" and number)):
        return INSTEAD.get(piece) or _bare_word(piece, matches, number)
    return piece


def _with_dots(reference: str) -> str:
    """Write `.name` for a field in brackets that is a name."""
    return re.sub(rf"""\[(['"])({NAME})\1\]""", r".\2", reference)


def _after(matches: list[re.Match[str]], number: int) -> list[str]:
    return [match.group() for match in matches[number + 1 :] if match.lastgroup != "space"]


def _is_uncalled(word: str, matches: list[re.Match[str]], number: int) -> bool:
    """Return whether a word is the name of a function, and not followed by a parenthesis."""
    return word in FUNCTION_WORDS and _after(matches, number)[:1] != ["("]


def _bare_word(piece: str, matches: list[re.Match[str]], number: int) -> str:
    """Read `is` and `is not` as comparisons; a bare word after an operator as text, elsewhere as a variable."""
    before = [match.group() for match in matches[:number] if match.lastgroup != "space"]
    after = _after(matches, number)
    if piece == "is" and before:
        return "!=" if after[:1] == ["not"] else "=="
    if piece == "not":
        return "" if before[-1:] == ["is"] else piece
    if after[:1] == ["("]:
        return piece
    if before and before[-1] in _TAKES_TEXT:
        return f"'{piece}'"
    return f"${piece}"


def _has_text_habit(text: str) -> bool:
    return bool(_QUOTED_REFERENCE.search(text) or _METHOD.search(text))


def _turn_in_around(text: str) -> str:
    """Rewrite `'x' in $text` as `$text contains 'x'`: `in` needs an array on the right."""
    return re.sub(
        rf"""('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")\s+(not\s+)?in\s+((?:\w+\()*\${NAME}(?:\.{NAME})*\)*)""",
        lambda match: f"{match.group(3)} {'not ' if match.group(2) else ''}contains {match.group(1)}",
        text,
    )
