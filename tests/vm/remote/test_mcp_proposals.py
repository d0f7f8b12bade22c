"""What is proposed for a tool from its schemas, and files of pins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from stepward.vm.language.manifest import ToolSpec
from stepward.vm.language.types import fits
from stepward.vm.remote.pins import Listed, Pins, PinsRefused
from stepward.vm.remote.proposal import proposed, remarks, type_of

STRING = {"type": "string"}


def listed(schema: Any, output: Any = None, **hints: Any) -> Listed:
    return Listed("t", "Does it.", schema, output, hints)


def test_no_hint_and_no_word_changes_what_a_tool_may_do() -> None:
    for hints in ({}, {"readOnlyHint": True}, {"idempotentHint": True, "destructiveHint": False}):
        data = proposed(listed({"type": "object"}, **hints))
        assert data == {"effect": "write", "idempotent": False, "args": {}}


TYPES: list[tuple[Any, dict[str, Any]]] = [
    ({"type": "integer", "minimum": 1, "title": "T", "description": "D"}, {"type": "integer", "minimum": 1}),
    ({"type": ["string", "null"], "enum": ["a", None]}, {"type": ["string", "null"], "enum": ["a", None]}),
    ({"const": "a"}, {"enum": ["a"]}),
    ({"anyOf": [STRING, {"type": "null"}], "default": None}, {"type": ["string", "null"], "default": None}),
    ({"anyOf": [STRING, {"type": "integer"}]}, {"type": ["string", "integer"]}),
    ({"anyOf": [STRING, {"allOf": []}]}, {}),
    ({"$ref": "#/$defs/a"}, {"type": "string"}),
    ({"$ref": "#/$defs/loop"}, {}),
    ({"$ref": "https://elsewhere.example/schema"}, {}),
    ({"type": "array", "items": {"$ref": "#/$defs/a"}}, {"type": "array", "items": {"type": "string"}}),
    ({"type": "object", "additionalProperties": STRING}, {"type": "object", "additionalProperties": STRING}),
    ({"type": "strange"}, {}),
    (True, {}),
    ({"not": STRING}, {}),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "data"), TYPES)
def test_a_schema_becomes_a_type_that_forbids_no_more(schema: Any, data: dict[str, Any]) -> None:
    root = {"$defs": {"a": STRING, "loop": {"$ref": "#/$defs/loop"}}}
    assert type_of(schema, root) == data
    ToolSpec.model_validate({"returns": data})


@pytest.mark.parametrize(
    "schema", [{"type": "string", "pattern": "(?=a)"}, {"type": "string", "minimum": []}, {"enum": []}]
)
def test_a_type_that_the_language_refuses_is_left_out(schema: dict[str, Any]) -> None:
    data = proposed(listed({"type": "object", "properties": {"a": schema}, "required": ["a"]}, schema))
    assert fits("a text", ToolSpec.model_validate(data).returns)
    assert list(data["args"]) == ["a"]


def test_only_arguments_that_a_call_always_gives_are_proposed_and_the_others_are_named() -> None:
    properties = {"a": STRING, "b": {**STRING, "default": "x"}, "c": STRING, "idempotency_key": STRING}
    tool = listed({"type": "object", "properties": properties, "required": ["a", "idempotency_key"]})
    assert list(proposed(tool)["args"]) == ["a", "b"]
    assert list(remarks(tool)) == [
        "the server says: Does it.",
        "it gets the key of the call as the argument `idempotency_key`",
        "left out, because it is optional and has no default: c",
    ]


# -- pins --------------------------------------------------------------------------------------------------------------


def test_pins_are_read_as_they_were_written(tmp_path: Path) -> None:
    pins = Pins.of([listed({"type": "object"})])
    (tmp_path / "pins.json").write_text(pins.text())
    assert Pins.load(tmp_path / "pins.json") == pins
    assert hash(Pins.load(tmp_path / "pins.json")) == hash(pins)


def test_the_order_of_keys_in_a_schema_changes_no_pin() -> None:
    one, other = listed({"type": "object", "title": "x"}), listed({"title": "x", "type": "object"})
    assert Pins.of([one]) == Pins.of([other])
    assert Pins.of([one]) != Pins.of([listed({"type": "object", "title": "y"})])
    assert Pins.of([listed({"a": True})]) != Pins.of([listed({"a": 1})])


@pytest.mark.parametrize(
    "text",
    [
        "", "1", "[]", "{}", '{"version": 2, "tools": {}}', '{"version": 1, "tools": [], "more": 1}',
        '{"version": 1, "tools": {"a": {}}}', '{"version": 1, "tools": {"a": "b"}}', "[" * 100_000, "\x00",
        '{"version": 1, "tools": {"a": {"description": 1, "input_schema": "b", "output_schema": "c"}}}',
        '{"version": 1, "tools": []}',
    ],
)  # fmt: skip
def test_a_file_without_pins_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "pins.json").write_text(text)
    with pytest.raises(PinsRefused, match="is no file of pins"):
        Pins.load(tmp_path / "pins.json")
