"""Fast: what somebody types as an answer: how it is read, what is said of a mistake, and examples of types."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from stepward.validator.result import AdvisedError
from stepward.validator.studio.answers import advice_on, example_text, value_typed
from stepward.validator.studio.examples import NoExample, example_of, type_in_words
from stepward.vm.language.types import TypeSpec, refusal
from stepward.vm.values import freeze

VERDICT: dict[str, Any] = {
    "type": "object", "required": ["agreed"],
    "properties": {"agreed": {"type": "boolean"}, "by": {"type": "string"}},
}  # fmt: skip


def spec_of(data: dict[str, Any] | None) -> TypeSpec | None:
    return None if data is None else TypeSpec.model_validate(data, context={"patterns": "re2"})


@pytest.mark.parametrize(
    ("text", "data", "value"),
    [
        ("true", {"type": "boolean"}, True),
        (' {"agreed": true, "by": "ann"} ', VERDICT, {"agreed": True, "by": "ann"}),
        ("1.50", {"type": "number"}, Decimal("1.50")),
        ("true", {"type": "string"}, "true"),
        ("true", {"type": ["string", "boolean"]}, True),
        ("yes, of course", {"type": ["string", "boolean"]}, "yes, of course"),
        ("{", {"type": ["string", "null"]}, "{"),
        ("anything", None, "anything"),
        ("[1]", None, [1]),
    ],
)
def test_an_answer_is_json_or_a_text(text: str, data: dict[str, Any] | None, value: Any) -> None:
    assert value_typed(text, spec_of(data), "the answer") == value


@pytest.mark.parametrize(
    ("text", "data", "words"),
    [
        ("{agreed: true}", VERDICT, "the answer can't be read as JSON: "),
        ('{"agreed": true', VERDICT, "line 1, column"),
        ('{"agreed": 1, "agreed": true}', VERDICT, "can't be read as JSON"),
        ('{"by": "ann"}', VERDICT, "the answer is not of its type: `agreed` is missing"),
        ("yes", {"type": "boolean"}, "can't be read as JSON"),
        ("", {"type": "boolean"}, "the answer is empty"),
        ("ab", {"type": "string", "minLength": 3}, "must have at least 3 characters"),
        ("{", None, "can't be read as JSON"),
    ],
)
def test_a_mistake_is_named_and_an_example_is_given(text: str, data: dict[str, Any] | None, words: str) -> None:
    with pytest.raises(AdvisedError) as caught:
        value_typed(text, spec_of(data), "the answer")
    assert words in caught.value.message
    assert not {"YAML", "shell"} & set(caught.value.message.split())
    assert caught.value.help == advice_on(spec_of(data))


TYPES: tuple[dict[str, Any], ...] = (
    VERDICT, {}, {"type": "boolean"}, {"type": "null"}, {"type": "integer", "minimum": 7},
    {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}, {"type": "integer", "maximum": -3},
    {"enum": ["b", 3]}, {"type": "string", "pattern": "^ORD-[0-9]{6}$"}, {"type": "string", "minLength": 30},
    {"type": "string", "maxLength": 2}, {"type": "array", "items": {"type": "integer", "minimum": 9}, "minItems": 2},
    {"type": "array", "maxItems": 0},
    {"type": "object", "required": ["x"], "additionalProperties": {"type": "integer"}},
    {"type": ["null", "object"], "properties": {"in": {"type": "array", "items": VERDICT}}},
)  # fmt: skip


@pytest.mark.parametrize("data", TYPES, ids=str)
def test_an_example_is_of_its_type_and_can_be_typed_as_it_is_shown(data: dict[str, Any]) -> None:
    spec = spec_of(data)
    assert spec is not None
    assert refusal(freeze(example_of(spec)), spec) is None
    assert value_typed(example_text(spec), spec, "the answer") == example_of(spec)


def test_what_has_no_example_that_is_easily_found_is_said() -> None:
    spec = spec_of({"type": "array", "items": {"type": "integer"}, "minItems": 50})
    with pytest.raises(NoExample):
        example_of(spec)
    assert (example_text(spec), advice_on(spec)) == ("", "write an array, each item a whole number")


def test_a_type_is_told_in_words() -> None:
    assert type_in_words(spec_of(VERDICT)) == "an object with `agreed` (true or false), `by` (text, may be left out)"
    assert type_in_words(spec_of({"type": "integer", "minimum": 1, "exclusiveMaximum": 5})) == (
        "a whole number from 1 below 5"
    )
    assert type_in_words(spec_of({"enum": ["agree", "refuse"]})) == 'one of "agree", "refuse"'
    assert type_in_words(spec_of({})) == type_in_words(None) == "anything"
