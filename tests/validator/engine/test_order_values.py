"""What a sub-step passes on of the siblings that it depends on: rules about it are broken by a run, or proved.

Each case is one rule about the call `q`, which comes behind its siblings. The second checker has to accept each proof.
"""

from __future__ import annotations

from typing import Any, Final

import pytest

from stepward.validator import ProgramValidator, Report
from stepward.validator.findings import Property
from stepward.vm import Policy, Program

ORDER: Final = {"type": "object", "required": ["sum"], "properties": {"sum": {"type": "number"}, "note": {}}}
AMOUNTS: Final = {"type": "array", "minItems": 1, "maxItems": 3, "items": {"type": "number"}}
TOOLS: Final[dict[str, Any]] = {
    "look": {"effect": "read", "returns": {"type": "integer"}},
    "few": {"effect": "read", "returns": {"type": "integer", "maximum": 100}},
    "text": {"effect": "read", "returns": {"type": "string"}},
    "kind": {"effect": "read", "returns": {"enum": ["a", "b"]}},
    "flag": {"effect": "read", "returns": {"type": "boolean"}},
    "order": {"effect": "read", "returns": ORDER},
    "cheap": {"effect": "read", "returns": {**ORDER, "properties": {"sum": {"type": "number", "maximum": 100}}}},
    "maybe": {"effect": "read", "returns": {"type": "object", "properties": {"sum": {"type": "number"}}}},
    "amounts": {"effect": "read", "returns": AMOUNTS},
    "low": {"effect": "read", "returns": {**AMOUNTS, "items": {"type": "number", "maximum": 100}}},
    "ask": {"effect": "none", "suspends": True, "returns": {"type": "integer"}},
    "twice": {"effect": "read", "args": {"x": {"type": "number"}}, "returns": {"type": "number"}},
    "pay": {"effect": "write", "idempotent": True, "args": {"amount": {}}},
    "pay_some": {"effect": "write", "idempotent": True, "args": {"amount": {"type": "number", "maximum": 500}}},
}
MUCH: Final = "$args.amount > 100"
Step = dict[str, Any]


def call(name: str, tool: str, *needs: str, **more: Any) -> Step:
    return {"id": name, "type": "tool", "tool": tool, **({"depends_on": list(needs)} if needs else {}), **more}


def pays(value: Any, *needs: str, tool: str = "pay") -> Step:
    return call("q", tool, *(needs or ("l",)), args={"amount": value})


def beside(*parts: Step, **more: Any) -> list[Step]:
    return [{"id": "b", "type": "parallel", "parallel_steps": list(parts), **more}]


def item_of(steps: list[Step], **more: Any) -> list[Step]:
    return [{"id": "each", "type": "for_each", "items": "$xs", "as": "x", "steps": steps, **more}]


INPUTS: Final = {
    "n": {"type": "integer"},
    "live": {"type": "boolean"},
    "xs": {"type": "array", "maxItems": 3, "items": {"type": "number"}},
}
TEST: Final = {"id": "c", "type": "condition", "condition": "$live", "then": "b", "otherwise": "z"}
END: Final = {"id": "z", "type": "end"}
LATE: Final = {"timeout_seconds": 1, "on_timeout": "fallback"}

BROKEN: Final[dict[str, tuple[list[Step], str]]] = {
    "a number": (beside(call("l", "look"), pays("$l.output")), MUCH),
    "a number that is equal": (beside(call("l", "look"), pays("$l.output")), "$args.amount == 77"),
    "a number, the call first in the list": (beside(pays("$l.output"), call("l", "look")), MUCH),
    "a number that the tool limits": (beside(call("l", "look"), pays("$l.output", tool="pay_some")), MUCH),
    "a text": (beside(call("l", "text"), pays("$l.output")), "$args.amount == 'much'"),
    "the start of a text": (beside(call("l", "text"), pays("$l.output")), "$args.amount starts_with 'x-'"),
    "one of few": (beside(call("l", "kind"), pays("$l.output")), "$args.amount == 'b'"),
    "a boolean": (beside(call("l", "flag"), pays("$l.output")), "$args.amount"),
    "a boolean, the other way": (beside(call("l", "flag"), pays("$l.output")), "not $args.amount"),
    "a field": (beside(call("l", "order"), pays("$l.output.sum")), MUCH),
    "a field of the argument": (beside(call("l", "order"), pays("$l.output")), "$args.amount.sum > 100"),
    "a field that may be absent": (beside(call("l", "maybe"), pays("$l.output.sum")), MUCH),
    "an item": (beside(call("l", "amounts"), pays("$l.output")), "$args.amount[0] > 100"),
    "any item": (beside(call("l", "amounts"), pays("$l.output")), "$args.amount contains 7"),
    "an output_key": (beside(call("l", "look", output_key="due"), pays("$due")), MUCH),
    "the output itself": (beside(call("l", "look"), pays(1)), "$l.output > 100"),
    "a sum": (beside(call("l", "look"), pays("$l.output")), "$args.amount + $n > 100"),
    "both of two": (
        beside(call("k", "look"), call("l", "look"), pays("$l.output", "l", "k")),
        "$args.amount > 100 and $k.output == 3",
    ),
    "one more than the other": (
        beside(call("k", "look"), call("l", "look"), pays("$l.output", "l", "k")),
        "$args.amount > $k.output",
    ),
    "with what is around": (beside(call("l", "look"), pays("$l.output")), "$args.amount > 100 and $live"),
    "the first of three": (
        beside(call("l", "look"), call("m", "twice", "l", args={"x": "$l.output"}), pays("$l.output", "m")),
        MUCH,
    ),
    "the second of three": (
        beside(call("l", "look"), call("m", "twice", "l", args={"x": "$l.output"}), pays("$m.output", "m")),
        MUCH,
    ),
    "a sibling that may lack what it reads": (
        beside(call("l", "maybe"), call("m", "twice", "l", args={"x": "$l.output.sum"}), pays("$m.output", "m")),
        MUCH,
    ),
    "a sibling that suspends": (beside(call("l", "ask"), pays("$l.output")), MUCH),
    "one at a time": (beside(call("l", "look"), pays("$l.output"), max_concurrency=1), MUCH),
    "with others beside": (beside(call("o", "look"), call("l", "look"), pays("$l.output")), MUCH),
    "behind a step": ([call("s", "look"), *beside(call("l", "look"), pays("$l.output"))], MUCH),
    "more than a step before": (
        [call("s", "look"), *beside(call("l", "look"), pays("$l.output"))],
        "$args.amount > $s.output",
    ),
    "behind a condition": ([TEST, *beside(call("l", "look"), pays("$l.output")), END], MUCH),
    "in the second round": (
        [
            {"id": "i", "type": "set", "set": {"k": 0}, "next_step": "d"},
            {"id": "d", "type": "set", "set": {"k": "$k + 1"}, "next_step": "b"},
            *beside(call("l", "look"), pays("$l.output")),
            {"id": "c", "type": "condition", "condition": "$k < 2", "then": "d", "otherwise": "z"},
            END,
        ],
        "$args.amount > 100 and $k == 2",
    ),
    "in an item": (item_of(beside(call("l", "look"), pays("$l.output"))), MUCH),
    "in items at once": (item_of(beside(call("l", "look"), pays("$l.output")), max_concurrency=2), MUCH),
    "with the item": (item_of(beside(call("l", "look"), pays("$l.output"))), "$args.amount > 100 and $x > 5"),
}

PROVED: Final[dict[str, tuple[list[Step], str]]] = {
    "a number": (beside(call("l", "few"), pays("$l.output")), MUCH),
    "a number, two bounds": (beside(call("l", "look"), pays("$l.output")), "$args.amount > 9 and $args.amount < 5"),
    "a number that the tool limits": (
        beside(call("l", "look"), pays("$l.output", tool="pay_some")),
        "$args.amount > 500",
    ),
    "a number that the tool limits, as an output": (
        beside(call("l", "look"), pays("$l.output", tool="pay_some")),
        "$l.output > 500",
    ),
    "a number that the tool of a sibling limits": (
        beside(call("l", "look"), call("m", "pay_some", "l", args={"amount": "$l.output"}), pays("$l.output", "m")),
        "$args.amount > 500",
    ),
    "a field that a sibling has read": (
        beside(call("l", "maybe"), call("m", "twice", "l", args={"x": "$l.output.sum"}), pays(1, "m")),
        "not defined($l.output.sum)",
    ),
    "one of few": (beside(call("l", "kind"), pays("$l.output")), "$args.amount == 'c'"),
    "a field": (beside(call("l", "cheap"), pays("$l.output.sum")), MUCH),
    "a field of the argument": (beside(call("l", "cheap"), pays("$l.output")), "$args.amount.sum > 100"),
    "an item": (beside(call("l", "low"), pays("$l.output")), "$args.amount[0] > 100"),
    "an output_key": (beside(call("l", "few", output_key="due"), pays("$due")), MUCH),
    "the output itself": (beside(call("l", "few"), pays(1)), "$l.output > 100"),
    "the first of three": (
        beside(call("l", "few"), call("m", "twice", "l", args={"x": "$l.output"}), pays("$l.output", "m")),
        MUCH,
    ),
    "a fallback": (beside(call("l", "few", **LATE, fallback=50), pays("$l.output")), MUCH),
    "behind a condition": (
        [TEST, *beside(call("l", "look"), pays("$l.output")), END],
        "$args.amount > 100 and not $live",
    ),
    "one at a time": (beside(call("l", "few"), pays("$l.output"), max_concurrency=1), MUCH),
    "in an item": (item_of(beside(call("l", "few"), pays("$l.output"))), MUCH),
    "in items at once": (item_of(beside(call("l", "few"), pays("$l.output")), max_concurrency=2), MUCH),
}


def data_of(steps: list[Step], rules: list[Any]) -> dict[str, Any]:
    return {
        "name": "behind",
        "language": 2,
        "inputs": INPUTS,
        "tools": TOOLS,
        "guardrails": rules,
        "steps": steps,
    }


def checked(steps: list[Step], rules: list[Any], policies: tuple[Policy, ...] = ()) -> Report:
    return ProgramValidator(Program.from_dict(data_of(steps, rules)), policies=policies).validate()


def judged(steps: list[Step], when: str) -> Property:
    rule = {"name": "r", "never": {"step": "q"}, "when": when}
    (found,) = [one for one in checked(steps, [rule]).properties if one.rule == "r"]
    return found


@pytest.mark.parametrize("name", BROKEN)
def test_a_rule_is_broken_by_what_a_sibling_gives(name: str) -> None:
    found = judged(*BROKEN[name])
    assert found.verdict.name == "VIOLATED", found.evidence.reason
    assert found.evidence.witness is not None, "the machine confirms it"


@pytest.mark.parametrize("name", PROVED)
def test_the_type_of_the_output_of_a_sibling_proves_a_rule(name: str) -> None:
    found = judged(*PROVED[name])
    assert (found.verdict.name, found.rechecked) == ("PROVED", True), found


@pytest.mark.parametrize(("tool", "verdict"), [("look", "VIOLATED"), ("few", "PROVED")])
def test_an_allow_list_asks_for_what_a_sibling_gives(tool: str, verdict: str) -> None:
    allow = [tool, {"tool": "pay", "when": "$args.amount <= 100"}]
    policy = Policy.from_dict({"policy": "small", "allow": allow})
    report = checked(beside(call("l", tool), pays("$l.output")), [], (policy,))
    (found,) = [one for one in report.properties if one.step == "q"]
    assert (found.verdict.name, found.rechecked) == (verdict, verdict == "PROVED"), found
    assert (found.evidence.witness is not None) is (verdict == "VIOLATED")


@pytest.mark.parametrize(("tool", "verdict"), [("look", "VIOLATED"), ("few", "PROVED")])
def test_a_rule_about_a_called_program_asks_for_what_a_sibling_gives(tool: str, verdict: str) -> None:
    rule = {"name": "r", "never": {"tool": "pay"}, "when": MUCH}
    data = data_of([{"id": "one", "type": "call", "program": "charge"}], [rule])
    data["programs"] = {"charge": {"steps": [*beside(call("l", tool), pays("$l.output")), {**END}]}}
    (found,) = [one for one in ProgramValidator(Program.from_dict(data)).validate().properties if one.rule == "r"]
    assert (found.verdict.name, found.rechecked) == (verdict, verdict == "PROVED"), found
    assert (found.evidence.witness is not None) is (verdict == "VIOLATED")
