"""A violation behind a list has a witness, wherever the list comes from and whatever was asked of it before."""

from __future__ import annotations

from typing import Any

import pytest

from sizes import square_by_day
from stepward.validator import ProgramValidator
from stepward.validator.engine.witnesses import replay
from stepward.vm import Program

ITEM = {
    "type": "object",
    "properties": {"n": {"type": "integer", "minimum": 0}, "id": {"type": "string", "pattern": "^C[0-9]{3}$"}},
    "required": ["n", "id"],
}
"""A field that the conditions ask for, and one that is only passed on: a witness has to give both."""

LIST = {"type": "array", "maxItems": 4, "items": ITEM}
HOLDER = {"type": "object", "properties": {"rows": LIST, "ok": {"type": "boolean"}}, "required": ["rows", "ok"]}
MANY = {"type": "array", "maxItems": 3, "items": HOLDER}
WRITE = {"effect": "write", "idempotent": True}
TOOLS = {
    "list": {"effect": "read", "returns": LIST},
    "holder": {"effect": "read", "returns": HOLDER},
    "many": {"effect": "read", "returns": MANY},
    "flag": {"effect": "read", "returns": {"type": "boolean"}},
    "check": WRITE,
    "note": WRITE,
    "pay": {**WRITE, "args": {"n": {"type": "integer"}, "id": {"type": "string"}}},
}


def call(id: str, tool: str, key: str, then: str = "first") -> dict[str, Any]:
    return {"id": id, "type": "tool", "tool": tool, "output_key": key, "next_step": then, "error_step": "bad"}


def ask(id: str, condition: str, then: str, otherwise: str) -> dict[str, Any]:
    return {"id": id, "type": "condition", "condition": condition, "then": then, "otherwise": otherwise}


def put(id: str, **values: Any) -> dict[str, Any]:
    return {"id": id, "type": "set", "set": values, "next_step": "first"}


def each(items: str, name: str, *steps: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"id": f"each_{name}", "type": "for_each", "items": items, "as": name, "max_items": 4, "steps": steps} | more


FETCH = [
    call("get", "list", "l", "give"),
    {"id": "give", "type": "end", "output": "$l"},
    {"id": "bad", "type": "end", "outcome": "failure"},
]

BY_FLAG = [call("is_a", "flag", "a", "which"), ask("which", "$a", "from_a", "from_b")]

SOURCES: dict[str, tuple[dict[str, Any], list[dict[str, Any]], str]] = {
    "an input": ({"l": LIST}, [], "$l"),
    "a field of an input": ({"o": HOLDER}, [], "$o.rows"),
    "an output": ({}, [call("get", "list", "l")], "$l"),
    "an output by its step": ({}, [call("get", "list", "l")], "$get.output"),
    "a field of an output": ({}, [call("get", "holder", "o")], "$o.rows"),
    "an item of an output": (
        {},
        [call("get", "many", "m", "long"), ask("long", "len($m) > 1", "copy", "bad"), put("copy", l="$m[1].rows")],
        "$l",
    ),
    "a copy of an output": ({}, [call("get", "holder", "o", "copy"), put("copy", l="$o.rows")], "$l"),
    "a copy in an object": ({}, [call("get", "list", "got", "copy"), put("copy", o={"rows": "$got"})], "$o.rows"),
    "one of two outputs": ({}, [*BY_FLAG, call("from_a", "list", "l"), call("from_b", "list", "l")], "$l"),
    "one of two copies": (
        {"o": HOLDER},
        [
            call("is_a", "flag", "a", "get"),
            call("get", "list", "got", "which"),
            BY_FLAG[1],
            put("from_a", l="$got"),
            put("from_b", l="$o.rows"),
        ],
        "$l",
    ),
    "a part of a parallel step": (
        {},
        [
            {
                "id": "both",
                "type": "parallel",
                "parallel_steps": [
                    {"id": "p", "type": "tool", "tool": "list", "output_key": "l"},
                    {"id": "q", "type": "tool", "tool": "flag", "output_key": "f"},
                ],
                "next_step": "first",
                "error_step": "bad",
            }
        ],
        "$l",
    ),
    "a model": (
        {},
        [
            {
                "id": "get",
                "type": "llm",
                "prompt": "list",
                "returns": LIST,
                "output_key": "l",
                "next_step": "first",
                "error_step": "bad",
            }
        ],
        "$l",
    ),
    "a called program": (
        {},
        [
            {
                "id": "get",
                "type": "call",
                "program": "fetch",
                "output_key": "l",
                "next_step": "first",
                "error_step": "bad",
            }
        ],
        "$l",
    ),
}

QUESTIONS = {
    "nothing": "1 == 1",
    "one": "len({l}) > 0",
    "not none": "len({l}) != 0",
    "two": "len({l}) >= 2",
    "three": "len({l}) == 3",
    "few": "len({l}) > 0 and len({l}) < 3",
    "first": "len({l}) > 0 and {l}[0].n == 7",
}

CHECKED = {"id": "check", "type": "tool", "tool": "check", "on_error": "skip", "next_step": "loop"}
RULES: dict[str, tuple[dict[str, Any], bool]] = {
    "SW401": ({"protects": {"tool": "pay"}, "requires": {"tool": "check"}}, False),
    "SW403": ({"never": {"tool": "pay"}, "when": "$args.n > 10"}, False),
    "SW403 of the item": ({"never": {"tool": "pay"}, "when": "$x.n > 10"}, True),
    "SW404": ({"at_most_once": {"tool": "pay"}}, False),
    "SW405": ({"followed_by": {"first": {"tool": "pay"}, "then": {"tool": "note"}}, "ends": "success"}, False),
    "SW405 of the item": (
        {"followed_by": {"first": {"tool": "pay"}, "then": {"tool": "note"}}, "ends": "success"},
        True,
    ),
    "SW406": ({"exclusive": [{"tool": "pay"}, {"step": "last"}]}, False),
}


def program(source: str, question: str, rule: str) -> Program:
    inputs, before, names = SOURCES[source]
    known, is_of_item = RULES[rule]
    body = [
        ask("empty", "$x.n == 0", "none", "pay"),
        {
            "id": "pay",
            "type": "tool",
            "tool": "pay",
            "args": {"n": "$x.n", "id": "$x.id"},
            "next_step": "paid",
            "error_step": "none",
        },
        {"id": "paid", "type": "end"},
        {"id": "none", "type": "tool", "tool": "note", "is_terminal": True},
    ]
    rules = [{"name": "rule", **known}]
    own = {"guardrails": rules} if is_of_item else {}
    loop = {**each(names, "x", *body, **own), "id": "loop", "next_step": "last", "error_step": "bad"}
    return Program.from_dict(
        {
            "name": "t",
            "language": 2,
            "inputs": inputs,
            "tools": TOOLS,
            "programs": {"fetch": {"inputs": {}, "steps": FETCH}} if source == "a called program" else {},
            "guardrails": [] if is_of_item else rules,
            "steps": [
                *before,
                ask("first", QUESTIONS[question].replace("{l}", names), "check", "bad"),
                CHECKED,
                loop,
                {"id": "last", "type": "end"},
                {"id": "bad", "type": "tool", "tool": "note", "is_terminal": True, "outcome": "failure"},
            ],
        }
    )


@pytest.mark.parametrize(("source", "question", "rule"), square_by_day(SOURCES, QUESTIONS, RULES))
def test_a_violation_behind_a_list_has_a_witness(source: str, question: str, rule: str) -> None:
    found = ProgramValidator(program(source, question, rule)).validate().findings
    (finding,) = [one for one in found if one.code.startswith("SW4")]
    assert finding.code == rule[:5]
    assert finding.evidence is not None
    assert finding.evidence.witness is not None
    assert replay.replay(finding.evidence.witness).confirmed
