"""SW208 follows sensitive values into outputs: where types let them through, and the manifest says nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from stepward.validator import ProgramValidator
from stepward.vm import Policy, Program

TEXT = {"type": "string"}
IBAN = {"type": "string", "sensitive": True}
NAMES = {"type": "object", "properties": {"name": TEXT, "ok": {"type": "boolean"}}, "additionalProperties": False}


def found(data: dict[str, Any], *policies: dict[str, Any]) -> list[str]:
    """Return what SW208 says of a program."""
    read = [Policy.from_dict(policy) for policy in policies]
    report = ProgramValidator(Program.from_dict({"name": "flow", **data}), policies=read).validate()
    return [finding.message for finding in report.findings if finding.code == "SW208"]


def lookup(returns: Any, spec: Any = IBAN, reads: str = "$a.output", **facts: Any) -> dict[str, Any]:
    """Return a program that looks something up by a sensitive value, and tells a model what came of it."""
    tool = {"effect": "read", "args": {"x": {}}, **({} if returns is None else {"returns": returns}), **facts}
    return {
        "inputs": {"x": spec},
        "tools": {"look": tool},
        "steps": [
            {"id": "a", "type": "tool", "tool": "look", "args": {"x": "$x"}},
            {"id": "tell", "type": "llm", "prompt": f"It is {reads}"},
        ],
    }


SALARY = {"type": "number", "sensitive": True}
LETS_THROUGH: dict[str, tuple[Any, Any, str]] = {
    "a text": (TEXT, IBAN, "$a.output"),
    "anything": (None, IBAN, "$a.output"),
    "a text of six characters": ({"type": "string", "maxLength": 6}, IBAN, "$a.output"),
    "a text that need not be one": ({"type": ["string", "null"]}, IBAN, "$a.output"),
    "a field": (NAMES, IBAN, "$a.output.name"),
    "an object with a text": (NAMES, IBAN, "$a.output"),
    "an open object": ({"type": "object", "properties": {"ok": {"type": "boolean"}}}, IBAN, "$a.output"),
    "a list of texts": ({"type": "array", "items": TEXT}, IBAN, "$a.output"),
    "a number in a text": (TEXT, SALARY, "$a.output"),
    "a number": ({"type": "number"}, SALARY, "$a.output"),
    "a part of an object": (TEXT, {"type": "object", "properties": {"iban": IBAN}}, "$a.output"),
}
KEEPS_BACK: dict[str, tuple[Any, Any, str]] = {
    "a boolean": ({"type": "boolean"}, IBAN, "$a.output"),
    "an enum": ({"enum": ["genuine", "forged one"]}, IBAN, "$a.output"),
    "a short text": ({"type": "string", "maxLength": 5}, IBAN, "$a.output"),
    "a number for a text": ({"type": "number"}, IBAN, "$a.output"),
    "a small number": ({"type": "integer", "minimum": 100, "maximum": 599}, SALARY, "$a.output"),
    "another field": (NAMES, IBAN, "$a.output.ok"),
    "a closed object": (
        {"type": "object", "properties": {"ok": {"type": "boolean"}}, "additionalProperties": False},
        IBAN,
        "$a.output",
    ),
    "a list of booleans": ({"type": "array", "items": {"type": "boolean"}}, IBAN, "$a.output"),
    "a sensitive boolean": (TEXT, {"type": "boolean", "sensitive": True}, "$a.output"),
    "a sensitive member of an enum": (TEXT, {"enum": ["premium", "default"], "sensitive": True}, "$a.output"),
    "a sensitive text that is short": (TEXT, {"type": "string", "maxLength": 5, "sensitive": True}, "$a.output"),
    "what is not sensitive": (TEXT, TEXT, "$a.output"),
    "why it failed": (TEXT, IBAN, "$x_error"),
}


@pytest.mark.parametrize("name", LETS_THROUGH)
def test_an_output_that_can_hold_it_may_repeat_it(name: str) -> None:
    returns, spec, reads = LETS_THROUGH[name]
    (message,) = found(lookup(returns, spec, reads))
    assert message == f"`{reads}` may repeat what is sensitive, and reaches the prompt of `tell`"
    assert found(lookup(returns, spec, reads, echoes=True)) == [message]
    assert found(lookup(returns, spec, reads, echoes=False)) == []


@pytest.mark.parametrize("name", KEEPS_BACK)
def test_an_output_that_can_not_hold_it_is_left_alone(name: str) -> None:
    returns, spec, reads = KEEPS_BACK[name]
    data = lookup(returns, spec, reads.replace("$x_error", "$a.error"))
    if "error" in reads:  # what a tool says of its failure is redacted
        data["steps"][0] |= {"error_step": "tell", "next_step": "end"}
        data["steps"] += [{"id": "end", "type": "end"}]
    assert found(data) == []


def test_it_is_followed_through_tools_sets_and_parallel_steps() -> None:
    tools = {"look": {"effect": "read", "args": {"x": {}}, "returns": TEXT}}
    call = lambda name, x: {"id": name, "type": "tool", "tool": "look", "args": {"x": x}}  # noqa: E731 - one line
    steps: list[dict[str, Any]] = [
        call("a", ["x", {"y": "is $x"}]),
        {"id": "s", "type": "set", "set": {"v": "$a.output", "n": "len($x) * 1000", "is": "$x == 'a'"}},
        {"id": "p", "type": "parallel", "parallel_steps": [call("b", "$v"), call("c", "$z")]},
        call("d", "$n"),
        call("e", "$is"),
    ]

    def told(reads: str) -> bool:
        ask = {"id": "tell", "type": "llm", "prompt": f"It is {reads}"}
        data = {"inputs": {"x": IBAN, "z": TEXT}, "tools": tools, "steps": [*steps, ask]}
        return bool(found(data))

    ways = ("$a.output", "$v", "$b.output", "$p.output.b", "$p.output", "$d.output", "$n", "$is")
    assert {way: told(way) for way in ways} == dict.fromkeys(ways, True)
    assert not any(map(told, ("$c.output", "$p.output.c", "$e.output", "$z")))


def test_a_certain_value_is_reported_before_a_possible_one() -> None:
    data = lookup({"type": "string", "sensitive": True})
    assert found(data) == ["`$a.output` is sensitive and reaches the prompt of `tell`"]


@pytest.mark.parametrize("claims", [None, True, False])
@pytest.mark.parametrize("knows", [None, True, False])
def test_the_worse_word_counts(claims: bool | None, knows: bool | None) -> None:
    data = lookup(TEXT, **({} if claims is None else {"echoes": claims}))
    facts = {} if knows is None else {"echoes": knows}
    said = [word for word in (claims, knows) if word is not None]
    is_found = bool(found(data, {"policy": "desk", "tools": {"look": facts}}))
    assert is_found is (any(said) or not said)


def test_a_policy_that_knows_better_says_so() -> None:
    data = {**lookup(TEXT, echoes=False), "name": "flow"}
    policy = Policy.from_dict({"policy": "desk", "tools": {"look": {"echoes": True}}})
    report = ProgramValidator(Program.from_dict(data), policies=[policy]).validate()
    assert {"SW208", "SW409"} <= {finding.code for finding in report.findings}


CUSTOMER = {"type": "object", "properties": {"iban": IBAN, "name": TEXT, "plan": TEXT}, "additionalProperties": False}


@pytest.mark.parametrize(
    ("copies", "shows"),
    [
        ({"about": "$x"}, "$about"),
        ({"note": "$x", "about": "$note"}, "$about"),
        ({}, "$x"),
    ],
)
def test_the_fields_that_may_be_shown_are_named_also_of_a_copy(copies: dict[str, str], shows: str) -> None:
    steps: list[dict[str, Any]] = [
        {"id": f"copy_{name}", "type": "set", "set": {name: of}} for name, of in copies.items()
    ]
    steps.append({"id": "tell", "type": "llm", "prompt": f"Write to {shows}"})
    program = Program.from_dict({"name": "flow", "inputs": {"x": CUSTOMER}, "steps": steps})
    (finding,) = (one for one in ProgramValidator(program).validate().findings if one.code == "SW208")
    assert finding.help.startswith("name the fields that are not sensitive: `$x.name` and `$x.plan`; or remove it")


def test_of_a_copy_that_two_steps_make_no_field_is_named() -> None:
    data = {
        "inputs": {"x": CUSTOMER, "y": CUSTOMER, "first": {"type": "boolean"}},
        "steps": [
            {"id": "which", "type": "condition", "condition": "$first", "then": "one", "otherwise": "two"},
            {"id": "one", "type": "set", "set": {"about": "$x"}, "next_step": "tell"},
            {"id": "two", "type": "set", "set": {"about": "$y"}, "next_step": "tell"},
            {"id": "tell", "type": "llm", "prompt": "Write to $about"},
        ],
    }
    report = ProgramValidator(Program.from_dict({"name": "flow", **data})).validate()
    (finding,) = (one for one in report.findings if one.code == "SW208")
    assert finding.help.startswith("remove it from the prompt")
