"""Fast: what `+` joins in language 2, and the findings and helps about what it can't join."""

from __future__ import annotations

from typing import Any

import pytest

from stepward.validator import ProgramValidator
from stepward.validator.findings import Finding
from stepward.vm import Program


def program(*steps: dict[str, Any], **fields: Any) -> dict[str, Any]:
    inputs = {"x": {"type": "boolean"}, "n": {"type": "integer"}}
    return {"name": "p", "inputs": inputs, "tools": {"load": {"effect": "read"}}, **fields, "steps": list(steps)}


def check(data: dict[str, Any]) -> tuple[Finding, ...]:
    """Return the findings, without the warning that a program has no use for all inputs and tools of `program`."""
    found = ProgramValidator(Program.from_dict(data)).validate().findings
    return tuple(one for one in found if one.code != "SW212")


@pytest.mark.parametrize(
    ("expression", "joins"),
    [("$t + 'x'", True), ("'x' + $t + '!'", True), ("$t + $t", True), ("$t + 1", False), ("$n + '1'", False)],
)
def test_a_plus_that_joins_texts_gets_one_finding(expression: str, joins: bool) -> None:
    data = program({"id": "s", "type": "set", "set": {"b": expression}}, {"id": "a", "type": "llm", "prompt": "$b"})
    data["inputs"] = {"t": {"type": "string"}, "n": {"type": "integer"}}
    found = [one for one in check(data) if one.code == "SW203"]
    assert len(found) == 1
    assert found[0].message.startswith("`+` adds numbers and joins no texts") is joins
    assert (found[0].help == "add `language: 2` to the program, where `+` joins texts") is joins
    data["language"] = 2
    assert [one.code for one in check(data)] == ([] if joins else ["SW203"])
    data["language"] = 1
    assert check(data)[0].help.startswith("write `language: 2` instead of `language: 1`") is joins


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        (
            "$t + $n",
            "write the number beside the text in the prompt or argument that needs it, or declare both as texts",
        ),
        ("$l + 'x'", "put the item into an array where it comes from: `'x'` is no array"),
        ("$t + $m", "declare `$m` with one type where it comes from"),
        ("$t + $u", "declare `$u` with one type where it comes from"),
        ("join($l + $k, '')", "declare the items of `$k` as {type: string}"),
        ("$l + [1] contains 'a'", "compare values of one type"),
    ],
)
def test_what_plus_can_not_join(expression: str, said: str) -> None:
    data = program({"id": "s", "type": "set", "set": {"b": expression}}, {"id": "a", "type": "llm", "prompt": "$b"})
    listed = {"type": "array", "items": {"type": "string"}}
    data["inputs"] = {"t": {"type": "string"}, "n": {"type": "integer"}, "m": {"type": ["string", "number"]}}
    data |= {"language": 2, "inputs": {**data["inputs"], "l": listed, "k": {}, "u": {"enum": ["a", 1]}}}
    assert [(one.code, one.help) for one in check(data) if one.severity == "error"] == [("SW203", said)]


def test_items_of_joined_arrays_need_a_type_before_they_are_compared() -> None:
    steps = [{"id": "s", "type": "set", "set": {"b": "$l + $k"}}, {"id": "r", "type": "set", "set": {"c": "'a' in $b"}}]
    data = program(*steps, {"id": "a", "type": "llm", "prompt": "$c"})
    listed = {"type": "array", "items": {"type": "string"}}
    data |= {"language": 2, "inputs": {"l": listed, "k": {"type": "array"}}}
    found = [one for one in check(data) if one.severity == "error"]
    assert [one.message for one in found] == ["nothing says of what type the items of `$b` are"]
    data["inputs"]["k"] = listed
    assert not [one for one in check(data) if one.severity == "error"]
