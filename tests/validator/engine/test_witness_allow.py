"""The machine confirms violations under the lists of policies: `allow`, which may stop a run first, and `four_eyes`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from paths import BAD
from stepward.validator import ProgramValidator, Verdict
from stepward.vm import Policy, Program

TOOLS: dict[str, Any] = {
    "get": {"effect": "read", "returns": {"type": "integer"}},
    "push": {"effect": "write", "idempotent": True, "args": {"n": {"type": "integer", "default": 1}}},
    "mail": {"effect": "write", "idempotent": True, "args": {"n": {"type": "integer", "default": 1}}},
}
PUSH: dict[str, Any] = {"type": "tool", "tool": "push"}
MAIL: dict[str, Any] = {"type": "tool", "tool": "mail"}
STEPS: dict[str, list[dict[str, Any]]] = {
    "two tools": [{"id": "a", **PUSH}, {"id": "b", **MAIL}],
    "one tool twice": [{"id": "a", **PUSH}, {"id": "b", **PUSH}],
    "one tool around another": [{"id": "a", **PUSH}, {"id": "b", **MAIL}, {"id": "c", **PUSH}],
    "after a failure": [
        {"id": "a", **PUSH, "error_step": "b", "next_step": "c"},
        {"id": "b", **MAIL},
        {"id": "c", **PUSH},
    ],
    "in a loop": [
        {"id": "a", **PUSH, "max_visits": 3, "next_step": "b"},
        {"id": "b", **MAIL},
        {"id": "c", "type": "condition", "condition": "$n > 3", "then": "a", "otherwise": "d"},
        {"id": "d", **PUSH},
    ],
    "in two sub-steps": [
        {"id": "a", "type": "parallel", "parallel_steps": [{"id": "a1", **PUSH}, {"id": "a2", **MAIL}]},
        {"id": "b", "type": "parallel", "parallel_steps": [{"id": "b1", **PUSH}, {"id": "b2", **PUSH}]},
    ],
    "with arguments": [
        {"id": "a", **PUSH, "args": {"n": 50}},
        {"id": "b", **PUSH, "args": {"n": "$n"}},
        {"id": "c", **PUSH, "args": {"n": 70}},
    ],
}
LISTS: dict[str, list[Any]] = {
    "no tool is allowed": [],
    "another tool is allowed": ["get"],
    "one of two tools is allowed": ["mail"],
    "small arguments are allowed": [{"tool": "push", "when": "$args.n < 20"}],
    "what is not there is asked for": ["mail", {"tool": "push", "when": "$nobody > 1"}],
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("more", [False, True], ids=["one policy", "two policies"])
@pytest.mark.parametrize("allow", LISTS.values(), ids=LISTS)
@pytest.mark.parametrize("steps", STEPS.values(), ids=STEPS)
def test_each_forbidden_call_is_confirmed(steps: list[dict[str, Any]], allow: list[Any], more: bool) -> None:
    program = Program.from_dict({"name": "p", "inputs": {"n": {"type": "integer"}}, "tools": TOOLS, "steps": steps})
    policies = [Policy.from_dict({"policy": "first", "allow": allow})]
    if more:
        policies.append(Policy.from_dict({"policy": "second", "allow": ["get"]}))
    report = ProgramValidator(program, policies).validate()
    assert not [one.message for one in report.findings if one.code == "SW901"]
    broken = [one for one in report.properties if one.name == "allow" and one.verdict is Verdict.VIOLATED]
    assert broken or not any(one.code == "SW403" for one in report.findings)
    assert all(one.evidence.witness is not None for one in broken)


WAITING = [
    path
    for path in sorted(BAD.rglob("*.yaml"))
    if ".policy" not in path.name and b"suspends: true" in path.read_bytes()
]


@pytest.mark.parametrize("path", WAITING, ids=lambda path: path.stem)
def test_a_policy_that_asks_for_two_people_leaves_each_witness(path: Path) -> None:
    """The machine starts no run of nobody under `four_eyes`; the run of a witness has somebody."""
    program = Program.load(path)
    tools = [name for name, spec in program.tools.items() if spec.suspends]
    policy = Policy.from_dict({"policy": "pair", "four_eyes": tools})
    alone, under = (ProgramValidator(program, given).validate().findings for given in ([], [policy]))
    assert [(one.code, one.message) for one in under] == [(one.code, one.message) for one in alone]
