"""Lists that a branch, items or a `set` hand on: their items have the fields that the first type requires, and no more.

Each list comes to a for_each step on each of several ways. What the type says is not reported as missing; what it does
not say still is.
"""

from __future__ import annotations

from typing import Any

import pytest

from stepward.validator import ProgramValidator, Verdict
from stepward.validator.findings import Property
from stepward.vm import Program

Data = dict[str, Any]
PROVED = Verdict.PROVED

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


LIMITED: Data = {
    "type": "array",
    "minItems": 1,
    "maxItems": 9,
    "items": {
        "type": "object",
        "properties": {
            "id": {"type": "string", "maxLength": 3},
            "amount": {"type": "number", "minimum": 1},
            "tags": {**TAGS, "items": {"type": "integer", "maximum": 5}},
        },
        "required": ["id", "amount", "tags"],
    },
}
WIDER: Data = {**LIMITED, "items": {**LIMITED["items"], "properties": {**LIMITED["items"]["properties"]}}}
WIDER["items"]["properties"]["amount"] = {"type": "number", "minimum": 0}
LOAD_MORE = {"id": "more", "type": "tool", "tool": "wide", "output_key": "rows", "on_error": "skip"}
AGAIN = {**LOAD_MORE, "id": "again", "tool": "load"}
FIRST = {**LOAD, "output_key": "rows"}
MORE_WAYS: dict[str, tuple[list[Data], str]] = {
    "one of two calls": ([FIRST, AGAIN], "$rows"),
    "a copy of one of two calls": ([FIRST, AGAIN, _set("l", "$rows")], "$l"),
    "one of two calls of other types": ([FIRST, LOAD_MORE], "$rows"),
    "a list that is built": ([LOAD, _set("l", ["$load.output[0]", {"id": "a", "amount": 2, "tags": [1]}])], "$l"),
    "a list that is built with less": (
        [LOAD, _set("l", ["$load.output[0]", {"id": "a", "amount": 0, "tags": [1]}])],
        "$l",
    ),
    "a copy of itself": ([LOAD, _set("l", "$load.output"), _set("k", "$l"), {**_set("l", "$k"), "id": "back"}], "$l"),
}
QUESTIONS: dict[str, tuple[list[Data], str, bool]] = {
    "a least number": (_pay("$i.id"), "$i.amount < 1", True),
    "a greater number": (_pay("$i.id"), "$i.amount < 2", False),
    "a longer text": (_pay("$i.id"), "len($i.id) > 3", True),
    "a long text": (_pay("$i.id"), "len($i.id) > 2", False),
    "no item": (_pay("$i.id"), "len($i.tags) < 1", True),
    "a fourth item": (_pay("$i.id"), "len($i.tags) > 3", True),
    "a third item": (_pay("$i.id"), "len($i.tags) > 2", False),
    "a greater item of an item": ([_each("$i.tags", "t", _pay("$i.id"))], "$t > 5", True),
    "a great item of an item": ([_each("$i.tags", "t", _pay("$i.id"))], "$t > 4", False),
}
"""Rules that forbid to pay where a condition holds: whether the type of the list says that it never does."""

LESS = {("a least number", way) for way in ("one of two calls of other types", "a list that is built with less")}
"""Questions that have another answer there."""

OPEN = ("a list that is built", "a list that is built with less", "a copy of itself")
"""Ways on which a rule that holds may be left open."""


def limited(way: str, body: list[Data], rule: Data, least: int = 1) -> Property:
    """Return what is said of a rule about the items of a list with limits."""
    begun, items = (WAYS | MORE_WAYS)[way]
    rows = {**LIMITED, "minItems": least}
    read = {"effect": "read"}
    holder = {**HOLDER, "properties": {"rows": rows}}
    tools = {"load": {**read, "returns": rows}, "wide": {**read, "returns": WIDER}, "hold": {**read, "returns": holder}}
    data = {
        "language": 2,
        "name": "lists",
        "inputs": {},
        "tools": {**tools, "pay": {"effect": "write", "idempotent": True}, "done": read},
        "guardrails": [{"name": "r", **rule}],
        "steps": [*begun, _each(items, "i", body), {"id": "done", "type": "tool", "tool": "done"}],
    }
    found = ProgramValidator(Program.from_dict(data)).validate()
    assert not [one for one in found.findings if one.code.startswith("SW90")]
    return next(one for one in found.properties if one.rule == "r")


@pytest.mark.one_in(8)
@pytest.mark.parametrize("asked", QUESTIONS)
@pytest.mark.parametrize("way", [*WAYS, *MORE_WAYS])
def test_the_limits_of_items_are_known_behind_a_list(asked: str, way: str) -> None:
    """The second checker knows them, too; what `for_each` steps give is of no type yet."""
    body, condition, is_kept = QUESTIONS[asked]
    found = limited(way, body, {"never": {"tool": "pay"}, "when": condition})
    is_kept = is_kept and way != "items" and (asked, way) not in LESS
    assert found.rechecked is (found.verdict is PROVED)
    assert found.rechecked is is_kept or (way in OPEN and not found.rechecked)


@pytest.mark.parametrize("least", [0, 1])
@pytest.mark.parametrize("way", [*WAYS, *MORE_WAYS])
def test_a_list_with_an_item_is_known_to_have_one(way: str, least: int) -> None:
    found = limited(way, _pay("$i.id"), {"protects": {"tool": "done"}, "requires": {"tool": "pay"}}, least)
    is_kept = least > 0 and way not in ("a list that is built", "a list that is built with less")
    assert (found.verdict is PROVED, found.rechecked) == (is_kept, is_kept)
