"""What the reader gives: forms, each with its span in the text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from stepward.vm.reading.source import Span


@dataclass(frozen=True, slots=True)
class Literal:
    """A form that is its own value: nil, a boolean, a number, a text, a keyword."""

    value: Any
    span: Span


@dataclass(frozen=True, slots=True)
class Symbol:
    """A name; `namespace` is what stands before its `/`."""

    name: str
    span: Span

    @property
    def namespace(self) -> str:
        """What stands before the `/`, empty without one."""
        before, slash, after = self.name.partition("/")
        return before if slash and before and after else ""

    @property
    def short(self) -> str:
        """What stands after the `/`, or the whole name."""
        return self.name.partition("/")[2] if self.namespace else self.name


@dataclass(frozen=True, slots=True)
class Enclosed:
    """Forms between two signs."""

    items: tuple[Form, ...]
    span: Span


class Parens(Enclosed):
    """A form in parentheses: a call, or a special form."""

    __slots__ = ()


class Brackets(Enclosed):
    """A form in brackets: a vector, or the names of a binding."""

    __slots__ = ()


class Braces(Enclosed):
    """A form in braces: a map, keys and values in turn."""

    __slots__ = ()


class Members(Enclosed):
    """A form in `#{}`: a set."""

    __slots__ = ()


class Short(Enclosed):
    """A form in `#()`: a function with `%` for its argument."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Pattern:
    """A regular expression, `#"..."`."""

    source: str
    span: Span


@dataclass(frozen=True, slots=True)
class Quoted:
    """A form behind a quote, `'(1 2)`."""

    form: Form
    span: Span


Form = Literal | Symbol | Parens | Brackets | Braces | Members | Short | Pattern | Quoted
Sequence = Parens | Brackets | Braces | Members | Short
