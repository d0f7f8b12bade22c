"""Conditions and expressions: what a text means, in which order its parts are evaluated, and when it has no value.

The grammar as a whole is held against a second one in `test_expressions_grammar.py`; here stand the single rules.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from evaluations import result, shape
from stepward.vm.errors import EvaluationError, ExpressionError, UndefinedReferenceError
from stepward.vm.expressions.evaluator import evaluate_condition
from stepward.vm.expressions.parser import parse
from stepward.vm.expressions.syntax import Arithmetic, Logic


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("$a or $b and $c", ("or", "$a", ("and", "$b", "$c"))),
        ("$a and $b or $c", ("or", ("and", "$a", "$b"), "$c")),
        ("($a or $b) and $c", ("and", ("or", "$a", "$b"), "$c")),
        ("not $a and $b", ("and", ("not", "$a"), "$b")),
        ("not $a == $b", ("not", ("==", "$a", "$b"))),
        ("not not $a", ("not", ("not", "$a"))),
        ("not $a in [1]", ("not", ("in", "$a", (1,)))),
        ("$a not in [1]", ("not in", "$a", (1,))),
        ("$a not contains 'x'", ("not contains", "$a", "x")),
        ("$a + 1 < $b * 2", ("<", ("$a", ("+", 1)), ("$b", ("*", 2)))),
        ("1 + 2 * 3 - 4", (1, ("+", (2, ("*", 3))), ("-", 4))),
        ("- $a * 2", (("-", "$a"), ("*", 2))),
        ("-1", -1),
        ("- -1", ("-", -1)),
        ("-(1)", ("-", 1)),
        ("2 - -1", (2, ("-", -1))),
        ("len($a) + 1", (("len", "$a"), ("+", 1))),
        ("(1 < 2) == true", ("==", ("<", 1, 2), True)),
        ("$a and\n\t$b\r\nand $c", ("and", "$a", "$b", "$c")),
        ("$and.or.not", "$and.or.not"),
        ("not$a", ("not", "$a")),
        ("[1, 2, 3,]", (1, 2, 3)),
        ("[]", ()),
        ("[-1.5]", (Decimal("-1.5"),)),
    ],
)
def test_precedence(text: str, tree: Any) -> None:
    assert shape(parse(text)) == tree


@pytest.mark.parametrize("word", ["and", "or"])
def test_a_chain_of_one_word_is_one_node(word: str) -> None:
    tree = parse(f" {word} ".join(["$a", "$b", "$c", "$d"]))
    assert isinstance(tree, Logic)
    assert len(tree.operands) == 4


def test_a_chain_of_plus_and_minus_is_one_node_evaluated_from_the_left() -> None:
    tree = parse("10 - 3 - 2 + 1")
    assert isinstance(tree, Arithmetic)
    assert len(tree.rest) == 3
    assert result("10 - 3 - 2 + 1") == 6


@pytest.mark.parametrize(
    "text", ["1 < 2 < 3", "$a == $b == $c", "$a in [1] in [2]", "$a < 1 not in [2]", "not $a < 1 < 2", "1 == 1 != true"]
)
def test_comparisons_do_not_chain(text: str) -> None:
    with pytest.raises(ExpressionError, match="comparisons do not chain"):
        parse(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (r"'a\'b'", "a'b"),
        (r'"a\"b"', 'a"b'),
        (r"'\\n'", "\\n"),
        (r"'\n\r\t'", "\n\r\t"),
        (r"'\u0041\u00e9'", "Aé"),
        (r"'\ud83d\ude00'", "😀"),
        ("'it is \"so\"'", 'it is "so"'),
        ("'line\nbreak'", "line\nbreak"),
        ("'$a && !b'", "$a && !b"),
        ("''", ""),
        ("'\ufeffx'", "\ufeffx"),
    ],
)
def test_escapes(text: str, value: str) -> None:
    assert result(text) == value


@pytest.mark.parametrize(
    ("text", "start", "end"), [(r"'a\q'", 2, 4), (r"'\u12'", 1, 3), (r"'\ud800'", 0, 8), (r"$a == '\x41'", 7, 9)]
)
def test_an_escape_that_is_none_is_pointed_at(text: str, start: int, end: int) -> None:
    with pytest.raises(ExpressionError) as caught:
        parse(text)
    assert (caught.value.start, caught.value.end) == (start, end)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0.1 + 0.2", Decimal("0.3")),
        ("1.0", 1),
        ("1e3", 1000),
        ("15E-1", Decimal("1.5")),
        ("0.1 * 10", 1),
        ("1000000000000000000000 + 0.0000000000000000000001", Decimal("1000000000000000000000.0000000000000000000001")),
        ("-0", 0),
        ("007", 7),
        ("2 * 3.5", 7),
        ("-(0.5 - 1)", Decimal("0.5")),
    ],
)
def test_numbers_are_exact(text: str, value: Any) -> None:
    found = result(text)
    assert (type(found), found) == (type(value), value)


@pytest.mark.parametrize("condition", ["0.1 + 0.2 == 0.3", "1.0 == 1", "1.0 in [1]", "1e2 == 100.00", "0.5 < 0.50001"])
def test_whole_and_fractional_writings_are_one_number(condition: str) -> None:
    assert result(condition) is True


def test_arithmetic_reaches_a_thousand_digits_and_fails_beyond() -> None:
    assert result("9e998 + 1") == 9 * 10**998 + 1
    assert len(str(result("1e500 * 1e499"))) == 1000
    assert result("1e999 - 1 + 1") == 10**999
    assert result("1e-999 * 1") == Decimal("1e-999")
    for text in ("1e500 * 1e500", "9e999 + 1e999", "-9e999 - 1e999", "1e-500 * 1e-500", "1e999 + 0.1"):
        with pytest.raises(EvaluationError, match="over 1000 digits"):
            result(text)


def test_arithmetic_rounds_nothing_between() -> None:
    large = "1" + "0" * 400 + "1"
    assert result(f"({large} * {large} - 1) - {large} * {large} == -1") is True


@pytest.mark.parametrize("number", ["1e1000", "1e999999999999999999999", "1" * 1001, "0." + "1" * 1000, "1" * 100_000])
def test_a_literal_of_over_a_thousand_digits_is_refused(number: str) -> None:
    with pytest.raises(ExpressionError, match="over 1000 digits"):
        parse(f"$a == {number}")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("$n in [1, 2]", True),
        ("$n not in [1, 2]", False),
        ("3 in $numbers", True),
        ("4 not in $numbers", True),
        ("$numbers contains 3", True),
        ("$numbers not contains 4", True),
        ("$text contains 'ell'", True),
        ("$text contains ''", True),
        ("$text not contains 'L'", True),
        ("$text starts_with 'he'", True),
        ("$text ends_with 'lo'", True),
        ("$text ends_with 'LO'", False),
        ("$text == 'hello'", True),
        ("'é😀' contains '😀'", True),
        ("len('é😀')", 2),
        ("len($numbers)", 2),
        ("len([])", 0),
        ("$n in []", False),
        ("true == true", True),
        ("true != false", True),
        ("defined($text)", True),
        ("defined($gone)", False),
        ("defined($text.length)", False),
        ("$nothing == null", True),
        ("null == $nothing", True),
        ("$n == null", False),
        ("$n != null", True),
        ("'x' != null", True),
        ("null == null", True),
        ("defined($nothing)", True),
    ],
)
def test_operators(text: str, value: Any) -> None:
    assert result(text, n=1, numbers=(3, 1), text="hello", nothing=None) == value


@pytest.mark.parametrize(
    "text",
    [
        "1 == '1'",
        "true == 1",
        "false == 0",
        "'true' != true",
        "1 in ['1']",
        "true in $numbers",
        "$numbers contains '3'",
        "'a' in 'abc'",
        "'abc' contains 1",
        "1 contains 1",
        "$object contains 'x'",
        "$numbers == $numbers",
        "$object == $object",
        "[1] == [1]",
        "'a' < 'b'",
        "true < false",
        "null < 1",
        "$nothing >= 0",
        "1 < null",
        "'a' starts_with 1",
        "null ends_with 'a'",
        "null contains 'a'",
        "'a' contains null",
        "1 in null",
        "'a' + 'b'",
        "1 + true",
        "null * 2",
        "-'a'",
        "-true",
        "-null",
        "-[1]",
        "len(1)",
        "len(null)",
        "len($object)",
        "not 1",
        "not null",
        "1 and true",
        "true and 'yes'",
        "'x' or true",
        "false or 0",
        "$gone == 1",
        "not $gone",
        "len($gone)",
        "$object.y == 1",
        "$numbers.first == 1",
    ],
)
def test_unlike_types_and_what_is_undefined_have_no_value(text: str) -> None:
    with pytest.raises(EvaluationError):
        result(text, numbers=(3, 1), object={"x": 1}, nothing=None)


@pytest.mark.parametrize("text", ["1", "'yes'", "null", "$a + 1", "[true]", "len('a')"])
def test_a_condition_is_boolean(text: str) -> None:
    with pytest.raises(EvaluationError, match="a condition needs true or false"):
        evaluate_condition(parse(text), lambda names: 1)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("false and $gone", False),
        ("true or $gone", True),
        ("false and 1 == 'x' and $gone", False),
        ("$a == 1 or $gone or 5", True),
        ("1 in [1, 2] or $gone", True),
        ("defined($gone) and $gone == 1", False),
        ("not defined($gone) or $gone == 1", True),
        ("1 in $mixed", True),
        ("(false and $gone) or true", True),
    ],
)
def test_what_is_not_evaluated_cannot_fail(text: str, value: bool) -> None:
    assert result(text, a=1, mixed=(1, "x")) is value


@pytest.mark.parametrize("text", ["$gone and false", "$gone or true", "true and $gone", "'x' in $mixed", "2 in $mixed"])
def test_what_is_evaluated_fails_from_left_to_right(text: str) -> None:
    with pytest.raises(EvaluationError):
        result(text, mixed=(1, "x"))


def test_an_undefined_reference_is_named() -> None:
    with pytest.raises(UndefinedReferenceError, match=r"`\$o\.x` is undefined"):
        result("$o.x == 1", o={})
