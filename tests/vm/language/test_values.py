"""Values: numbers without rounding, objects that nobody can change, and the text that they are written as."""

from __future__ import annotations

import copy
import enum
import json
import math
import pickle
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stepward.vm.values import MAX_DEPTH, MAX_DIGITS, FrozenMap, ValueRefused, as_text, exact, freeze, to_json
from strategies import exact_numbers, json_values, texts

# -- numbers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given_number", "value"),
    [
        (1.0, 1),
        (Decimal("1.0"), 1),
        (Decimal("1E+3"), 1000),
        (1e22, 10**22),
        (0.1, Decimal("0.1")),
        (0.1 + 0.2, Decimal("0.30000000000000004")),
        (1e-7, Decimal("0.0000001")),
        (5e-324, Decimal("5e-324")),
        (-0.0, 0),
        (Decimal("-0.00"), 0),
        (Decimal("0E+999999999"), 0),
        (Decimal("2.50"), Decimal("2.5")),
        (10**MAX_DIGITS - 1, 10**MAX_DIGITS - 1),
        (1 - 10**MAX_DIGITS, 1 - 10**MAX_DIGITS),
        (Decimal("1." + "0" * 5_000), 1),
        (Decimal("1e-999"), Decimal("1e-999")),
    ],
)
def test_a_number_is_its_shortest_exact_form(given_number: Any, value: Any) -> None:
    found = exact(given_number)
    assert (type(found), found) == (type(value), value)
    assert exact(found) is found or exact(found) == found
    assert str(found) == str(value)


@pytest.mark.parametrize(
    "number", [math.nan, math.inf, -math.inf, Decimal("NaN"), Decimal("sNaN"), Decimal("-Infinity")]
)
def test_what_is_not_finite_is_refused(number: Any) -> None:
    with pytest.raises(ValueRefused, match="finite"):
        exact(number)
    with pytest.raises(ValueRefused, match="finite"):
        freeze({"deep": [number]})


@pytest.mark.parametrize(
    "number",
    [
        10**MAX_DIGITS,
        -(10**MAX_DIGITS),
        1 << 1_000_000,
        Decimal("1E+1000"),
        Decimal("1E+999999999"),
        Decimal("1E-1000"),
        Decimal("1E-999999999"),
        Decimal("0." + "1" * MAX_DIGITS),
        Decimal("1" * 501 + "." + "1" * 500),
    ],
    ids=lambda number: str(type(number).__name__),
)
def test_over_a_thousand_digits_are_refused(number: Any) -> None:
    with pytest.raises(ValueRefused, match="over 1000 digits"):
        exact(number)


@given(st.floats(allow_nan=False, allow_infinity=False, min_value=-1e300, max_value=1e300))
def test_a_float_is_its_shortest_decimal_text(number: float) -> None:
    found = exact(number)
    assert float(found) == number
    if abs(number) > 1e-300:
        assert Decimal(repr(number)) == found


@given(exact_numbers)
def test_equal_numbers_have_one_form(number: Any) -> None:
    same = Decimal(number) * 1 if isinstance(number, Decimal) else Decimal(number)
    assert (type(exact(number)), str(exact(number))) == (type(exact(same)), str(exact(same)))


class Whole(enum.IntEnum):
    TWO = 2


class Real(float):
    def __repr__(self) -> str:
        return f"Real({float(self)})"


class Colour(str, enum.Enum):  # noqa: UP042 - what people had before StrEnum, with its other `str()`
    RED = "red"


def test_a_subclass_becomes_the_plain_value() -> None:
    frozen = freeze([Whole.TWO, Real(0.5), Colour.RED, {Colour.RED: Colour.RED}])
    assert frozen == (2, Decimal("0.5"), "red", {"red": "red"})
    assert [type(item) for item in frozen] == [int, Decimal, str, FrozenMap]
    assert [type(text) for text in (*frozen[3], *frozen[3].values())] == [str, str]


# -- freezing -------------------------------------------------------------------------------------------------------


def test_freezing_copies_everything() -> None:
    inner: list[Any] = [1.5, {"a": [True, None]}]
    outer = {"inner": inner, "text": "x"}
    frozen = freeze(outer)
    inner.append("later")
    outer["more"] = 1
    assert frozen == {"inner": (Decimal("1.5"), {"a": (True, None)}), "text": "x"}
    assert type(frozen["inner"][1]) is FrozenMap


def test_booleans_are_no_numbers() -> None:
    assert freeze(True) is True
    assert freeze([False, 0]) == (False, 0)
    assert [type(item) for item in freeze([False, 0, 0.0])] == [bool, int, int]


@given(json_values())
def test_freezing_twice_changes_nothing(value: Any) -> None:
    once = freeze(value)
    assert freeze(once) == once
    assert to_json(freeze(once)) == to_json(once)


@pytest.mark.parametrize("value", [b"bytes", {1, 2}, object(), 1j, (item for item in ()), {"f": print}, [range(3)]])
def test_what_json_does_not_have_is_refused(value: Any) -> None:
    with pytest.raises(ValueRefused, match="a value must be"):
        freeze(value)


@pytest.mark.parametrize("key", [1, None, True, ("a",), 1.5])
def test_a_key_is_text(key: Any) -> None:
    with pytest.raises(ValueRefused, match="a key of an object must be text"):
        freeze({key: 1})


@pytest.mark.parametrize("value", ["\ud800", "x\udfffy", {"\ud83d": 1}])
def test_half_a_character_is_no_text(value: Any) -> None:
    with pytest.raises(ValueRefused, match="half a surrogate pair"):
        freeze(value)
    assert freeze("😀") == "😀"


def nested(levels: int) -> Any:
    value: Any = 1
    for number in range(levels):
        value = [value] if number % 2 else {"k": value}
    return value


def test_depth_is_bounded() -> None:
    freeze(nested(MAX_DEPTH))
    for levels in (MAX_DEPTH + 1, 100_000):
        with pytest.raises(ValueRefused, match="deeper than 64 levels"):
            freeze(nested(levels))


def test_a_list_that_holds_itself_is_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(ValueRefused, match="deeper"):
        freeze(endless)


# -- frozen maps ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        lambda value: value.__setitem__("a", 2),
        lambda value: value.__setitem__("new", 2),
        lambda value: value.__delitem__("a"),
        lambda value: value.clear(),
        lambda value: value.pop("a"),
        lambda value: value.pop("none", None),
        lambda value: value.popitem(),
        lambda value: value.setdefault("a", 2),
        lambda value: value.setdefault("new", 2),
        lambda value: value.update(a=2),
        lambda value: value.update({}),
        lambda value: value.__ior__({"a": 2}),
    ],
)
def test_an_object_value_cannot_be_changed(change: Any) -> None:
    value = freeze({"a": 1})
    with pytest.raises(TypeError, match="can't be changed"):
        change(value)
    assert value == {"a": 1}


def test_every_mutator_of_dict_is_refused() -> None:
    """A mutator that a later Python brings would not be in the list above."""
    harmless = {"__getitem__", "get", "items", "keys", "values", "copy", "fromkeys"}
    mutators = {name for name in vars(dict) if not name.startswith("__")} - harmless
    assert mutators == {"clear", "pop", "popitem", "setdefault", "update"}
    for name in mutators | {"__setitem__", "__delitem__", "__ior__"}:
        assert getattr(FrozenMap, name) is not getattr(dict, name)


def test_no_attribute_can_be_set() -> None:
    with pytest.raises(AttributeError):
        freeze({}).anything = 1


def test_copies_are_the_thing_itself_and_pickles_equal_it() -> None:
    value = freeze({"a": {"b": [1, {"c": 2}]}})
    assert copy.copy(value) is value
    assert copy.deepcopy(value) is value
    again = pickle.loads(pickle.dumps(value))
    assert again == value
    assert (type(again), type(again["a"]), type(again["a"]["b"][1])) == (FrozenMap, FrozenMap, FrozenMap)


def test_a_union_is_a_dict_of_its_own() -> None:
    value = freeze({"a": 1})
    union = value | {"b": 2}
    union["c"] = 3
    assert value == {"a": 1}


# -- writing --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("text", "text"),
        ("", ""),
        (True, "true"),
        (False, "false"),
        (None, "null"),
        (7, "7"),
        (10**999, "1" + "0" * 999),
        (Decimal("0.0000001"), "0.0000001"),
        (Decimal("-2.5"), "-2.5"),
        ((), "[]"),
        ((1, "a", None), '[1, "a", null]'),
        ({}, "{}"),
        ({"ü": {"b": [True]}}, '{"ü": {"b": [true]}}'),
        ({"quote": 'a"b\n'}, '{"quote": "a\\"b\\n"}'),
    ],
)
def test_as_text(value: Any, text: str) -> None:
    assert as_text(freeze(value)) == text


@pytest.mark.parametrize("indent", [0, 2])
@given(value=json_values())
@settings(max_examples=150)
def test_json_text_is_read_back_by_json(indent: int, value: Any) -> None:
    frozen = freeze(value)
    text = to_json(frozen, indent)
    plain = json.loads(text, parse_float=Decimal)
    assert freeze(plain) == frozen
    if not indent:
        assert "\n" not in text


@given(json_values(st.one_of(st.none(), st.booleans(), st.integers(), texts)))
def test_without_fractions_json_text_is_that_of_json(value: Any) -> None:
    for indent in (0, 2):
        assert to_json(value, indent) == json.dumps(value, ensure_ascii=False, indent=indent or None)


def test_keys_keep_their_order() -> None:
    assert to_json(freeze({"z": 1, "a": 2, "m": 3})) == '{"z": 1, "a": 2, "m": 3}'


@pytest.mark.parametrize("value", [1.5, {1}, object()])
def test_what_was_never_frozen_is_not_written(value: Any) -> None:
    with pytest.raises(AssertionError, match="frozen"):
        to_json([value])
