"""Forms as text: a form of the program as the model wrote it, a changed one with its parts in turn."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from stepward.vm.lisp.forms import (
    Braces,
    Brackets,
    Form,
    Literal,
    Members,
    Parens,
    Pattern,
    Quoted,
    Short,
    Symbol,
)
from stepward.vm.lisp.values import is_number
from stepward.vm.reading.source import LineIndex, Span
from stepward.vm.values import as_text


def parts(form: Form) -> tuple[Form, ...]:
    """Return the forms within a form."""
    match form:
        case (
            Parens(items=items)
            | Brackets(items=items)
            | Braces(items=items)
            | Members(items=items)
            | Short(items=items)
        ):
            return items
        case Quoted(form=inner):
            return (inner,)
        case Literal() | Symbol() | Pattern():
            return ()
        case _:
            assert_never(form)


def walk(form: Form) -> Iterator[Form]:
    """Yield a form and all forms within it."""
    yield form
    for part in parts(form):
        yield from walk(part)


def names_in(form: Form) -> set[str]:
    """Return the names of the symbols of a form."""
    return {one.name for one in walk(form) if isinstance(one, Symbol)}


class Texts:
    """The text of a program and its forms."""

    def __init__(self, text: str, forms: tuple[Form, ...]) -> None:
        self.text = text
        self._lines = LineIndex(text)
        self._kept = [one for form in forms for one in walk(form)]
        self._written = {id(one) for one in self._kept}

    def offsets(self, span: Span) -> tuple[int, int]:
        """Return the offsets of a span in the text."""
        return self._lines.offset(span.line, span.column), self._lines.offset(span.end_line, span.end_column)

    def of(self, form: Form) -> str:
        """Return the text of a form."""
        if id(form) in self._written:
            start, end = self.offsets(form.span)
            return self.text[start:end]
        match form:
            case Parens(items=items):
                return f"({self._all(items)})"
            case Brackets(items=items):
                return f"[{self._all(items)}]"
            case Braces(items=items):
                return f"{{{self._all(items)}}}"
            case Members(items=items):
                return f"#{{{self._all(items)}}}"
            case Short(items=items):
                return f"#({self._all(items)})"
            case Quoted(form=inner):
                return f"'{self.of(inner)}"
            case Symbol(name=name):
                return name
            case Literal(value=value):
                words = {None: "nil", True: "true", False: "false"}
                if is_number(value) and not isinstance(value, bool):
                    return as_text(value)
                return words[value] if value is None or isinstance(value, bool) else f'"{value}"'
            case Pattern():
                raise AssertionError("a pattern is never made")
            case _:
                assert_never(form)

    def _all(self, items: tuple[Form, ...]) -> str:
        return " ".join(map(self.of, items))
