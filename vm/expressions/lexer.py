"""Splits the text of an expression into tokens. Every character is consumed or refused."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any, Final, Literal, NamedTuple

from stepward.vm.errors import ExpressionError
from stepward.vm.expressions.inner_names import names_of, of_word
from stepward.vm.expressions.operators import SIGNS
from stepward.vm.values import ValueRefused, exact

NAME: Final = r"[^\W\d]\w*"
"""A name: a letter or underscore, then letters, digits and underscores, of any script."""

INDEX: Final = r"\[(?:0|[1-9][0-9]{0,3})\]"
FIELD: Final = r"""\["(?:[^"\\]|\\.)*"\]|\['(?:[^'\\]|\\.)*'\]"""
REFERENCE: Final = rf"\${NAME}(?:\.{NAME}|{INDEX}|{FIELD})*"
"""A reference: a name, then fields and indexes: `$order.lines[0]["unit-price"]`. An index is from 0 to 9,999."""

Kind = Literal["number", "text", "reference", "word", "sign", "end"]

_SIGN: Final = "|".join(map(re.escape, sorted((*SIGNS, *"()[],"), key=len, reverse=True)))
_TOKEN: Final = re.compile(
    rf"""(?:(?P<number>[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)
    |(?P<text>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
    |(?P<reference>{REFERENCE})
    |(?P<word>{NAME})
    |(?P<sign>{_SIGN}))[ \t\r\n]*""",
    re.VERBOSE | re.DOTALL,
)
_SPACE: Final = re.compile(r"[ \t\r\n]*")
_PART: Final = re.compile(rf"{NAME}|{INDEX}|{FIELD}", re.DOTALL)
_NAME: Final = re.compile(NAME)
_ESCAPE: Final = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)", re.DOTALL)
_ESCAPED: Final = {"\\": "\\", "'": "'", '"': '"', "n": "\n", "r": "\r", "t": "\t"}


class Token(NamedTuple):
    """A token of an expression; `value` is the value of a number or a text, or the names of a reference."""

    kind: Kind
    text: str
    start: int
    end: int
    value: Any = None


def tokens(text: str) -> list[Token]:
    """Return the tokens of `text`, the last one of kind `end`; raises ExpressionError for text that is not a token."""
    result: list[Token] = []
    length = len(text)
    position = _SPACE.match(text).end()  # type: ignore[union-attr]
    while position < length:
        match = _TOKEN.match(text, position)
        if match is None:
            raise _unexpected(text, position)
        position = match.end()
        result.append(_token(text, match))
    result.append(Token("end", "", length, length))
    return result


def _token(text: str, match: re.Match[str]) -> Token:
    kind = match.lastgroup
    assert kind is not None, "every alternative is named"
    word, (start, end) = match.group(kind), match.span(kind)
    if kind == "number":
        try:
            value = exact(Decimal(word if len(word) < 2_000 else "1e2000"))
        except (ValueRefused, ArithmeticError):
            raise ExpressionError(text, "a number has over 1000 digits", start, end) from None
        following = text[end : end + 1]
        if following and (following.isalpha() or following in "_."):
            raise ExpressionError(text, f"`{word}` runs into what follows", start, end + 1, "put a space between them")
        return Token("number", word, start, end, value)
    if kind == "text":
        is_plain = "\\" not in word and word.isascii()
        return Token("text", word, start, end, word[1:-1] if is_plain else _unescape(text, word, start))
    if kind == "reference":
        return Token("reference", word, start, end, _names(text, word, start))
    return Token("word" if kind == "word" else "sign", word, start, end)


def _names(text: str, word: str, start: int) -> tuple[str, ...]:
    """Return the names of a reference; an index keeps its brackets, a field has brackets only where it needs them."""
    if "[" not in word:
        return names_of(word[1:])
    names: list[str] = []
    for found in _PART.finditer(word, 1):
        name = found.group()
        name = of_word(name) if not names else name
        if name[0] == "[" and name[1] in "'\"":
            at = start + found.start() + 1
            name = _unescape(text, name[1:-1], at)
            end = start + found.end()
            if name[:1] == "[":
                message = "a field whose name begins with `[` can't be read in an expression"
                raise ExpressionError(text, message, at - 1, end, "let a tool read it")
            if _NAME.fullmatch(name):
                raise ExpressionError(
                    text, "brackets hold an index, or a field that is no name", at - 1, end, f"write `.{name}`"
                )
        names.append(name)
    return tuple(names)


def _unescape(text: str, quoted: str, start: int) -> str:
    def replace(match: re.Match[str]) -> str:
        escape = match.group(1)
        if escape in _ESCAPED:
            return _ESCAPED[escape]
        if len(escape) == 5:
            return chr(int(escape[1:], 16))
        at = start + 1 + match.start()
        raise ExpressionError(
            text,
            f"`\\{escape}` is no escape",
            at,
            at + 2,
            "write `\\\\` for a backslash; the escapes are \\\\ \\' \\\" \\n \\r \\t \\uXXXX",
        )

    value = _ESCAPE.sub(replace, quoted[1:-1])
    # A pair of \u escapes may write one code point beyond the basic plane; a lone surrogate is no text at all.
    try:
        return value.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        raise ExpressionError(text, "half of a surrogate pair is not a text", start, start + len(quoted)) from None


def _unexpected(text: str, position: int) -> ExpressionError:
    sign = text[position]
    if sign in "'\"":
        return ExpressionError(text, "a quote is not closed", position, len(text), f"close it with {sign}")
    if sign == "$":
        return ExpressionError(text, "`$` has no name after it", position, position + 1, "write `$name`")
    for operator in ("&&", "||", "===", "!==", "**", "//"):
        if text.startswith(operator, position):
            return ExpressionError(text, f"`{operator}` is not an operator", position, position + len(operator))
    return ExpressionError(text, f"`{sign}` is not expected here", position, position + 1)
