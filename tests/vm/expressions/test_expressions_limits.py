"""Expressions of ten thousand terms, nesting at its limit, and any text at all."""

from __future__ import annotations

from contextlib import suppress
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluations import result
from sizes import size
from stepward.vm.errors import EvaluationError, ExpressionError
from stepward.vm.expressions.evaluator import evaluate
from stepward.vm.expressions.facts import facts
from stepward.vm.expressions.parser import MAX_NESTING, parse
from stepward.vm.expressions.syntax import Expression
from strategies import conditions, mutated_conditions, states

MANY = 10_000


@pytest.mark.one_in(3)
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


@pytest.mark.one_in(2)
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
    for more in (MAX_NESTING, 1_000, 20_000):
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


@given(st.one_of(st.text(max_size=60), mutated_conditions(), st.text("$ab.()'\"\\u01<>=!&|+-*[], \n", max_size=30)))
@settings(max_examples=size(60, 400), deadline=None)
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
@settings(max_examples=size(40, 200), deadline=None)
def test_an_evaluation_gives_a_value_or_an_evaluation_error(text: str, state: dict[str, Any]) -> None:
    with suppress(EvaluationError):
        found = result(text, **state)
        assert found is None or isinstance(found, bool | int | Decimal | str | tuple | dict)
