"""What people write instead of a condition, and what is said to them."""

from __future__ import annotations

import pytest

from stepward.vm.errors import ExpressionError
from stepward.vm.expressions.hints import rewritten
from stepward.vm.expressions.parser import parse, parses

METHODS = "conditions have no methods"

NUMBERS_ONLY = "numbers have `+`, `-` and `*` only"


@pytest.mark.parametrize(
    ("text", "message", "help_part", "rewrite"),
    [
        ("$reply.lower() == 'yes'", "a condition can't call a method", "write", "lower($reply) == 'yes'"),
        ("$x.strip().lower() == 'a'", "a condition can't call a method", "write", "lower(trim($x)) == 'a'"),
        ("$x.casefold() == 'a'", "a condition can't call a method", METHODS, "$x == 'a'"),
        ("$x matches '^a'", "found `matches`", "write", "matches($x, '^a')"),
        ("$x == lower", "expected `(` after `lower`", "write", "$x == 'lower'"),
        ("join($x)", "`join` needs its separator after a comma", "write `join($name, ', ')`", ""),
        ("matches($x, $y)", "the pattern of `matches` is a text in quotes", "write `matches($name", ""),
        ("matches($x, '(?=a)')", "a look-ahead `(?=…)` is not supported", "write the pattern without it", ""),
        ("lower($x, 'a')", "`lower` takes one value", "write `lower($name)`", ""),
        ("trim()", "`trim` needs a value", "write `trim($name)`", ""),
        ("LOWER($x) == 'a'", "the bare word `LOWER`", "write", "lower($x) == 'a'"),
        (
            "$s.o.strip().lower() == 'y'",
            "a condition can't call a method",
            "write",
            "lower(trim($s.o)) == 'y'",
        ),
        ("'yes' in $reply.lower()", "a condition can't call a method", "write", "lower($reply) contains 'yes'"),
        ("'a' not in $x.lower()", "a condition can't call a method", "write", "lower($x) not contains 'a'"),
        ("$x.startswith('a')", "a condition can't call a method", METHODS, "$x starts_with 'a'"),
        ("$x.endsWith('a') and $b", "a condition can't call a method", METHODS, "$x ends_with 'a' and $b"),
        ("$x.includes('a')", "a condition can't call a method", METHODS, "$x contains 'a'"),
        ("$x.frobnicate() == 1", "a condition can't call a method", METHODS, ""),
        ("$a && $b", "`&&` is not an operator", "write `$a and $b`", "$a and $b"),
        ("$a || $b", "`||` is not an operator", "write `$a or $b`", "$a or $b"),
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
        ("${a} == 1", "`$` has no name after it", "write", "$a == 1"),
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
        ("$ == 1", "`$` has no name after it", "write `$name`", ""),
        ("1.5.2 == 1", "`1.5` runs into what follows", "put a space", ""),
        ("'a\\q' == 'a'", "`\\q` is no escape", "the escapes are", ""),
        ("$a == not $b", "expected a value, found `not`", "in parentheses", ""),
        ("[$a + 1] contains 1", "a list holds literals and references only", "assign the value to a name", ""),
        ("[($a)] contains 1", "a list holds literals and references only", "assign the value to a name", ""),
        ("$a in ['x', 1]", "literals of one type", "split it", ""),
        ("$a in [[1]]", "a list holds literals and references only", "", ""),
        ("$a in ['x', $b, 1]", "literals of one type", "split it", ""),
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
        ("$a[-1] == 'x'", "found `[`", "ask with `contains`", ""),
        ("$a[$i] == 'x'", "found `[`", "a whole number from 0", ""),
        ("$a [0] == 'x'", "found `[`", "directly after the name", ""),
        ("$a[12345] == 'x'", "found `[`", "a whole number from 0", ""),
        ("a.b[0] == 'x'", "`.` is not expected", "write", "$a.b[0] == 'x'"),
        ("{{ a[0].b }} == 'x'", "`{` is not expected", "write", "$a[0].b == 'x'"),
        ("$a['b'] == 'x'", "brackets hold an index", "write", "$a.b == 'x'"),
        ("$a['[0]'] == 'x'", "begins with `[`", "let a tool read it", ""),
        ("$a == 1 # why", "`#` is not expected here", "no comment", ""),
        ("$a like '%x'", "found `like`", "`starts_with`", ""),
        ("$a between 1 and 2", "found `between`", "two comparisons", ""),
        ("abs($a) > 1", "the bare word `abs`", "the functions are `len`", ""),
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
    assert rewritten(text, parses) == rewrite


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
