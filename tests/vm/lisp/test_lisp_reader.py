"""The reader of the Lisp: forms with their spans, and what it refuses, with the place and what to do."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepward.vm.lisp.faults import Fault
from stepward.vm.lisp.forms import Braces, Brackets, Literal, Members, Parens, Pattern, Quoted, Short, Symbol
from stepward.vm.lisp.reader import MAX_NESTING, read
from stepward.vm.lisp.values import Keyword


def one(text: str) -> Any:
    (form,) = read(text)
    return form


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("nil", None),
        ("true", True),
        ("false", False),
        ("0", 0),
        ("-17", -17),
        ("+5", 5),
        ("1.50", Decimal("1.5")),
        ("2.0", 2),
        ("1e3", 1000),
        ("-1.5E-2", Decimal("-0.015")),
        ("12N", 12),
        ("1.5M", Decimal("1.5")),
        (":a", Keyword("a")),
        (":a/b", Keyword("a/b")),
        (":a-b?", Keyword("a-b?")),
        ('""', ""),
        ('"a\\n\\t\\"\\\\"', 'a\n\t"\\'),
        ('"two\nlines"', "two\nlines"),
        ('"\\u00e9"', "é"),
        ("\\a", "a"),
        ("\\newline", "\n"),
        ("\\space", " "),
        ("\\u00e9", "é"),
        ("\\(", "("),
    ],
)
def test_literal(text: str, value: object) -> None:
    form = one(text)
    assert isinstance(form, Literal)
    assert form.value == value
    assert type(form.value) is type(value)
    assert one(f" ,; comment\n {text} #_ignored #_(1 2)\n").value == value


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("x", Symbol),
        ("data/orders", Symbol),
        ("+'", Symbol),
        ("->>", Symbol),
        ("%1", Symbol),
        ("/", Symbol),
        ("(f 1)", Parens),
        ("[1 2]", Brackets),
        ("{:a 1}", Braces),
        ("#{1}", Members),
        ("#(inc %)", Short),
        ('#"a\\d\\"b"', Pattern),
        ("'(1)", Quoted),
        ("#'f", Symbol),
    ],
)
def test_form(text: str, kind: type) -> None:
    assert type(one(text)) is kind


def test_spans_are_those_of_the_text() -> None:
    form = one("(foo\n  [bar 12])")
    assert form.span == (1, 1, 2, 12)
    assert form.items[0].span == (1, 2, 1, 5)
    assert form.items[1].span == (2, 3, 2, 11)
    assert form.items[1].items[1].span == (2, 8, 2, 10)


@pytest.mark.parametrize(
    ("text", "reason", "message", "place"),
    [
        ("(f 1", "parse_error", "`(` is never closed", (1, 1)),
        ("(f [1)", "parse_error", "`)` does not close the `[` of line 1, column 4", (1, 6)),
        ("1 )", "parse_error", "`)` closes nothing", (1, 3)),
        ("{:a}", "parse_error", "a map has a key without a value", (1, 1)),
        ('"abc', "parse_error", "a text is never closed", (1, 1)),
        ('"a\\qb"', "parse_error", "`\\q` is no escape of a text", (1, 3)),
        ('#"abc', "parse_error", "a regular expression is never closed", (1, 1)),
        ("'", "parse_error", "`'` has no form behind it", (1, 1)),
        ("(')", "parse_error", "`'` has no form behind it", (1, 2)),
        ("#_", "parse_error", "`#_` has no form behind it", (1, 1)),
        ("1/2", "refused", "the ratio `1/2` is not in this language", (1, 1)),
        ("0x1F", "refused", "`0x1F` is not in this language", (1, 1)),
        ("010", "parse_error", "`010` is no number", (1, 1)),
        ("12abc", "parse_error", "`12abc` is no number", (1, 1)),
        ("1e5000", "parse_error", "a number has over 1000 digits", (1, 1)),
        ("9" * 5000, "parse_error", "a number has over 4000 characters", (1, 1)),
        ("##Inf", "refused", "what is no number (`##Inf`, `##NaN`) is not in this language", (1, 1)),
        ("::a", "refused", "`::a` is not in this language", (1, 1)),
        (":", "parse_error", "`:` is no keyword", (1, 1)),
        ("@a", "refused", "`@` (deref) is not in this language", (1, 1)),
        ("`a", "refused", "a syntax quote is not in this language", (1, 1)),
        ("^:x a", "refused", "metadata (`^`) is not in this language", (1, 1)),
        ('#inst "2020"', "refused", "a tagged literal is not in this language", (1, 1)),
        ("\\foo", "parse_error", "`\\foo` is no character", (1, 1)),
        ("[" * 65, "parse_error", "forms are nested deeper than 64 levels", (1, 65)),
    ],
)
def test_reader_refuses(text: str, reason: str, message: str, place: tuple[int, int]) -> None:
    with pytest.raises(Fault) as raised:
        read(text)
    fault = raised.value
    assert (fault.reason, fault.message) == (reason, message)
    assert fault.hint
    assert fault.span is not None
    assert fault.span[:2] == place


def test_nesting_up_to_the_limit_is_read() -> None:
    assert read("[" * MAX_NESTING + "]" * MAX_NESTING)


@given(st.text(alphabet="()[]{}'#\"\\;:@^~`%&/ \n,a1.-_é\u2028", max_size=60))
def test_any_text_is_read_or_refused_with_a_place(text: str) -> None:
    spans = []
    try:
        read(text)
    except Fault as fault:
        spans.append(fault.span)
    assert all(span is not None and span.line <= text.count("\n") + 1 for span in spans)
