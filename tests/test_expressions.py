"""Conditions and expressions: what a text means, where its parts stand, what is said of a text that is none.

The grammar as a whole is held against a second one in `test_expressions_grammar.py`; here stand the single rules.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from contextlib import suppress
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from stepward.vm.errors import EvaluationError, ExpressionError, UndefinedReferenceError
from stepward.vm.expressions.evaluator import evaluate, evaluate_condition
from stepward.vm.expressions.facts import certain_reads, facts, reads
from stepward.vm.expressions.hints import rewritten
from stepward.vm.expressions.parser import MAX_NESTING, parse
from stepward.vm.expressions.syntax import (
    Arithmetic,
    Compare,
    Constant,
    Defined,
    Expression,
    Length,
    Logic,
    Minus,
    Negation,
    Reference,
    children,
    references,
    walk,
)
from strategies import conditions, mutated_conditions, states


def look_up(state: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    found: Any = state
    for name in names:
        if not isinstance(found, dict) or name not in found:
            raise UndefinedReferenceError(".".join(names))
        found = found[name]
    return found


def result(text: str, /, **state: Any) -> Any:
    return evaluate(parse(text), lambda names: look_up(state, names))


def shape(tree: Expression) -> Any:
    """Write a tree without places, in Lisp's way."""
    match tree:
        case Constant(value=value):
            return value
        case Reference():
            return tree.text()
        case Defined(reference=reference):
            return ("defined", reference.text())
        case Length(operand=operand):
            return ("len", shape(operand))
        case Negation(operand=operand):
            return ("not", shape(operand))
        case Minus(operand=operand):
            return ("-", shape(operand))
        case Logic(operator=operator, operands=operands):
            return (operator, *map(shape, operands))
        case Compare(operator=operator, left=left, right=right):
            return (operator, shape(left), shape(right))
        case Arithmetic(first=first, rest=rest):
            return (shape(first), *((sign, shape(operand)) for sign, operand in rest))


# -- precedence and chains ------------------------------------------------------------------------------------------


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


# -- spans ----------------------------------------------------------------------------------------------------------


def moved(tree: Expression, by: int) -> Expression:
    """Return the tree as if its text began `by` code points further on."""

    def move(part: Any) -> Any:
        if isinstance(part, tuple):
            return tuple(move(item) for item in part)
        return moved(part, by) if dataclasses.is_dataclass(part) else part

    fields = {field.name: getattr(tree, field.name) for field in dataclasses.fields(tree)}
    inner = {name: value if isinstance(tree, Constant) else move(value) for name, value in fields.items()}
    return type(tree)(**{**inner, "start": tree.start + by, "end": tree.end + by})


@given(conditions())
@settings(deadline=None)
def test_every_node_is_what_the_text_at_its_place_says(text: str) -> None:
    for node in walk(parse(text)):
        stretch = text[node.start : node.end]
        assert stretch == stretch.strip()
        assert moved(parse(stretch), node.start) == node


def test_a_parenthesis_belongs_to_the_node_around_it() -> None:
    text = "(($a) + 1) * (2) == ($b)"
    tree = parse(text)
    assert isinstance(tree, Compare)
    stretches = [text[node.start : node.end] for node in walk(tree)]
    assert stretches == [text, "(($a) + 1) * (2)", "($a) + 1", "$a", "1", "2", "$b"]


def test_a_place_counts_code_points() -> None:
    text = "'😀' == $größe"
    assert [text[node.start : node.end] for node in walk(parse(text))] == [text, "'😀'", "$größe"]


def test_children_come_in_the_order_of_the_text() -> None:
    for node in walk(parse("len($a) - -$b * 2 < 3 and (not $c or defined($d)) and $e in [1]")):
        starts = [child.start for child in children(node)]
        assert starts == sorted(starts)


def test_references_asked_for_by_defined_are_no_reads() -> None:
    tree = parse("defined($a) and $b.c == $d")
    assert [reference.text() for reference in references(tree)] == ["$b.c", "$d"]
    assert [reference.text() for reference, _ in reads(tree)] == ["$b.c", "$d"]


# -- literals -------------------------------------------------------------------------------------------------------


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


# -- operators ------------------------------------------------------------------------------------------------------


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


# -- what people try ------------------------------------------------------------------------------------------------

METHODS = "conditions have no methods"
NUMBERS_ONLY = "numbers have `+`, `-` and `*` only"


@pytest.mark.parametrize(
    ("text", "message", "help_part", "rewrite"),
    [
        ("$reply.lower() == 'yes'", "a condition can't call a method", METHODS, "$reply == 'yes'"),
        ("$s.output.strip().lower() == 'y'", "a condition can't call a method", METHODS, "$s.output == 'y'"),
        ("'yes' in $reply.lower()", "a condition can't call a method", METHODS, "$reply contains 'yes'"),
        ("'a' not in $x.lower()", "a condition can't call a method", METHODS, "$x not contains 'a'"),
        ("$x.startswith('a')", "a condition can't call a method", METHODS, "$x starts_with 'a'"),
        ("$x.endsWith('a') and $b", "a condition can't call a method", METHODS, "$x ends_with 'a' and $b"),
        ("$x.includes('a')", "a condition can't call a method", METHODS, "$x contains 'a'"),
        ("$x.frobnicate() == 1", "a condition can't call a method", METHODS, ""),
        ("$a && $b", "`&&` is no operator", "write `$a and $b`", "$a and $b"),
        ("$a || $b", "`||` is no operator", "write `$a or $b`", "$a or $b"),
        ("!$a", "`!` is not expected here", "write `not $a`", "not $a"),
        ("!($a == 1)", "`!` is not expected here", "write", "not ($a == 1)"),
        ("$a = 1", "`=` is not expected here", "write `$a == 1`", "$a == 1"),
        ("$a === 'x'", "`=` is not expected here", "write", "$a == 'x'"),
        ("$a !== 'x'", "`=` is not expected here", "write", "$a != 'x'"),
        ("$a <> 1", "expected a value, found `>`", "write", "$a != 1"),
        ("$a == 1;", "`;` is not expected here", "write", "$a == 1"),
        ("$a is None", "found `is`", "write", "$a == null"),
        ("$a is not None", "found `is`", "write", "$a != null"),
        ("$a == True", "the bare word `True`", "write", "$a == true"),
        ("$a AND NOT $b", "found `AND`", "write", "$a and not $b"),
        ("decision == 'yes'", "the bare word `decision`", "write", "$decision == 'yes'"),
        ("$decision == yes", "the bare word `yes`", "write", "$decision == 'yes'"),
        ("$a in (1, 2)", "expected `)`", "write", "$a in [1, 2]"),
        ("${a} == 1", "`$` stands without a name", "write", "$a == 1"),
        ("{{ a }} == 1", "`{` is not expected here", "write", "$a == 1"),
        ("“yes” == $a", "`“` is not expected here", "write", "'yes' == $a"),
        ("length($x) > 2", "the bare word `length`", "write", "len($x) > 2"),
        ("exists($x)", "the bare word `exists`", "write", "defined($x)"),
        ("$a equals 'x'", "found `equals`", "write", "$a == 'x'"),
        ("$a / 2 == 1", "`/` is not expected here", NUMBERS_ONLY, ""),
        ("$a % 2 == 0", "`%` is not expected here", NUMBERS_ONLY, ""),
        ("$a ** 2 == 4", "found `*`", NUMBERS_ONLY, ""),
        ("$a ? 1 : 2", "`?` is not expected here", "use a condition step", ""),
        ("1 < $a < 3", "comparisons do not chain", "write `1 < $a and $a < 3`", ""),
        ("($a) < ($b) < 3", "comparisons do not chain", "write `($a) < ($b) and ($b) < 3`", ""),
        ("$a == 'yes", "a quote is not closed", "close it with '", ""),
        ("$ == 1", "`$` stands without a name", "write `$name`", ""),
        ("1.5.2 == 1", "`1.5` runs into what follows", "put a space", ""),
        ("'a\\q' == 'a'", "`\\q` is no escape", "the escapes are", ""),
        ("$a == not $b", "expected a value, found `not`", "in parentheses", ""),
        ("[$a] contains 1", "a list holds literals only", "join with `or`", ""),
        ("$a in ['x', 1]", "literals of one type", "split it", ""),
        ("$a in [[1]]", "a list holds literals only", "", ""),
        ("defined('x')", "`defined` asks about a reference", "write `defined($name)`", ""),
        ("defined($x == 1)", "`defined` asks about a reference", "write `defined($name)`", ""),
        ("len $x > 1", "expected `(` after `len`", "write `len($name)`", ""),
        ("if $a == 1", "the bare word `if`", "write `$if`", ""),
        ("", "an expression is expected", "", ""),
        ("  \n ", "an expression is expected", "", ""),
        ("$a ==", "expected a value, found the end", "", ""),
        ("($a", "expected `)` to close `(`, found the end", "", ""),
        ("$a)", "expected an operator or the end, found `)`", "", ""),
        ("$a $b", "expected an operator or the end, found `$b`", "", ""),
        ("$a\xa0== 1", "is not expected here", "write `$a == 1`", "$a == 1"),
        ("$a => 1 and $a =< 3", "`=` is not expected here", "write", "$a >= 1 and $a <= 3"),
        ("$a ≥ 1 and $a ≠ 3", "`≥` is not expected here", "write", "$a >= 1 and $a != 3"),
        ("$a – 1 > −2", "`–` is not expected here", "write", "$a - 1 > -2"),
        ("$a > 1_000_000", "`1` runs into what follows", "write `$a > 1000000`", "$a > 1000000"),
        ("$a > .5", "`.` is not expected here", "write `$a > 0.5`", "$a > 0.5"),
        ("$a == 'it''s'", "found `'s'`", "write a quote inside a text as `\\'`", ""),
        ("$a[0] == 'x'", "found `[`", "ask with `contains`", ""),
        ("$a == 1 # why", "`#` is not expected here", "no comment", ""),
        ("$a like '%x'", "found `like`", "`starts_with`", ""),
        ("$a between 1 and 2", "found `between`", "two comparisons", ""),
        ("abs($a) > 1", "the bare word `abs`", "the functions are `len` and `defined`", ""),
        ("$a and ($b or $a", "expected `)` to close `(`", "close it with `)`", ""),
        ("$a.0 == 1", "`.` is not expected here", "", ""),
    ],
)
def test_what_people_try(text: str, message: str, help_part: str, rewrite: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        parse(text)
    error = caught.value
    assert message in error.message
    assert help_part in error.help
    assert error.help
    assert error.rewrite == rewrite
    assert 0 <= error.start <= error.end <= len(text)
    assert f"position {error.start + 1}" in str(error)
    if rewrite:
        parse(rewrite)


@pytest.mark.parametrize(
    ("text", "rewrite"),
    [
        ("'$x' == 'yes'", "$x == 'yes'"),
        ("\"$a.output\" in ['b']", "$a.output in ['b']"),
        ("'x' in '$a'", "$a contains 'x'"),
    ],
)
def test_a_quoted_reference_is_rewritten_though_it_parses(text: str, rewrite: str) -> None:
    parse(text)
    assert rewritten(text) == rewrite


def test_a_rewrite_leaves_texts_alone() -> None:
    with pytest.raises(ExpressionError) as caught:
        parse("$a = 'x && !y = True' && $b")
    assert caught.value.rewrite == "$a == 'x && !y = True' and $b"


def test_an_error_in_a_long_text_is_told_at_once() -> None:
    """The search for a rewrite is quadratic; without its bound each of these takes seconds."""
    for text in (
        " or ".join(f"a{number}" for number in range(20_000)),
        "'" + r"\'" * 50_000,
        "(" * 100_000,
        "." * 50_000,
    ):
        with pytest.raises(ExpressionError) as caught:
            parse(text)
        assert caught.value.rewrite == ""


# -- size -----------------------------------------------------------------------------------------------------------

MANY = 10_000


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (" and ".join(f"$a != {number}" for number in range(1, MANY)), True),
        (" or ".join(f"$a == {number}" for number in range(1, MANY)), False),
        (" or ".join(f"$a == {number} and $a < 5" for number in range(MANY // 2)), True),
        (" + ".join("1" for _ in range(MANY)) + f" == {MANY}", True),
        (" - ".join("1" for _ in range(MANY)) + f" == {2 - MANY}", True),
        (" * ".join("1" for _ in range(MANY)) + " == 1", True),
        ("$a in [" + ", ".join(map(str, range(MANY))) + "]", True),
        (" and ".join(f"not $a == {number}" for number in range(1, MANY)), True),
    ],
    ids=["and", "or", "mixed", "plus", "minus", "times", "list", "not"],
)
def test_ten_thousand_terms_are_no_nesting(text: str, value: bool) -> None:
    assert result(text, a=0) is value


@pytest.mark.parametrize("word", ["and", "or"])
@pytest.mark.parametrize("outcome", [True, False])
def test_facts_of_ten_thousand_terms(word: str, outcome: bool) -> None:
    tree = parse(f" {word} ".join(f"$v{number} == {number}" for number in range(MANY)))
    found = facts(tree, outcome)
    assert len(found.defined) == (MANY if outcome is (word == "and") else 1)


def nested(opening: str, closing: str, levels: int, inner: str) -> str:
    return opening * levels + inner + closing * levels


@pytest.mark.parametrize(
    ("opening", "closing", "inner"),
    [("(", ")", "$a"), ("not ", "", "$a"), ("- ", "", "$n"), ("len(", ")", "'x'"), ("not (", ")", "$a")],
)
def test_nesting_is_allowed_up_to_a_limit(opening: str, closing: str, inner: str) -> None:
    levels = (MAX_NESTING - 1) // (1 + (opening == "not ("))
    tree = parse(nested(opening, closing, levels, inner))
    if opening != "len(":
        evaluate(tree, lambda names: True if names == ("a",) else 1)
    for more in (MAX_NESTING, 1_000, 100_000):
        with pytest.raises(ExpressionError, match=f"nested deeper than {MAX_NESTING} levels"):
            parse(nested(opening, closing, more, inner))


def test_nesting_is_counted_from_the_outside_not_along_a_chain() -> None:
    parse(" and ".join("(($a))" for _ in range(100)))
    parse(" + ".join("-(-1)" for _ in range(100)))


def attempt(text: str) -> tuple[Expression | None, ExpressionError | None]:
    try:
        return parse(text), None
    except ExpressionError as error:
        return None, error


# -- anything at all ------------------------------------------------------------------------------------------------


@given(st.one_of(st.text(max_size=60), mutated_conditions(), st.text("$ab.()'\"\\u01<>=!&|+-*[], \n", max_size=30)))
@settings(max_examples=400, deadline=None)
def test_arbitrary_text_is_an_expression_or_an_expression_error(text: str) -> None:
    tree, error = attempt(text)
    if error is not None:
        assert 0 <= error.start <= error.end <= len(text)
        assert error.message
        assert error.help
        if error.rewrite:
            parse(error.rewrite)
    if tree is not None:
        assert text[: tree.start].strip(" \t\r\n(") == ""
        assert text[tree.end :].strip(" \t\r\n)") == ""


@given(conditions(), states())
@settings(max_examples=200, deadline=None)
def test_an_evaluation_gives_a_value_or_an_evaluation_error(text: str, state: dict[str, Any]) -> None:
    with suppress(EvaluationError):
        found = result(text, **state)
        assert found is None or isinstance(found, bool | int | Decimal | str | tuple | dict)


# -- facts ----------------------------------------------------------------------------------------------------------


@given(conditions(), states())
@settings(max_examples=250, deadline=None)
def test_facts_hold_in_every_state_with_that_outcome(text: str, state: dict[str, Any]) -> None:
    tree = parse(text)
    try:
        outcome = evaluate(tree, lambda names: look_up(state, names))
    except EvaluationError:
        assume(False)
    assume(isinstance(outcome, bool))
    found = facts(tree, outcome)
    for names in found.defined | certain_reads(tree):
        look_up(state, names)
    for names in found.not_null:
        assert look_up(state, names) is not None


def marked(tree: Expression) -> Expression:
    """Return the tree with each reference's place as its last name, so that a lookup tells which one is read."""

    def mark(part: Any) -> Any:
        if isinstance(part, tuple):
            return tuple(mark(item) for item in part)
        return marked(part) if dataclasses.is_dataclass(part) else part

    if isinstance(tree, Constant):
        return tree
    if isinstance(tree, Reference):
        return Reference(tree.start, tree.end, (*tree.names, str(tree.start)))
    return type(tree)(**{field.name: mark(getattr(tree, field.name)) for field in dataclasses.fields(tree)})


@given(conditions(), states())
@settings(max_examples=300, deadline=None)
def test_what_is_known_at_a_read_holds_when_it_is_read(text: str, state: dict[str, Any]) -> None:
    tree = parse(text)
    known = {reference.start: certain for reference, certain in reads(tree)}
    asked = {node.reference.start for node in walk(tree) if isinstance(node, Defined)}

    def lookup(names: tuple[str, ...]) -> Any:
        place = int(names[-1])
        assert place in known or place in asked
        for other in known[place].defined if place in known else ():
            look_up(state, other)
        for other in known[place].not_null if place in known else ():
            assert look_up(state, other) is not None
        return look_up(state, names[:-1])

    with suppress(EvaluationError):
        evaluate(marked(tree), lookup)


@pytest.mark.parametrize(
    ("text", "outcome", "defined", "not_null"),
    [
        ("$a == 1", True, {"a"}, {"a"}),
        ("$a == 1", False, {"a"}, set()),
        ("$a != null", True, {"a"}, {"a"}),
        ("$a != null", False, {"a"}, set()),
        ("$a == null", False, {"a"}, {"a"}),
        ("$a < $b", False, {"a", "b"}, {"a", "b"}),
        ("defined($a)", True, {"a"}, set()),
        ("defined($a)", False, set(), set()),
        ("not defined($a)", False, {"a"}, set()),
        ("defined($a) and $a > 1", True, {"a"}, {"a"}),
        ("defined($a) and $a > 1", False, set(), set()),
        ("$a == 1 or $b == 1", True, {"a"}, set()),
        ("$a == 1 or $b == 1", False, {"a", "b"}, set()),
        ("not defined($a) or $a == 2", False, {"a"}, set()),
        ("defined($a) and $b == 1 or defined($a)", True, {"a"}, set()),
        ("$a > 1 and $b > 1 or $a > 3 and $c > 1", True, {"a"}, {"a"}),
        ("$o.field == 'x'", True, {"o.field"}, {"o.field"}),
        ("true or $a == 1", True, set(), set()),
    ],
)
def test_facts_that_can_be_had_are_had(text: str, outcome: bool, defined: set[str], not_null: set[str]) -> None:
    found = facts(parse(text), outcome)
    assert {".".join(names) for names in found.defined} == defined
    assert {".".join(names) for names in found.not_null} == not_null


def test_a_field_that_is_defined_tells_that_its_object_is() -> None:
    found = facts(parse("$o.a.b == 1"), True)
    assert found.knows_defined(("o",))
    assert found.knows_defined(("o", "a", "b"))
    assert not found.knows_defined(("o", "a", "b", "c"))
