"""Fast: rules of bodies within bodies that run at once: each frame by itself; rules around them for all together."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from machines import unchecked
from stepward.vm import InDoubt, MemoryJournal, Program, Run

TOOLS: dict[str, Any] = {"look": {"effect": "read"}, "pay": {"effect": "write", "idempotent": False}}
RULES: dict[str, dict[str, Any]] = {
    "at most once": {"name": "r", "at_most_once": {"tool": "pay"}},
    "exclusive": {"name": "r", "exclusive": [{"step": "one"}, {"step": "two"}]},
}
STEPS: dict[str, list[dict[str, Any]]] = {
    "at most once": [
        {"id": "look", "type": "tool", "tool": "look"},
        {"id": "one", "type": "tool", "tool": "pay", "is_terminal": True},
    ],
    "exclusive": [
        {"id": "which", "type": "condition", "condition": "$n == 1", "then": "one", "otherwise": "two"},
        {"id": "one", "type": "tool", "tool": "pay", "is_terminal": True},
        {"id": "two", "type": "tool", "tool": "pay", "is_terminal": True},
    ],
}
"""Steps that keep the rule in each frame, and break it in two frames together."""

INNER = ("items", "call", "branches")
OUTER = ("items", "branches")


def _inner(kind: str, steps: list[dict[str, Any]], rules: list[dict[str, Any]], last: str) -> dict[str, Any]:
    """Return a step with a body of its own, under rules."""
    match kind:
        case "items":
            body = {"type": "for_each", "items": ["$n"], "as": "m", "max_items": 1, "steps": steps}
            return {"id": f"in{last}", **body, "guardrails": rules, "is_terminal": True}
        case "call":
            return {"id": f"in{last}", "type": "call", "program": "other", "args": {"n": "$n"}, "is_terminal": True}
        case _:
            branches = {f"only{last}": {"steps": steps, "guardrails": rules}}
            return {"id": f"in{last}", "type": "parallel", "branches": branches, "is_terminal": True}


def _program(inner: str, outer: str, rule: str, *, is_around: bool) -> Program:
    """Return a program of two frames at once with a body each; the rule is that of the body, or of the program."""
    own, whole = ([], [RULES[rule]]) if is_around else ([RULES[rule]], [])
    called = {"inputs": {"n": {"type": "integer"}}, "tools": TOOLS, "guardrails": own, "steps": STEPS[rule]}
    programs = {"programs": {"other": called}} if inner == "call" else {}
    if outer == "items":
        each = {"type": "for_each", "items": [1, 2], "as": "n", "max_items": 2, "max_concurrency": 2}
        steps = [{"id": "out", **each, "steps": [_inner(inner, STEPS[rule], own, "")]}]
        inputs = {}
    else:
        branches = {f"b{last}": {"steps": [_inner(inner, STEPS[rule], own, last)]} for last in "ab"}
        steps, inputs = [{"id": "out", "type": "parallel", "branches": branches}], {"n": {"type": "integer"}}
    head = {"name": "p", "language": 2, "inputs": inputs, "tools": TOOLS, "guardrails": whole}
    return Program.from_dict({**head, **programs, "steps": [*steps, {"id": "end", "type": "end"}]})


class Tools:
    """Tools whose payments wait for each other, as long as the machine starts several."""

    def __init__(self, doubts: int = 0) -> None:
        self.live = self.most = self.paid = 0
        self.doubts = doubts

    def has(self, name: str) -> bool:
        """Return True."""
        return name in TOOLS

    async def call(self, name: str, args: Any, context: Any) -> None:
        """Count the payments that are under way; the first ones are in doubt, if asked for."""
        if name != "pay":
            return
        self.live, self.paid = self.live + 1, self.paid + 1
        self.most = max(self.most, self.live)
        is_first = self.paid <= self.doubts
        await asyncio.sleep(0.01)
        self.live -= 1
        if is_first:
            raise InDoubt("nobody knows")


def _run(program: Program, tools: Tools, inputs: dict[str, Any]) -> Run:
    return unchecked(tools, journal=MemoryJournal()).run_sync(program, inputs)


SHAPES = [
    (inner, outer, rule)
    for inner in INNER
    for outer in OUTER
    for rule in RULES
    # Ids are unique: two branches can't hold the same steps, so that only a call repeats them.
    if outer == "items" or inner == "call"
]


@pytest.mark.parametrize(("inner", "outer", "rule"), SHAPES)
def test_a_rule_of_an_inner_body_holds_for_each_frame_by_itself(inner: str, outer: str, rule: str) -> None:
    """Nothing is refused, and the payments go on at once."""
    tools = Tools()
    run = _run(_program(inner, outer, rule, is_around=False), tools, {"n": 1} if outer == "branches" else {})
    assert (run.status, run.error) == ("SUCCESS", "")
    assert (tools.paid, tools.most) == (2, 2)


@pytest.mark.parametrize(("inner", "outer", "rule"), SHAPES)
def test_a_sibling_in_doubt_does_not_count_for_it(inner: str, outer: str, rule: str) -> None:
    """The run waits for the payment in doubt, and the other one is made."""
    tools = Tools(doubts=1)
    run = _run(_program(inner, outer, rule, is_around=False), tools, {"n": 1} if outer == "branches" else {})
    assert (run.status, tools.paid) == ("IN_DOUBT", 2)


# A rule of the program can't name the steps of a called program.
@pytest.mark.parametrize(("inner", "outer", "rule"), [one for one in SHAPES if one[::2] != ("call", "exclusive")])
def test_a_rule_around_them_holds_for_all_frames_together(inner: str, outer: str, rule: str) -> None:
    """The second payment is refused."""
    tools = Tools()
    run = _run(_program(inner, outer, rule, is_around=True), tools, {"n": 1} if outer == "branches" else {})
    assert (run.status, run.reason, tools.paid) == ("FAILED", "guardrail", 1)
