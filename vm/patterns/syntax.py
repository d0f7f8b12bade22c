"""The syntax of patterns: a parser of RE2's syntax, and its tree.

The tree has sets of characters, sequences, alternatives, repetitions, and the two ends of the text. Groups capture
nothing and greediness is ignored, because nobody asks for the position of a match. Parts that are hard to describe by
sets of characters (`\\b`, Unicode classes, `^` of single lines) are Opaque.

The source is https://github.com/google/re2/wiki/Syntax; a test compares the parser with RE2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from stepward.vm.patterns.charsets import CLASSES, LAST, POSIX, SIGNS, Ranges, complement, folded, ranges_of

MAX_DEPTH: Final = 50
"""Maximal nesting of groups and repetitions."""

MAX_REPEAT: Final = 1_000
"""The largest number in a repetition."""


class PatternError(Exception):
    """A text is not a pattern. `help` says what to write instead."""

    def __init__(self, message: str, help: str) -> None:
        super().__init__(message)
        self.message = message
        self.help = help


@dataclass(frozen=True, slots=True)
class Chars:
    """One character of a set; an empty set matches nothing."""

    ranges: Ranges


@dataclass(frozen=True, slots=True)
class Sequence:
    """One part after another; without parts it matches the empty text."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """One of several parts."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """A part at least `low` times, and at most `high` times unless that is None."""

    part: Node
    low: int
    high: int | None


@dataclass(frozen=True, slots=True)
class Anchor:
    """The start or the end of the text; it takes no character."""

    at: Literal["start", "end"]


@dataclass(frozen=True, slots=True)
class Opaque:
    """A part that RE2 accepts and this tree does not describe."""

    text: str


Node = Chars | Sequence | Choice | Repeat | Anchor | Opaque

EMPTY: Final = Sequence(())


ANY: Final = Chars(ranges_of([(0, LAST)]))
NOT_NEWLINE: Final = Chars(complement(ranges_of([(10, 10)])))


def literal(text: str) -> tuple[Chars, ...]:
    """Return the characters of a text, each as a set of one."""
    return tuple(Chars(((ord(sign), ord(sign)),)) for sign in text)


# -- reading -----------------------------------------------------------------------------------------------------------

_WRITE_OUT: Final = "write the pattern without it: list the allowed texts, or test the rest in a condition"
_UNKNOWN_GROUPS: Final = {
    "(?=": ("a look-ahead `(?=…)` is not supported", _WRITE_OUT),
    "(?!": ("a look-ahead `(?!…)` is not supported", _WRITE_OUT),
    "(?<=": ("a look-behind `(?<=…)` is not supported", _WRITE_OUT),
    "(?<!": ("a look-behind `(?<!…)` is not supported", _WRITE_OUT),
    "(?>": ("an atomic group `(?>…)` is not supported", "write `(?:…)`: nothing is tried twice here"),
    "(?(": ("a condition `(?(…)…)` is not supported", "write both alternatives out, with `|` between"),
    "(?#": ("a comment `(?#…)` is not supported", "take it out of the pattern"),
    "(?P=": ("a back-reference `(?P=…)` is not supported", "write the repeated part twice"),
}


class _Level:
    """The parts of a group that were read so far."""

    def __init__(self, flags: frozenset[str]) -> None:
        self.flags = flags
        self.branches: list[Node] = []
        self.parts: list[Node] = []
        self.is_repeated = False
        self.can_repeat = False

    def add(self, node: Node) -> None:
        self.parts.append(node)
        self.can_repeat = True
        self.is_repeated = False

    def alternative(self) -> None:
        self.branches.append(_sequence(self.parts))
        self.parts = []
        self.can_repeat = self.is_repeated = False

    def whole(self) -> Node:
        self.alternative()
        return self.branches[0] if len(self.branches) == 1 else Choice(tuple(self.branches))


def _sequence(parts: list[Node]) -> Node:
    return parts[0] if len(parts) == 1 else Sequence(tuple(parts))


def parse(pattern: str) -> Node:
    """Return the tree of a pattern; raises PatternError if RE2 does not accept it."""
    return _Reader(pattern).read()


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.levels = [_Level(frozenset())]

    @property
    def level(self) -> _Level:
        return self.levels[-1]

    def read(self) -> Node:
        while self.at < len(self.text):
            sign = self.text[self.at]
            match sign:
                case "(":
                    self._open()
                case ")":
                    self._close()
                case "|":
                    self.at += 1
                    self.level.alternative()
                case "*" | "+" | "?":
                    self.at += 1
                    self._repeat(sign, 1 if sign == "+" else 0, 1 if sign == "?" else None)
                case "{":
                    self._braces()
                case "[":
                    found = self._class()
                    self.level.add(Opaque("a class") if found is None else Chars(found))
                case "^" | "$":
                    self.at += 1
                    in_lines = "m" in self.level.flags
                    self.level.add(Opaque(sign) if in_lines else Anchor("start" if sign == "^" else "end"))
                case ".":
                    self.at += 1
                    self.level.add(ANY if "s" in self.level.flags else NOT_NEWLINE)
                case "\\":
                    self._escape()
                case _:
                    self.at += 1
                    self._literal(ord(sign))
        if len(self.levels) > 1:
            raise PatternError("a `(` is not closed", "write `)` after the group, or `\\(` for the sign itself")
        return self.level.whole()

    def _literal(self, code: int) -> None:
        found = self._with_cases(ranges_of([(code, code)]))
        self.level.add(Opaque("other cases") if found is None else Chars(found))

    def _with_cases(self, ranges: Ranges) -> Ranges | None:
        """Return a set, with the other case of its letters if the flag `i` is on; None if that is not known."""
        return folded(ranges) if "i" in self.level.flags else ranges

    # -- groups --------------------------------------------------------------------------------------------------------

    def _open(self) -> None:
        for sign in ("(?<=", "(?<!", "(?P=", "(?=", "(?!", "(?>", "(?(", "(?#"):
            if self.text.startswith(sign, self.at):
                raise PatternError(*_UNKNOWN_GROUPS[sign])
        if len(self.levels) > MAX_DEPTH:
            raise PatternError(f"groups are nested more than {MAX_DEPTH} deep", "take brackets away")
        flags = self.level.flags
        if self.text.startswith(("(?P<", "(?<"), self.at):
            self.at = self._named() + 1
        elif self.text.startswith("(?", self.at):
            flags, sign = self._flags(flags)
            if sign == ")":
                self.level.flags = flags
                self.level.is_repeated = False
                return
        else:
            self.at += 1
        self.levels.append(_Level(flags))

    def _named(self) -> int:
        start = self.text.index("<", self.at) + 1
        end = self.text.find(">", start)
        if end < 0 or not self.text[start:end].isidentifier():
            raise PatternError("the name of a group is none", "write `(?P<name>…)`, or `(?:…)` for no name")
        return end

    def _flags(self, flags: frozenset[str]) -> tuple[frozenset[str], str]:
        """Return the flags after `(?`, and the sign that ends them."""
        found, is_off, at = set(flags), False, self.at + 2
        while at < len(self.text):
            sign = self.text[at]
            at += 1
            if sign == "-" and not is_off:
                is_off = True
            elif sign in "imsU":
                (found.discard if is_off else found.add)(sign)
            elif sign in ":)" and self.text[at - 2] != "-":
                self.at = at
                return frozenset(found), sign
            else:
                what = f"the flag `{sign}` is not supported"
                raise PatternError(what, "the flags are `i`, `m`, `s` and `U`; take others out")
        raise PatternError("a `(?` is not closed", "write `(?:…)`, or `\\(` for the sign itself")

    def _close(self) -> None:
        if len(self.levels) == 1:
            raise PatternError("a `)` closes nothing", "write `\\)` for the sign itself")
        self.at += 1
        group = self.levels.pop().whole()
        self.level.add(group)

    # -- repetitions ---------------------------------------------------------------------------------------------------

    def _braces(self) -> None:
        counts = _counts(self.text, self.at)
        if counts is None:
            self.at += 1
            self._literal(ord("{"))
            return
        low, high, end = counts
        written = self.text[self.at : end]
        self.at = end
        if high is not None and high < low:
            raise PatternError(f"`{written}` repeats at least {low} and at most {high} times", "swap the numbers")
        if max(low, high or 0) > MAX_REPEAT:
            help = f"write {MAX_REPEAT} or less, or `*`, and limit the length with `maxLength`"
            raise PatternError(f"`{written}` repeats more than {MAX_REPEAT:,} times", help)
        self._repeat(written, low, high)

    def _repeat(self, written: str, low: int, high: int | None) -> None:
        level = self.level
        if level.is_repeated:
            if written == "+":
                help = "leave out the second `+`: nothing is tried twice here"
                raise PatternError("a possessive repetition (`+` after another repetition) is not supported", help)
            raise PatternError(f"`{written}` comes after another repetition", "put `(?:…)` around the first one")
        if not level.can_repeat:
            raise PatternError(f"`{written}` repeats nothing", f"write `\\{written[0]}` for the sign itself")
        if self.text.startswith("?", self.at):
            self.at += 1
        part = level.parts.pop()
        level.add(Repeat(part, low, high))
        level.is_repeated = True

    # -- escapes -------------------------------------------------------------------------------------------------------

    def _escape(self) -> None:
        sign = self.text[self.at + 1 : self.at + 2]
        if sign in ("A", "z"):
            self.at += 2
            self.level.add(Anchor("start" if sign == "A" else "end"))
        elif sign and sign in "bBC":
            self.at += 2
            self.level.add(Opaque("\\" + sign))
        elif sign == "Q":
            end = self.text.find("\\E", self.at + 2)
            quoted = self.text[self.at + 2 : end if end >= 0 else len(self.text)]
            self.at = len(self.text) if end < 0 else end + 2
            for one in quoted:
                self._literal(ord(one))
        elif sign and sign in "pP":
            self.at = self._unicode_end()
            self.level.add(Opaque("a Unicode class"))
        elif sign and sign.lower() in CLASSES:
            self.at += 2
            self.level.add(Chars(self._named_class(CLASSES[sign.lower()], is_negated=sign.isupper())))
        else:
            self._literal(self._escaped())

    def _named_class(self, ranges: Ranges, *, is_negated: bool) -> Ranges:
        found = self._with_cases(ranges)
        assert found is not None, "the classes with names are of ASCII"
        return complement(found) if is_negated else found

    def _unicode_end(self) -> int:
        if not self.text.startswith("{", self.at + 2):
            return self.at + 3
        end = self.text.find("}", self.at)
        if end < 0:
            raise PatternError("the name of a Unicode class is not closed", "write `\\p{Greek}`")
        return end + 1

    def _escaped(self) -> int:
        """Consume an escape and return its code point."""
        rest = self.text[self.at + 1 :]
        sign = rest[:1]
        if not sign:
            raise PatternError("a `\\` ends the pattern", "write `\\\\` for the sign itself")
        if sign in SIGNS:
            self.at += 2
            return ord(SIGNS[sign])
        octal = _digits(rest[:3], "01234567")
        if octal and (sign == "0" or len(octal) > 1):
            self.at += 1 + len(octal)
            return int(octal, 8)
        if sign == "x":
            return self._hexadecimal(rest)
        if sign.isascii() and not sign.isalnum():
            self.at += 2
            return ord(sign)
        raise PatternError(*_unknown_escape(sign))

    def _hexadecimal(self, rest: str) -> int:
        if rest.startswith("x{"):
            digits = _digits(rest[2:], "0123456789abcdefABCDEF")
            if digits and rest[2 + len(digits) : 3 + len(digits)] == "}" and int(digits, 16) <= LAST:
                self.at += 4 + len(digits)
                return int(digits, 16)
        elif len(digits := _digits(rest[1:3], "0123456789abcdefABCDEF")) == 2:
            self.at += 4
            return int(digits, 16)
        raise PatternError("`\\x` has no code point after it", "write `\\x41` or `\\x{1F600}`")

    # -- classes -------------------------------------------------------------------------------------------------------

    def _class(self) -> Ranges | None:
        """Consume a class in brackets and return its characters; None for one with Unicode classes."""
        self.at += 1
        is_negated = self.text.startswith("^", self.at)
        self.at += is_negated
        found: list[tuple[int, int]] = []
        is_known, is_first = True, True
        while is_first or not self.text.startswith("]", self.at):
            if self.at >= len(self.text):
                raise PatternError("a `[` is not closed", "write `]` after the class, or `\\[` for the sign itself")
            is_first = False
            part = self._class_part()
            found += part or ()
            is_known &= part is not None
        self.at += 1
        if not is_known:
            return None
        return complement(ranges_of(found)) if is_negated else ranges_of(found)

    def _class_part(self) -> Ranges | None:
        if self.text.startswith("[:", self.at):
            end = self.text.find(":]", self.at + 2)
            if end >= 0:
                return self._posix(end)
        if self.text.startswith(("\\p", "\\P"), self.at):
            self.at = self._unicode_end()
            return None
        sign = self.text[self.at + 1 : self.at + 2]
        if self.text[self.at] == "\\" and sign and sign.lower() in CLASSES:
            self.at += 2
            return self._named_class(CLASSES[sign.lower()], is_negated=sign.isupper())
        start = self.at
        low = high = self._one()
        if (
            self.text.startswith("-", self.at)
            and not self.text.startswith("-]", self.at)
            and self.at + 1 < len(self.text)
        ):
            self.at += 1
            high = self._one()
        if high < low:
            written = self.text[start : self.at]
            raise PatternError(f"the range `{written}` runs backwards", "swap its ends, or write `\\-` for the sign")
        return self._with_cases(ranges_of([(low, high)]))

    def _posix(self, end: int) -> Ranges:
        written = self.text[self.at + 2 : end]
        name = written.removeprefix("^")
        if name not in POSIX:
            raise PatternError(f"there is no class `[:{written}:]`", f"write one of {', '.join(POSIX)}")
        self.at = end + 2
        return self._named_class(ranges_of(POSIX[name]), is_negated=written.startswith("^"))

    def _one(self) -> int:
        if self.text[self.at] == "\\":
            return self._escaped()
        self.at += 1
        return ord(self.text[self.at - 1])


def _digits(text: str, allowed: str) -> str:
    return text[: next((number for number, sign in enumerate(text) if sign not in allowed), len(text))]


def _counts(text: str, at: int) -> tuple[int, int | None, int] | None:
    """Return the two numbers of a repetition in braces and its end; None if the braces are plain text."""
    end = text.find("}", at)
    low, comma, high = text[at + 1 : end].partition(",") if end >= 0 else ("", "", "")
    if not (low and len(low) == len(_digits(low, "0123456789"))):
        return None
    if not comma:
        return int(low), int(low), end + 1
    if len(high) != len(_digits(high, "0123456789")):
        return None
    return int(low), int(high) if high else None, end + 1


def _unknown_escape(sign: str) -> tuple[str, str]:
    if sign.isdigit():
        return f"a back-reference `\\{sign}` is not supported", "write the repeated part twice"
    if sign == "Z":
        return "`\\Z` is not supported", "write `$` or `\\z`: both are the end of the text"
    if sign in ("u", "U", "N"):
        return f"`\\{sign}` is not supported", "write the code point as `\\x{1F600}`, or the character itself"
    return f"`\\{sign}` has no meaning", f"write `{sign}` for the character itself, or `\\\\` for the sign `\\`"
