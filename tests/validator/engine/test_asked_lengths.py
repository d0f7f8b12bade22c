"""Lists of which a condition has asked for the length before a for_each step goes through them."""

from __future__ import annotations

from itertools import product
from typing import Any, Final

import pytest

from comparing import checked_with_dead, compare
from stepward.validator import Verdict
from stepward.validator.findings import Property

LIST: Final[dict[str, Any]] = {"type": "array", "maxItems": 2, "items": {"enum": [0, 1]}}

ASKED: Final = {
    "len($xs) > 0": True,
    "len($xs) >= 1": True,
    "0 < len($xs)": True,
    "len($xs) != 0": True,
    "len($xs) == 2": True,
    "not (len($xs) == 0)": True,
    "not not ($flag and len($xs) > 0)": True,
    "len($xs) > 0 and $flag": True,
    "len($xs) > 1 or len($xs) == 1": True,
    "$flag or len($xs) > 0": False,
    "len($xs) >= 0": False,
    "len($xs) < 2": False,
    "$flag and len($xs) < 2": False,
    "not (len($xs) > 0 and $flag)": False,
    "len($ys) > 0": False,
}
"""Conditions, and whether those that hold rule out an empty list."""

BETWEEN: Final[dict[str, list[dict[str, Any]]]] = {
    "nothing": [],
    "another variable": [{"id": "between", "type": "set", "set": {"z": 1}}],
    "another list": [{"id": "between", "type": "set", "set": {"xs": "$ys"}}],
}


def program(asked: str, kind: str, between: str, is_there: bool) -> dict[str, Any]:
    """Return a program that pays for each item of a list of which it asks for the length, and then closes.

    The list is an `input`, or the `output` of a tool. Without `is_there` the condition's other branch goes there, too.
    """
    done = "each" if not is_there else "nothing"
    branches = {"then": "first", "otherwise": done}
    ask = {"id": "ask", "type": "condition", **branches, "condition": asked}
    get = {"id": "get", "type": "tool", "tool": "get", "output_key": "xs"}
    steps: list[dict[str, Any]] = [*([get] if kind == "output" else []), ask]
    first = {"id": "first", "type": "set", "set": {"w": 1}, "next_step": "between" if BETWEEN[between] else "each"}
    steps += [first, *({**one, "next_step": "each"} for one in BETWEEN[between])]
    pay = {"id": "pay", "type": "tool", "tool": "pay"}
    steps += [
        {
            "id": "each",
            "type": "for_each",
            "items": "$xs",
            "max_items": 2,
            "as": "x",
            "steps": [pay],
            "next_step": "close",
        },
        {"id": "close", "type": "tool", "tool": "close", "is_terminal": True},
        {"id": "nothing", "type": "end"},
    ]
    inputs: dict[str, Any] = {"ys": LIST, "flag": {"type": "boolean"}} | ({"xs": LIST} if kind == "input" else {})
    write = {"effect": "write", "idempotent": True}
    rule = {"name": "paid", "requires": {"step": "pay"}, "protects": {"tool": "close"}}
    return {
        "name": "small",
        "language": 2,
        "inputs": inputs,
        "tools": {"get": {"effect": "read", "returns": LIST}, "pay": write, "close": write},
        "guardrails": [rule],
        "steps": steps,
    }


CASES: Final = [
    *product(ASKED, ["input", "output"], ["nothing", "another variable"], [True]),
    *product(["len($xs) > 0"], ["output"], ["another list"], [True]),
    *product(["len($xs) > 0"], ["input", "output"], ["nothing"], [False]),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: ", ".join(map(str, case)))
def test_a_step_goes_through_as_many_items_as_conditions_asked_for(case: tuple[str, str, str, bool]) -> None:
    asked, _, between, is_there = case
    data = program(*case)
    report, dead = checked_with_dead(data)
    wrong = compare(data, lambda _: report, is_rechecked=True, dead=dead).wrong
    assert [text for text in wrong if "not legal" not in text] == []
    verdict = Verdict.PROVED if ASKED[asked] and is_there and between != "another list" else Verdict.VIOLATED
    (found,) = _named(report.properties, "paid")
    assert found.verdict is verdict


def _named(properties: tuple[Property, ...], rule: str) -> list[Property]:
    return [one for one in properties if one.rule == rule]
