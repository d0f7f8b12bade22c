"""Random types, and values of a type at its bounds or just outside."""

from __future__ import annotations

import math
from collections.abc import Iterable
from decimal import Decimal
from random import Random
from typing import Any, Final

from stepward.sabotage.playing.odd_values import part_of
from stepward.vm.language.types import TypeSpec, fits
from stepward.vm.patterns.languages import shortest
from stepward.vm.values import freeze

POOL: Final[tuple[Any, ...]] = (
    None,
    True,
    False,
    0,
    1,
    1.0,
    -1,
    0.5,
    1e-7,
    1e21,
    "",
    "a",
    "1",
    "true",
    "ok",
    "$s",
    [],
    [1],
    [True],
    {},
    {"a": 1},
    {"a": True},
    {"b": {"z": 1, "a": [{"y": 1, "x": 2}]}, "a": 1},
    [[{"b": 0.5, "a": {"d": "ok", "c": None}}]],
)
"""Values that are easily confused."""

LETTERS: Final = ("a", "b", "é", "€", "𝔘")
"""Characters of one to four bytes."""

PATTERNS: Final = ("^a+$", "b", "^[a-c]{2}$", "^$", "a|é", r"^\d+$", "a$")

WORDS: Final = ("boolean", "integer", "number", "string", "array", "object", "null")


MOST_TRIES: Final = 8

NESTED: Final = 0.4
"""The share of types that are a scalar within arrays, fields and maps."""

LISTED: Final = 0.1
"""The share of types that list values, each of which has a similar value of another kind."""


ONE_LIMIT: Final[tuple[dict[str, Any], ...]] = (
    {"type": "string", "maxLength": 2},
    {"type": "string", "pattern": "^a+$"},
    {"type": "string", "enum": ["a", "ok"]},
    {"type": "integer", "minimum": 0},
    {"type": "number", "maximum": 1.5},
    {"type": "integer", "enum": [1, 2]},
    {"type": "array", "items": {"type": "integer"}},
    {"type": "object", "required": ["a"]},
    {"type": "object", "properties": {"a": {"type": "boolean"}}},
    {"type": "object", "properties": {"a": {}}, "additionalProperties": False},
    {"type": "object", "additionalProperties": {"type": "string"}},
)
"""Types with one limit alone: a machine may take such a type for one without limits."""

TWO_LIMITS: Final[tuple[dict[str, Any], ...]] = (
    {"type": "string", "pattern": "^a+$", "maxLength": 2},
    {"type": "string", "enum": ["a", "aaa"], "maxLength": 3},
    {"type": ["string", "null"], "maxLength": 1, "pattern": "a"},
    {"type": "number", "minimum": 0, "maximum": 2},
    {"type": ["integer", "string"], "maximum": 2, "maxLength": 1},
    {"type": "object", "additionalProperties": False},
    {"type": "object", "required": ["a"], "properties": {"b": {"type": "integer"}}},
    {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False},
    {"type": "object", "properties": {"a": {"type": "integer"}}, "additionalProperties": {"type": "boolean"}},
    {"type": "array", "items": {"type": "string", "maxLength": 1}},
    {"type": "array", "items": {"type": "array", "items": {"type": "boolean"}}},
)
"""Types whose limits stand beside each other: a machine may forget one because of the other."""

CONFUSED: Final = (True, False, 0, 1, "1", "true", None)
"""Scalars that are listed."""

LARGEST_FLOAT: Final = 1 << 53
"""Every whole number below this is exact as a float."""


def drawn_type(chance: Random) -> dict[str, Any]:
    """Return the data of a type that has values."""
    for _ in range(MOST_TRIES):
        data = _any_type(chance)
        if has_values(data):
            return data
    return {}


def has_values(data: dict[str, Any]) -> bool:
    """Return whether a type does not contradict itself."""
    try:
        TypeSpec.model_validate(data)
    except ValueError:
        return False
    return True


def _any_type(chance: Random) -> dict[str, Any]:
    share = chance.random()
    if share < LISTED:
        return {"type": list(WORDS), "enum": chance.sample(CONFUSED, 2)}
    return _nested(chance, chance.randint(1, 3)) if share < LISTED + NESTED else _drawn(chance, 0)


def _nested(chance: Random, levels: int) -> dict[str, Any]:
    """Return a scalar type within arrays, fields and maps, in any order."""
    if levels == 0:
        return _drawn(chance, 3)
    inner = _nested(chance, levels - 1)
    return chance.choice(
        (
            {"type": "array", "items": inner},
            {"type": "object", "properties": {"a": inner}, "required": ["a"]},
            {"type": "object", "properties": {"a": {}, "aa": inner}},
            {"type": "object", "additionalProperties": inner},
            {"type": "object", "properties": {"a": {"type": "number"}}, "additionalProperties": inner},
        )
    )


def _drawn(chance: Random, depth: int) -> dict[str, Any]:
    def odds(share: float) -> bool:
        return chance.random() < share

    words = WORDS if depth < 2 else WORDS[:4]
    word = chance.choice(words)
    spec: dict[str, Any] = {"type": word if odds(0.75) else sorted({word, chance.choice(WORDS)})}
    if odds(0.2):
        spec["enum"] = [chance.choice(POOL) for _ in range(chance.randint(1, 3))]
        if odds(0.6):
            spec["type"] = list(WORDS)
    if word in ("integer", "number") or odds(0.1):
        spec |= {key: chance.choice((0, 1, 2, -1, 1.5)) for key in ("minimum", "maximum") if odds(0.5)}
    if word == "string" or odds(0.1):
        spec |= {"maxLength": chance.randint(0, 3)} if odds(0.5) else {}
        spec |= {"pattern": chance.choice(PATTERNS)} if odds(0.3) else {}
    if word == "array" and odds(0.8):
        spec["items"] = _drawn(chance, depth + 1)
    if word == "object":
        names = [name for name in ("a", "b") if odds(0.7)]
        spec["properties"] = {name: _drawn(chance, depth + 1) for name in names}
        spec["required"] = [name for name in (*names, "c") if odds(0.4)]
        if odds(0.6):
            is_map = odds(0.6)
            spec["additionalProperties"] = _drawn(chance, depth + 1) if is_map else chance.choice((False, True, None))
    if odds(0.1) and depth < 2:
        spec["sensitive"] = True
    return spec


def fitting(spec: TypeSpec | None, chance: Random) -> Any:
    """Return a value of a type, often at its bounds. For a very narrow type it may be of another type."""
    if spec is None:
        return chance.choice(POOL)
    for _ in range(5):
        value = _of(spec, chance)
        if fits(freeze(value), spec):
            return value
    return value


def _of(spec: TypeSpec, chance: Random) -> Any:
    if spec.enum is not None:
        value = chance.choice(spec.enum)
        return float(value) if type(value) is int and chance.random() < 0.2 else plain(value)
    match chance.choice(sorted(spec.kinds)):
        case "boolean":
            return chance.random() < 0.5
        case "null":
            return None
        case "integer" | "number" as word:
            return _number(spec, chance, is_whole=word == "integer")
        case "string":
            return _text(spec, chance)
        case "array":
            least, most = spec.min_items or 0, 3 if spec.max_items is None else min(spec.max_items, 3)
            return [fitting(spec.items, chance) for _ in range(chance.randint(least, max(least, most)))]
        case _:
            return _object(spec, chance)


def _number(spec: TypeSpec, chance: Random, *, is_whole: bool) -> int | float:
    bounds = (spec.minimum, spec.maximum, spec.exclusive_minimum, spec.exclusive_maximum)
    ends = [float(end) for end in bounds if end is not None]
    near = [end + step for end in ends for step in (0, 0, 1, -1, 0.5, -0.5)] + [0.0, 1.0, 7.0, 1e-7, 1e21]
    low = float("-inf") if spec.minimum is None else float(spec.minimum)
    high = float("inf") if spec.maximum is None else float(spec.maximum)
    good = [one for one in near if low <= one <= high and not (is_whole and one % 1)] or near
    good = [one for one in good if fits(freeze(one), spec)] or good
    number = chance.choice(good)
    return int(number) if not number % 1 and chance.random() < 0.7 else number


def _text(spec: TypeSpec, chance: Random) -> str:
    most = spec.max_length
    if spec.pattern is not None:
        return chance.choice(shortest(spec.pattern, most, 4) or ("a",))
    least = spec.min_length or 0
    if least:
        return chance.choice(LETTERS) * chance.choice((least, least, least + 1 if most is None else most))
    if chance.random() < 0.3:
        return chance.choice(("ok", "yes", "true", "1", "", "refund", "$s", "$x $$"))
    length = chance.choice((0, 1, 3)) if most is None else chance.choice((0, most, most))
    return chance.choice(LETTERS) * length


def _object(spec: TypeSpec, chance: Random) -> dict[str, Any]:
    known, rest = spec.properties or {}, spec.additional_properties
    names = [*known, *(name for name in spec.required if name not in known)]
    found = {}
    for name in names:
        if name in spec.required or chance.random() < 0.5:
            found[name] = fitting(known.get(name), chance)
    values = rest if isinstance(rest, TypeSpec) else None
    more = chance.randint(0, 3) if values else int(rest is not False and chance.random() < 0.3)
    # Two keys that other codings of text sort differently, or one that begins like another.
    for name in ["𝔘" if found else "x", chance.choice(("aa", "ａ")), "y"][:more]:
        found[name] = fitting(values, chance)
    return found


def beside(spec: TypeSpec | None, chance: Random) -> Any:
    """Return a near miss of a type: a similar value of another kind, or one step beyond a bound."""
    value = fitting(spec, chance)
    return _changed(value, spec, chance)


def _changed(value: Any, spec: TypeSpec | None, chance: Random) -> Any:
    beyond = list(_beyond(value, spec))
    if beyond and chance.random() < 0.5:
        return chance.choice(beyond)
    if isinstance(value, dict) and value and chance.random() < 0.7:
        name = chance.choice(list(value))
        return {**value, name: _changed(value[name], part_of(spec, name), chance)}
    if isinstance(value, list) and value and chance.random() < 0.7:
        place = chance.randrange(len(value))
        item = _changed(value[place], None if spec is None else spec.items, chance)
        return [*value[:place], item, *value[place + 1 :]]
    return chance.choice([*_twins(value), *beyond, None])


def _twins(value: Any) -> Iterable[Any]:
    """Yield values of another kind or size that look similar."""
    if isinstance(value, bool):
        return (int(value), str(value).lower(), not value, float(value))
    if isinstance(value, int | float):
        return (bool(value), str(value), value + 1, value - 1, value + 0.5, -value, [value])
    if isinstance(value, str):
        return (f"{value}a", f"{value}𝔘", value[:-1], value.upper(), [value], 1, True, f" {value}", f"{value}\n", "٣")
    if isinstance(value, dict):
        return ({**value, "zz": 1}, {**value, "x": "a"}, dict(list(value.items())[1:]), list(value), [value])
    return ([*value, None], [*value, True], [*value, 1], {}, "") if isinstance(value, list) else (0, False, "", "null")


def _beyond(value: Any, spec: TypeSpec | None) -> Iterable[Any]:
    """Yield values that are just outside a limit of a type."""
    if spec is None:
        return
    if isinstance(value, dict):
        yield from ({key: item for key, item in value.items() if key != name} for name in spec.required)
        if spec.additional_properties is False:
            yield {**value, "zz": 1}
    if spec.minimum is not None:
        yield from (float(spec.minimum) - 1, float(spec.minimum) - 0.5)
    if spec.maximum is not None:
        yield from (float(spec.maximum) + 1, float(spec.maximum) + 0.5)
    if spec.exclusive_minimum is not None:
        yield from (spec.exclusive_minimum, float(spec.exclusive_minimum) - 1)
    if spec.exclusive_maximum is not None:
        yield from (spec.exclusive_maximum, float(spec.exclusive_maximum) + 1)
    if spec.min_length:
        yield from ("a" * (spec.min_length - 1), "𝔘" * (spec.min_length - 1))
    if spec.min_items:
        yield [None] * (spec.min_items - 1)
    if spec.max_items is not None:
        yield [None] * (spec.max_items + 1)
    if spec.max_length is not None:
        yield from (letter * (spec.max_length + 1) for letter in ("a", "𝔘"))


def of_size(size: int, chance: Random) -> Any:
    """Return a value whose JSON has about `size` bytes: exactly, or one or two more or less."""
    letter, within = chance.choice(LETTERS), chance.randrange(3)
    left = max(size + chance.choice((-1, 0, 0, 1, 2, 4, size)) - (2, 4, 8)[within], 0)
    width = len(letter.encode())
    text = letter * (left // width) + "a" * (left % width)
    return (text, [text], {"k": text})[within]


def respelled(value: Any, chance: Random) -> Any:
    """Return an equal value in another form: keys in another order, numbers and lists of other Python types."""
    if type(value) is dict:
        items = list(value.items())
        chance.shuffle(items)
        return {key: respelled(item, chance) for key, item in items}
    if type(value) is list:
        return chance.choice((list, tuple))(respelled(item, chance) for item in value)
    if type(value) is int and abs(value) < LARGEST_FLOAT:
        return chance.choice((value, value, float(value), Decimal(value)))
    if type(value) is float and math.isfinite(value):
        return chance.choice((value, Decimal(repr(value))))
    return value


def plain(value: Any) -> Any:
    """Convert a frozen value to plain Python data."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, tuple) else value
