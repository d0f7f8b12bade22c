"""The words of types: what they refuse, which of them contradict one another, and which types are within others."""

from __future__ import annotations

from decimal import Decimal
from itertools import product
from typing import Any

import pytest
from pydantic import ValidationError

from stepward.sabotage.reference.types import is_of
from stepward.validator.recheck.types import covers
from stepward.validator.recheck.types import fits as rechecked
from stepward.vm.language.types import TypeSpec, fits, implies, refusal
from stepward.vm.values import freeze

NUMBERS = [0, 1, 2, -1, Decimal("0.5"), Decimal("1.5")]
VALUES: list[Any] = [*NUMBERS, "", "a", "ab", "abc", (), (1,), (1, "a"), (1, 2, 3), None, True, freeze({"a": 1})]
BOUNDS = [None, 0, 1]
WORDS = [
    *({"minimum": low, "exclusiveMinimum": above} for low, above in product(BOUNDS, repeat=2)),
    *({"maximum": high, "exclusiveMaximum": below} for high, below in product(BOUNDS, repeat=2)),
    *({"exclusiveMinimum": low, "exclusiveMaximum": 2} for low in BOUNDS),
    *({"minLength": low, "maxLength": 2} for low in BOUNDS),
    *({"minItems": low, "maxItems": 2} for low in BOUNDS),
    *({"const": value} for value in (1, "a", True, [1])),
    {"minLength": 2, "pattern": "a"},
    {"pattern": "^aa"},
    {"minLength": 1},
    {"minItems": 1, "items": {"minimum": 1}},
]
KINDS: list[dict[str, Any]] = [{}, {"type": "integer"}, {"type": "number"}, {"type": ["string", "array", "null"]}]


def spec(data: dict[str, Any]) -> TypeSpec | None:
    """Return a type, None for one without values."""
    try:
        return TypeSpec.model_validate({word: value for word, value in data.items() if value is not None})
    except ValidationError:
        return None


SPECS = [one for kind, words in product(KINDS, WORDS) if (one := spec({**kind, **words})) is not None]


def test_machine_second_checker_and_reference_accept_the_same_values() -> None:
    for one, value in product(SPECS, VALUES):
        accepted = fits(value, one)
        assert rechecked(value, one) is accepted, (one, value)
        assert is_of(value, one) is accepted, (one, value)


def test_a_type_that_is_within_another_has_no_value_that_the_other_lacks() -> None:
    said = 0
    for narrow, wide in product(SPECS, repeat=2):
        values = [value for value in VALUES if fits(value, narrow)]
        is_within = all(fits(value, wide) for value in values)
        for claim in (implies(narrow, wide), covers(wide, narrow)):
            assert is_within or not claim, (narrow, wide)
            said += claim
    assert said > 1_000


@pytest.mark.parametrize(
    ("words", "value", "says"),
    [
        ({"exclusiveMinimum": 0}, 0, "must be more than 0, not 0"),
        ({"exclusiveMaximum": Decimal("1.5")}, Decimal("1.5"), "must be less than 1.5, not 1.5"),
        ({"minLength": 2}, "a", "must have at least 2 characters, not 1"),
        ({"minItems": 1}, (), "must have at least 1 items, not 0"),
        ({"maxItems": 1}, (1, 2), "must have at most 1 items, not 2"),
        ({"const": "a"}, "b", 'must be one of `"a"`, not `"b"`'),
    ],
)
def test_a_refusal_names_the_bound(words: dict[str, Any], value: Any, says: str) -> None:
    one = spec(words)
    assert one is not None
    assert refusal(value, one) == says


@pytest.mark.parametrize(
    ("words", "why", "help"),
    [
        ({"exclusiveMinimum": 1, "maximum": 1}, "no number is more than 1 and at most 1", "lower `exclusiveMinimum`"),
        (
            {"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 1},
            "no whole number is more than 0 and less than 1",
            "raise `exclusiveMaximum` to 2 or more, or lower `exclusiveMinimum` to -1 or less",
        ),
        ({"minLength": 3, "maxLength": 2}, "no text has a length of at least 3", "raise `maxLength` to 3 or more"),
        ({"minItems": 3, "maxItems": 2}, "no array has a length of at least 3", "lower `minItems` to 2 or less"),
        ({"minLength": 3, "pattern": "^a{2}$"}, "matches no text of at least 3 characters", "lower `minLength`"),
        ({"const": 1, "enum": [1]}, "`const` and `enum` both list the values", "remove `const`, or `enum`"),
        ({"const": 1, "type": "string"}, "no value of its `enum` is of this type", ""),
    ],
)
def test_a_type_without_values_is_refused(words: dict[str, Any], why: str, help: str) -> None:
    with pytest.raises(ValidationError) as caught:
        TypeSpec.model_validate(words)
    (error,) = caught.value.errors()
    assert why in error["msg"]
    assert help in error["ctx"]["help"]


def test_const_is_read_as_an_enum_and_written_as_it_was() -> None:
    one = TypeSpec.model_validate({"const": [1, "a"]})
    assert one.enum == ((1, "a"),)
    assert one.to_data() == {"const": [1, "a"]}
    assert TypeSpec.model_validate(one.to_data()) == one
    assert TypeSpec.model_validate({"const": None}).enum is None
