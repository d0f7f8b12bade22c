"""Fast: what nothing reads (SW212), in each place where a name is declared, and in each where it is read (table)."""

from __future__ import annotations

from typing import Any

import pytest

from stepward.validator import ProgramValidator
from stepward.vm import Program

Data = dict[str, Any]
Steps = list[Data]
TEXT = {"type": "string"}
LOOK = {"effect": "read", "args": {"x": {}}}
END: Data = {"id": "e", "type": "end"}


def call(name: str, program: str, **args: Any) -> Data:
    return {"id": name, "type": "call", "program": program, "args": args}


def look(name: str, value: Any, **more: Any) -> Data:
    return {"id": name, "type": "tool", "tool": "look", "args": {"x": value}, **more}


def each(*steps: Data, **more: Any) -> Data:
    return {"id": "each", "type": "for_each", "items": [1], "as": "i", "max_items": 2, "steps": list(steps), **more}


def branches(*steps: Data, **more: Any) -> Data:
    return {"id": "both", "type": "parallel", "branches": {"a": {"steps": list(steps)}}, **more}


def said(steps: Steps, programs: Data | None = None, **more: Any) -> list[str]:
    """Return what SW212 says of a program, in which something behind its steps reads its input and calls its tool."""
    last = look("last", "$own", next_step="stop")
    data = {"name": "p", "language": 2, "inputs": {"own": TEXT}, "tools": {"look": LOOK}, **more}
    whole = data | {"programs": programs or {}, "steps": [*steps, last, {"id": "stop", "type": "end", "output": 1}]}
    report = ProgramValidator(Program.from_dict(whole), recheck=False).validate()
    return [one.message for one in report.findings if one.code == "SW212"]


SUB = {"inputs": {"given": TEXT}, "tools": {"look": LOOK}, "steps": [look("l", 1)]}
DEFAULT = {**SUB, "inputs": {"given": {**TEXT, "default": "x"}}}
UNREAD: dict[str, tuple[str, Steps, Data]] = {
    "an input that gets a constant": ("the input `given`", [call("c", "sub", given="x")], {"sub": SUB}),
    "an input that gets a value": ("the input `given`", [call("c", "sub", given="$own")], {"sub": SUB}),
    "an input with a default": ("the input `given`", [call("c", "sub")], {"sub": DEFAULT}),
    "an input of a program that is called twice": (
        "the input `given`",
        [call("c", "sub", given="x"), call("d", "sub", given="$own")],
        {"sub": SUB},
    ),
    "an input of a program that is called in items": ("the input `given`", [each(call("c", "sub"))], {"sub": DEFAULT}),
    "an input of a program that is called in a branch": (
        "the input `given`",
        [branches(call("c", "sub"))],
        {"sub": DEFAULT},
    ),
    "an input of a program in a program": (
        "the input `given`",
        [call("c", "outer")],
        {"outer": {"programs": {"sub": DEFAULT}, "steps": [call("d", "sub")]}},
    ),
    "a tool of a called program": (
        "the tool `pay`",
        [call("c", "sub")],
        {"sub": {"tools": {"look": LOOK, "pay": LOOK}, "steps": [look("l", 1)]}},
    ),
    "the output of a call": ("`key`", [call("c", "sub") | {"output_key": "key"}], {"sub": {"steps": [END]}}),
    "the output of a for_each step": ("`key`", [each(END, output_key="key")], {}),
    "the output of branches": ("`key`", [branches(END, output_key="key")], {}),
    "the output of a parallel step": (
        "`key`",
        [{"id": "p", "type": "parallel", "parallel_steps": [look("l", 1)], "output_key": "key"}],
        {},
    ),
    "the output of a computation": ("`key`", [{"id": "m", "type": "compute", "lisp": "1", "output_key": "key"}], {}),
    "the output of a step of a body": ("`key`", [each(look("l", 1, output_key="key"), END | {"output": 1})], {}),
    "a variable of a body": (
        "`key`",
        [each({"id": "s", "type": "set", "set": {"key": "$i"}}, END | {"output": 1})],
        {},
    ),
}


@pytest.mark.parametrize("name", UNREAD)
def test_what_nothing_reads_is_reported_once(name: str) -> None:
    what, steps, programs = UNREAD[name]
    (message,) = said(steps, programs)
    assert message.endswith(what)


def test_an_item_and_its_number_may_be_unread() -> None:
    assert said([each(END, index_as="key")]) == []


def rule(**more: Any) -> Steps:
    return [{"name": "r", **more}]


READ: dict[str, Data] = {
    "an argument": {"steps": [look("l", "$it")]},
    "a part of an argument": {"steps": [look("l", {"k": ["a $it"]})]},
    "a condition": {"steps": [{"id": "c", "type": "condition", "condition": "$it == 'a'", "then": "e"}, END]},
    "a list": {"steps": [each(END, items=["$it"])]},
    "a carried value": {"steps": [each(END, carry={"_v": "$it"})]},
    "an output": {"steps": [END | {"output": {"k": "$it"}}]},
    "another program": {"steps": [call("d", "echo", t="$it")]},
    "a body": {"steps": [each(branches(look("l", "$it")))]},
    "a condition of a rule": {
        "steps": [look("l", 1)],
        "guardrails": rule(never={"step": "l"}, when="$it == 'a'"),
    },
    "a condition of a rule of a body": {
        "steps": [each(look("l", 1), guardrails=rule(never={"step": "l"}, when="$it == 'a'"))],
    },
}


@pytest.mark.parametrize("name", READ)
@pytest.mark.parametrize("is_called", [False, True])
def test_what_something_reads_is_not_reported(name: str, is_called: bool) -> None:
    echo = {"inputs": {"t": TEXT}, "steps": [END | {"output": "$t"}]}
    programs = {"echo": echo} if name == "another program" else {}
    steps, rules = [look("first", 1), *READ[name]["steps"]], READ[name].get("guardrails", [])
    if is_called:
        body = {"inputs": {"it": TEXT}, "tools": {"look": LOOK}, "programs": programs}
        assert said([call("c", "sub", it="$own")], {"sub": {**body, "guardrails": rules, "steps": steps}}) == []
    else:
        assert said(steps, programs, inputs={"own": TEXT, "it": TEXT}, guardrails=rules) == []


@pytest.mark.parametrize("place", ["program", "body", "called"])
def test_a_tool_of_which_a_rule_speaks_is_not_reported(place: str) -> None:
    tools = {"look": LOOK, "pay": LOOK}
    rules = rule(never={"tool": "pay"})
    sub = {"tools": tools, "guardrails": rules, "steps": [look("l", 1)]}
    if place == "called":
        assert said([call("c", "sub")], {"sub": sub}, tools=tools) == []
    elif place == "body":
        assert said([each(END, guardrails=rules)], tools=tools) == []
    else:
        assert said([], tools=tools, guardrails=rules) == []


def test_a_misspelt_or_quoted_name_of_a_called_program_is_reported_once() -> None:
    """Other findings speak of it."""
    for text in ("$givn == 'x'", "'$given' == 'x'"):
        ask = {"id": "q", "type": "condition", "condition": text, "then": "e"}
        assert said([call("c", "sub", given="x")], {"sub": {"inputs": {"given": TEXT}, "steps": [ask, END]}}) == []
