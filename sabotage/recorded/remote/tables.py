"""Tables of MCP servers: pins with each part changed, results of each mix of contents, and numbers that are sent."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from itertools import product
from typing import Any, Final

from stepward.sabotage.recorded.shared.context import thing
from stepward.sabotage.recorded.tabling import Table, outcome
from stepward.vm.language.types import TypeSpec
from stepward.vm.remote.pins import Listed, Pin, Pins, _read
from stepward.vm.remote.results import MAX_SAID, json_argument, output_of, printable, text_of

_DESCRIPTIONS: Final = (None, "", "a", "b")
_SCHEMAS: Final[tuple[dict[str, Any], ...]] = ({}, {"a": 1, "b": 2}, {"b": 2, "a": 1}, {"a": 1, "b": [1, 2]})
_OUTPUTS: Final[tuple[Any, ...]] = (None, {}, {"type": "string"})


def _show_pin(description: Any, schema: int, output: int) -> Any:
    tool = Listed("t", description, _SCHEMAS[schema], _OUTPUTS[output], {})
    pin = Pin.of(tool)
    others = product(_DESCRIPTIONS[:2], (0, 1, 2), (0, 1))
    known = [Pin.of(Listed("t", one, _SCHEMAS[two], _OUTPUTS[three], {"x": 1})) for one, two, three in others]
    return pin, [pin.changes(one) for one in known], Pins.of([tool, tool._replace(name="s")]).text()


def _show_file(version: Any, tools: Any, more: Any) -> Any:
    return outcome(lambda: _read({"version": version, "tools": tools, **more}))


def _files() -> Iterator[tuple[Any, ...]]:
    pin = {"description": "d", "input_schema": "i", "output_schema": "o"}
    odd = [{**pin, field: value} for field, value in product(pin, (None, 0, "", ["x"]))]
    less = [{name: value for name, value in pin.items() if name != field} for field in pin]
    tools: tuple[Any, ...] = (
        {},
        {"a": pin},
        *({"a": pin, "b": one} for one in (*odd, *less, {**pin, "z": "z"}, {})),
        [],
        None,
    )
    yield from product((1, 0, 2, "1", None, True), tools, ({},))
    yield from product((1,), tools[:3], ({"z": 1},))


_PARTS: Final = (
    *(("text", ""), ("text", "a"), ("text", "7"), ("text", "0.50"), ("text", '"x"'), ("text", "null")),
    *(("text", "{}"), ("text", "NaN"), ("text", "[1"), ("image", ""), ("resource", "x")),
)
_TYPES: Final[tuple[Any, ...]] = (None, {}, {"type": "string"}, {"type": ["integer", "string"]}, {"type": "number"})
_STRUCTURED: Final[tuple[Any, ...]] = (None, {}, [], 0, "", False, {"a": 1})


def _show_result(parts: Any, structured: int, is_error: Any) -> Any:
    content = [thing(type=_PARTS[at][0], text=_PARTS[at][1]) for at in parts]
    answer = thing(content=content, structured_content=_STRUCTURED[structured], is_error=is_error)
    specs = [None if one is None else TypeSpec.model_validate(one) for one in _TYPES]
    found = [outcome(lambda spec=spec: output_of(answer, spec)) for spec in specs]  # type: ignore[misc]
    return found, outcome(lambda: text_of(answer, None)), text_of(answer, "-"), text_of(answer, "")


def _results() -> Iterator[tuple[Any, ...]]:
    alone = [(), *((at,) for at in range(len(_PARTS)))]
    yield from product(alone, range(len(_STRUCTURED)), (False, True))
    yield from product(product((0, 1, 2, 9), repeat=2), (0, 1), (False, True))
    yield from product(product((0, 1, 9), repeat=3), (0,), (False, True))


_NUMBERS: Final[tuple[Any, ...]] = (
    *(
        0,
        -1,
        2**53,
        True,
        None,
        "",
        0.5,
        Decimal(0),
        Decimal("-0.0"),
        Decimal("0.10"),
        Decimal("-2.50"),
        Decimal("2.0"),
    ),
    *(Decimal(2**53 - 1), Decimal(2**53), Decimal(2**53 + 1), Decimal(-(2**53)), Decimal(1 - 2**53)),
    *(
        Decimal("0.12345678901234567890"),
        Decimal("1E+3"),
        Decimal("1E-7"),
        Decimal("1e400"),
        Decimal("9007199254740992.5"),
    ),
)


def _show_sent(at: int, how: str) -> Any:
    value = _NUMBERS[at]
    argument = json_argument({"plain": value, "list": [value], "tuple": (1, value), "object": {"a": {"b": value}}}[how])
    return argument, type(argument).__name__


def _show_said(before: int, sign: str) -> Any:
    text = printable("x" * (MAX_SAID + before) + sign)
    return len(text), text[-4:], printable(f"{sign}a{sign}")


TABLES: Final = (
    Table("pins", lambda: product(_DESCRIPTIONS, range(len(_SCHEMAS)), range(len(_OUTPUTS))), _show_pin),
    Table("files of pins", _files, _show_file),
    Table("results", _results, _show_result),
    Table("sent", lambda: product(range(len(_NUMBERS)), ("plain", "list", "tuple", "object")), _show_sent),
    Table("said", lambda: product((-2, -1, 0, 1), ("", "y", "\n", "\x1b", "\u00e9", "\t")), _show_said),
)
