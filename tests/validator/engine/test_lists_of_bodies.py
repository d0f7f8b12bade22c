"""Lists that a branch, items or a `set` hand on: their items have the fields that the first type requires, and no more.

Each list comes to a for_each step on each of several ways. What the type says is not reported as missing; what it does
not say still is.
"""

from __future__ import annotations

from typing import Any

import pytest

from stepward.validator import ProgramValidator
from stepward.vm import Program

Data = dict[str, Any]

TAGS = {"type": "array", "minItems": 1, "maxItems": 3, "items": {"type": "string"}}
ROW = {
    "type": "object",
    "properties": {"id": {"type": "string"}, "amount": {"type": "number"}, "note": {"type": "string"}, "tags": TAGS},
    "required": ["id", "amount", "tags"],
}
ROWS = {"type": "array", "maxItems": 9, "items": ROW}
HOLDER = {"type": "object", "properties": {"rows": ROWS}, "required": ["rows"]}
LOAD = {"id": "load", "type": "tool", "tool": "load"}
HOLD = {"id": "hold", "type": "tool", "tool": "hold"}


def _branches(call: Data, output: Any) -> Data:
    given = {"steps": [call, {"id": "e", "type": "end", "output": output}]}
    return {
        "id": "both",
        "type": "parallel",
        "branches": {"given": given, "other": {"steps": [{"id": "o", "type": "end"}]}},
    }


def _each(items: str, name: str, body: list[Data], **more: Any) -> Data:
    return {"id": f"each_{name}", "type": "for_each", "items": items, "as": name, "max_items": 9, "steps": body, **more}


def _set(name: str, value: Any) -> Data:
    return {"id": f"set_{name}", "type": "set", "set": {name: value}}


WAYS: dict[str, tuple[list[Data], str]] = {
    "a call": ([LOAD], "$load.output"),
    "a branch": ([_branches(LOAD, "$load.output")], "$given.output"),
    "branches together": ([_branches(LOAD, "$load.output")], "$both.output.given"),
    "a field of a branch": ([_branches(LOAD, {"rows": "$load.output"})], "$given.output.rows"),
    "a field behind a branch": ([_branches(HOLD, "$hold.output")], "$given.output.rows"),
    "a copy": ([LOAD, _set("rows", "$load.output")], "$rows"),
    "a copy behind a branch": ([_branches(LOAD, "$load.output"), _set("rows", "$given.output")], "$rows"),
    "items": (
        [LOAD, _each("$load.output", "j", [{"id": "e", "type": "end", "output": "$j"}])],
        "$each_j.output",
    ),
    "carried on": (
        [
            LOAD,
            _each("$load.output", "j", [_set("rows", "$load.output")], carry={"rows": "$load.output"}),
        ],
        "$rows",
    ),
}


def _pay(value: str) -> list[Data]:
    return [{"id": "pay", "type": "tool", "tool": "pay", "args": {"v": value}}]


def _asked(condition: str) -> list[Data]:
    asked = {"id": "asked", "type": "condition", "condition": condition, "then": "pay", "otherwise": "no"}
    return [asked, *_pay("$i.id"), {"id": "no", "type": "end"}]


BODIES: dict[str, list[Data]] = {
    "an argument": _pay("$i.amount"),
    "a condition": _asked("$i.amount > 10"),
    "a text": _asked("lower($i.id) == 'a'"),
    "a list in an item": [_each("$i.tags", "t", _pay("$t"))],
}


def codes(way: str, body: list[Data], rows: Data = ROWS) -> list[str]:
    """Return the findings on a program that goes through a list which comes on a way."""
    begun, items = WAYS[way]
    holder = {**HOLDER, "properties": {"rows": rows}}
    data = {
        "language": 2,
        "name": "lists",
        "inputs": {},
        "tools": {
            "load": {"effect": "read", "returns": rows},
            "hold": {"effect": "read", "returns": holder},
            "pay": {"effect": "write", "idempotent": True},
        },
        "steps": [*begun, _each(items, "i", body), {"id": "done", "type": "end"}],
    }
    return [one.code for one in ProgramValidator(Program.from_dict(data)).validate().findings if one.code != "SW212"]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("body", BODIES)
def test_what_the_type_of_a_list_says_is_known_behind_it(body: str, way: str) -> None:
    if (body, way) != ("a list in an item", "items"):  # how long such a list is, is not known yet
        assert codes(way, BODIES[body]) == []


@pytest.mark.parametrize("way", WAYS)
def test_what_the_type_of_a_list_does_not_say_is_reported(way: str) -> None:
    assert "SW202" in codes(way, _pay("$i.note"))
    assert "SW113" in codes(way, _pay("$i.id"), {**ROWS, "maxItems": 10})
