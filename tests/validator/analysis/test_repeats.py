"""What is said of an effect that a run can perform twice, by what brings it there again; doing each help helps."""

from __future__ import annotations

from typing import Any

import pytest

from stepward.validator import ProgramValidator
from stepward.validator.findings import Finding
from stepward.vm import Policy, Program

Data = dict[str, Any]
RULE = {"name": "once", "at_most_once": {"tool": "pay"}}
TOOLS = {
    "pay": {"effect": "write", "idempotent": True, "args": {"sum": {"type": "number"}}},
    "look": {"effect": "read", "returns": {"type": "string", "enum": ["a", "b"]}},
}
LINES = {"type": "array", "items": {"type": "number", "minimum": 0, "maximum": 9}, "maxItems": 3}
PAY = {"id": "pay", "type": "tool", "tool": "pay", "args": {"sum": 1}}
OVER = {"id": "over", "type": "end"}
FAILED = {"id": "failed", "type": "end", "outcome": "failure"}


def each(steps: list[Data], id: str = "each", **more: Any) -> Data:
    return {"id": id, "type": "for_each", "items": "$lines", "as": f"{id}_line", "steps": steps, **more}


def program(steps: list[Data], *, rules: tuple[Data, ...] = (RULE,)) -> Data:
    steps = [*steps, OVER]
    return {
        "language": 2,
        "name": "x",
        "inputs": {"lines": LINES},
        "tools": TOOLS,
        "max_steps": 500,
        "guardrails": list(rules),
        "steps": steps,
    }


def repeats(data: Data, *policies: Policy) -> list[Finding]:
    found = ProgramValidator(Program.from_dict(data), policies).validate().findings
    assert not [one for one in found if one.code in ("SW408", "SW901", "SW902", "SW903")]
    return [one for one in found if one.code == "SW404"]


def loop(**more: Any) -> list[Data]:
    again = {"id": "again", "type": "condition", "condition": "$look.output == 'a'", "then": "pay", "otherwise": "over"}
    return [{**PAY, "next_step": "look", **more}, {"id": "look", "type": "tool", "tool": "look"}, again]


SECOND = "`pay` can be performed a second time in one run"
BEFORE = ", and the first may have been done, although it failed"
OF_EACH = "let one item alone reach it, with `max_items: 1` for `each`; if each may perform it once, "
SAID: dict[str, tuple[Data, str, str]] = {
    "loop": (
        program(loop()),
        SECOND,
        "take it out of the loop, or let a run reach it only once with `max_visits: 1`",
    ),
    "items": (program([each([PAY])]), SECOND, OF_EACH + "write the rule under `guardrails` of `each`"),
    "items that fail": (program([each([PAY, {**OVER, "id": "done"}], on_item_error="skip")]), SECOND + BEFORE, OF_EACH),
    "items of items": (
        program([each([each([PAY], "inner")])]),
        SECOND,
        "let one item alone reach it, with `max_items: 1` for `each` and `inner`; ",
    ),
    "rule of a body": (
        program([each([each([PAY], "inner")], guardrails=[RULE])], rules=()),
        SECOND,
        "let one item alone reach it, with `max_items: 1` for `inner`; ",
    ),
    "two steps": (
        program([PAY, {**PAY, "id": "more"}]),
        "`more` can repeat in one run what `pay` has done",
        "keep only one of `pay` and `more` on this path",
    ),
    "after a failure": (
        program([{**PAY, "error_step": "more", "next_step": "over"}, {**PAY, "id": "more"}]),
        "`more` can repeat in one run what `pay` may have done, although it failed",
        "keep only one of `pay` and `more` on this path",
    ),
}


@pytest.mark.parametrize("name", SAID)
def test_a_repeated_effect_is_reported_with_a_help(name: str) -> None:
    data, message, help = SAID[name]
    (found,) = repeats(data)
    assert found.message == f"{message} (guardrail `once`)"
    assert found.help.startswith(help)


def test_the_author_of_a_program_is_sent_to_the_policy() -> None:
    policy = Policy.from_dict({"policy": "house", "guardrails": [RULE]})
    (found,) = repeats(program([each([PAY])], rules=()), policy)
    assert found.help == OF_EACH + "ask for a waiver in the policy"


DONE: dict[str, Data] = {
    "max_visits": program([*loop(max_visits=1, error_step="failed"), FAILED]),
    "max_items": program([each([PAY], max_items=1)]),
    "max_items of both": program([each([each([PAY], "inner", max_items=1)], max_items=1)]),
    "guardrails of the body": program([each([PAY], guardrails=[RULE])], rules=()),
}


@pytest.mark.parametrize("name", DONE)
def test_what_the_help_says_helps(name: str) -> None:
    assert repeats(DONE[name]) == []
