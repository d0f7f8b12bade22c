"""Reads Lisp text: text in, forms with spans out. It keeps a stack of its own, so that no nesting exhausts Python's."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final

from stepward.vm.lisp.faults import Fault
from stepward.vm.lisp.forms import (
    Braces,
    Brackets,
    Form,
    Literal,
    Members,
    Parens,
    Pattern,
    Quoted,
    Sequence,
    Short,
    Symbol,
)
from stepward.vm.lisp.values import Keyword
from stepward.vm.reading.source import LineIndex, Span
from stepward.vm.values import ValueRefused, exact

MAX_NESTING: Final = 64
"""Maximal nesting of forms in one program."""

MAX_DIGITS_IN_TEXT: Final = 4_000
"""Maximal characters of one number in the text."""

_SPACE: Final = re.compile(r"(?:[\s,]|;[^\n]*|#![^\n]*)*")
_NUMBER: Final = re.compile(r"[+-]?[0-9]")
_PLAIN_NUMBER: Final = re.compile(r"[+-]?(?:0|[1-9][0-9]*)(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?[NM]?")
_TOKEN: Final = re.compile(r'[^\s,()\[\]{}"`~@^\\;]+')
_KEYWORD: Final = re.compile(r":[^:/][^:]*")
_CHARACTERS: Final = {
    "newline": "\n",
    "space": " ",
    "tab": "\t",
    "return": "\r",
    "backspace": "\b",
    "formfeed": "\f",
}
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\", "b": "\b", "f": "\f"}
_CLOSERS: Final[dict[str, tuple[str, type[Sequence]]]] = {
    "(": (")", Parens),
    "[": ("]", Brackets),
    "{": ("}", Braces),
    "#{": ("}", Members),
    "#(": (")", Short),
}
_WORDS: Final = {"nil": None, "true": True, "false": False}
_REFUSED_SIGNS: Final = {
    "`": ("a syntax quote", "there are no macros: write the form itself, or a function"),
    "~": ("an unquote", "there are no macros: write the form itself, or a function"),
    "@": ("`@` (deref)", "there is no state to read: write the name without `@`"),
    "^": ("metadata (`^`)", "leave it out"),
    "#?": ("a reader conditional", "write the form itself"),
    "##": ("what is no number (`##Inf`, `##NaN`)", "numbers are exact and finite: use nil for what has no number"),
    "#=": ("evaluation by the reader", "write the form itself"),
    "#:": ("a map with a namespace", "write the keys in full: `{:a 1}`"),
}


class _Open:
    """A sequence whose end was not read yet; `sign` is its opening, `'` or `#_` for a prefix of one form."""

    __slots__ = ("items", "sign", "start")

    def __init__(self, sign: str, start: int) -> None:
        self.sign = sign
        self.start = start
        self.items: list[Form] = []


def read(text: str) -> tuple[Form, ...]:
    """Return the forms of a text; raises a Fault with a span where it can't be read."""
    return _Reader(text).forms()


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._lines = LineIndex(text)
        self._at = 0
        self._stack = [_Open("", 0)]

    def forms(self) -> tuple[Form, ...]:
        while True:
            match = _SPACE.match(self._text, self._at)
            assert match is not None, "the pattern matches an empty text"
            self._at = match.end()
            if self._at >= len(self._text):
                return self._ended()
            self._next(self._text[self._at])

    def _ended(self) -> tuple[Form, ...]:
        last = self._stack[-1]
        if len(self._stack) == 1:
            return tuple(last.items)
        if last.sign in ("'", "#_", "#'"):
            raise self._fault(f"`{last.sign}` has no form behind it", "write one, or leave it out", last.start)
        closer = _CLOSERS[last.sign][0]
        raise self._fault(f"`{last.sign}` is never closed", f"add `{closer}` at its end", last.start)

    def _next(self, sign: str) -> None:
        two = self._text[self._at : self._at + 2]
        if sign in ")]}":
            self._close(sign)
        elif two in ("#(", "#{", "#_", "#'"):
            self._open(two)
        elif sign in "([{'":
            self._open(sign)
        elif sign == '"':
            self._add(Literal(*self._quoted(self._at + 1)))
        elif two == '#"':
            self._add(Pattern(*self._regex()))
        elif sign == "\\":
            self._character()
        elif two in _REFUSED_SIGNS or sign in _REFUSED_SIGNS:
            what, instead = _REFUSED_SIGNS.get(two) or _REFUSED_SIGNS[sign]
            raise self._fault(f"{what} is not in this language", instead, self._at, refused=True)
        elif sign == "#":
            raise self._fault(
                "a tagged literal is not in this language", "write the value as a text", self._at, refused=True
            )
        else:
            self._token()

    def _open(self, sign: str) -> None:
        if len(self._stack) > MAX_NESTING:
            raise self._fault(
                f"forms are nested deeper than {MAX_NESTING} levels", "name inner parts with `let` or `defn`", self._at
            )
        self._stack.append(_Open(sign, self._at))
        self._at += len(sign)

    def _close(self, sign: str) -> None:
        last = self._stack[-1]
        closer = _CLOSERS[last.sign][0] if last.sign in _CLOSERS else ""
        if sign != closer:
            if len(self._stack) == 1:
                raise self._fault(f"`{sign}` closes nothing", "leave it out", self._at)
            if not closer:
                raise self._fault(f"`{last.sign}` has no form behind it", "write one, or leave it out", last.start)
            line, column = self._lines.position(last.start)
            raise self._fault(
                f"`{sign}` does not close the `{last.sign}` of line {line}, column {column}",
                f"write `{closer}`",
                self._at,
            )
        self._at += 1
        self._stack.pop()
        span = self._lines.span(last.start, self._at)
        if last.sign == "{" and len(last.items) % 2:
            raise Fault("parse_error", "a map has a key without a value", "add the value, or leave the key out", span)
        self._add(_CLOSERS[last.sign][1](tuple(last.items), span))

    def _add(self, form: Form) -> None:
        """Add a form to what is open; it ends the prefixes before it."""
        while (last := self._stack[-1]).sign in ("'", "#_", "#'"):
            self._stack.pop()
            if last.sign == "#_":
                return
            span = self._lines.span(last.start, self._at)
            if last.sign == "'":
                form = Quoted(form, span)
            elif not isinstance(form, Symbol):
                raise Fault("parse_error", "`#'` needs a name", "write the name alone", span)
        last.items.append(form)

    def _quoted(self, start: int) -> tuple[str, Span]:
        """Return the text of a literal whose first character is at `start`."""
        parts, at, text = [], start, self._text
        while True:
            end = at
            while end < len(text) and text[end] not in '"\\':
                end += 1
            parts.append(text[at:end])
            if end >= len(text):
                raise self._fault("a text is never closed", 'add `"` at its end', start - 1)
            if text[end] == '"':
                break
            piece, at = self._escape(end)
            parts.append(piece)
        first, self._at = self._at, end + 1
        return "".join(parts), self._lines.span(first, self._at)

    def _escape(self, at: int) -> tuple[str, int]:
        sign = self._text[at + 1 : at + 2]
        if sign in _ESCAPES and sign:
            return _ESCAPES[sign], at + 2
        digits = self._text[at + 2 : at + 6]
        if sign == "u" and re.fullmatch("[0-9a-fA-F]{4}", digits) and not 0xD800 <= int(digits, 16) < 0xE000:
            return chr(int(digits, 16)), at + 6
        raise self._fault(f"`\\{sign}` is no escape of a text", "write `\\\\` for a backslash", at)

    def _regex(self) -> tuple[str, Span]:
        start = self._at
        match = re.compile(r'#"((?:[^"\\]|\\.)*)"', re.DOTALL).match(self._text, start)
        if match is None:
            raise self._fault("a regular expression is never closed", 'add `"` at its end', start)
        self._at = match.end()
        return match[1], self._lines.span(start, self._at)

    def _character(self) -> None:
        start = self._at
        match = re.compile(r"\\(u[0-9a-fA-F]{4}(?![\w])|[a-z]{2,}|.)", re.DOTALL).match(self._text, start)
        if match is None:
            raise self._fault("a backslash names no character", "write `\\a`, or a text", start)
        name = match[1]
        self._at = match.end()
        value = name if len(name) == 1 else _CHARACTERS.get(name)
        if value is None and name[0] == "u" and len(name) == 5 and not 0xD800 <= int(name[1:], 16) < 0xE000:
            value = chr(int(name[1:], 16))
        if value is None:
            raise self._fault(
                f"`\\{name}` is no character", f"known names: {', '.join(_CHARACTERS)}; or write a text", start
            )
        self._add(Literal(value, self._lines.span(start, self._at)))

    def _token(self) -> None:
        start = self._at
        match = _TOKEN.match(self._text, start)
        if match is None:
            raise self._fault(f"`{self._text[start]}` begins no form", "leave it out", start)
        word = match[0]
        self._at = match.end()
        span = self._lines.span(start, self._at)
        if word in _WORDS:
            self._add(Literal(_WORDS[word], span))
        elif word.startswith(":"):
            self._add(Literal(self._keyword(word, span), span))
        elif _NUMBER.match(word):
            self._add(Literal(self._number(word, span), span))
        else:
            self._add(Symbol(word, span))

    def _keyword(self, word: str, span: Span) -> Keyword:
        if word.startswith("::"):
            raise Fault(
                "refused", f"`{word}` is not in this language", f"write `{word[1:]}`: there are no namespaces", span
            )
        if not _KEYWORD.fullmatch(word) or word.endswith("/"):
            raise Fault("parse_error", f"`{word}` is no keyword", "write a name behind the colon: `:total`", span)
        return Keyword(word[1:])

    def _number(self, word: str, span: Span) -> int | Decimal:
        if re.fullmatch(r"[+-]?[0-9]+/[0-9]+", word):
            above, below = word.split("/")
            raise Fault("refused", f"the ratio `{word}` is not in this language", f"write `(/ {above} {below})`", span)
        if re.fullmatch(r"[+-]?(0[xX][0-9a-fA-F]+|[0-9]{1,2}r\w+)", word):
            raise Fault("refused", f"`{word}` is not in this language", "write the number in decimal digits", span)
        if not _PLAIN_NUMBER.fullmatch(word):
            raise Fault("parse_error", f"`{word}` is no number", "write it as `12`, `-1.50` or `2e3`", span)
        if len(word) > MAX_DIGITS_IN_TEXT:
            raise Fault(
                "parse_error", f"a number has over {MAX_DIGITS_IN_TEXT} characters", "write a shorter one", span
            )
        try:
            return exact(Decimal(word.rstrip("NM")))
        except ValueRefused as refusal:
            raise Fault("parse_error", str(refusal), "write a smaller number", span) from None

    def _fault(self, message: str, hint: str, at: int, *, refused: bool = False) -> Fault:
        return Fault("refused" if refused else "parse_error", message, hint, self._lines.span(at, at + 1))
