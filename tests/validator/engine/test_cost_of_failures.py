"""What a failure takes of `max_steps`: a violation behind one is called so exactly where the budget allows it.

Each kind of call fails, or falls back, after its attempts; every budget about the cost is held against every run. By
day a third of the calls is tried outside of items, and another third in one.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, product
from typing import Any

import pytest

from brute_force import truth
from sizes import size
from stepward.validator import ProgramValidator, Verdict
from stepward.vm import Program

TOOLS: dict[str, Any] = {
    "look": {"effect": "read", "errors": ["A", "B"], "returns": {"type": "boolean"}},
    "save": {"effect": "write", "idempotent": True, "errors": ["A", "B"]},
    "send": {"effect": "write", "idempotent": False, "errors": ["A", "B"]},
    "approve": {"effect": "none"},
    "pay": {"effect": "write", "idempotent": True},
}
TRIED: dict[str, dict[str, Any]] = {
    "once": {},
    "again": {"on_error": "retry", "max_retries": 3},
    "after A": {"retry": [{"errors": ["A"], "max_attempts": 3}]},
    "after any": {"retry": [{"errors": ["any"], "max_attempts": 4}]},
    "after A or else": {"retry": [{"errors": ["A"], "max_attempts": 2}, {"errors": ["any"], "max_attempts": 4}]},
    "after a timeout": {"retry": [{"errors": ["Timeout"], "max_attempts": 3}]},
}
LEFT: dict[str, dict[str, Any]] = {
    "caught": {"error_step": "p"},
    "A is caught": {"catch": [{"errors": ["A"], "then": "p"}]},
    "B is caught": {"catch": [{"errors": ["B"], "then": "p"}]},
    "skipped": {"on_error": "skip"},
    "falls back": {"timeout_seconds": 5, "on_timeout": "fallback", "fallback": True},
}


def calls() -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the steps that lead to the payment if they fail, or fall back, and one approval before it if not."""
    for tool, tried, left in product(("look", "save", "send"), TRIED, LEFT):
        if (tried, left) == ("again", "skipped"):
            continue  # `on_error` is one of the two
        call = {"id": "f", "type": "tool", "tool": tool, **TRIED[tried], **LEFT[left]}
        goes = {"next_step": "p"} if left in ("skipped", "falls back") else {"next_step": "ok"}
        yield f"{tool}, {tried}, {left}", {**call, **goes}


def program(call: dict[str, Any], most: int, *, in_call: bool) -> dict[str, Any]:
    steps = [
        call,
        {"id": "ok", "type": "tool", "tool": "approve", "next_step": "p"},
        {"id": "p", "type": "tool", "tool": "pay", "is_terminal": True},
    ]
    rule: dict[str, Any] = {"name": "r", "protects": {"tool": "pay"}, "requires": {"tool": "approve"}}
    if call["next_step"] == "p":  # a success leads there, too
        rule = {"name": "r", "never": {"tool": "pay"}}
        rule |= {"when": "not defined($f.output)"} if call.get("on_error") == "skip" else {}
    if in_call:
        each: dict[str, Any] = {"id": "e", "type": "for_each", "items": [1], "as": "x", "max_items": 1, "steps": steps}
        steps = [each]
    found = {"name": "t", "language": 2, "inputs": {}, "tools": TOOLS, "guardrails": [rule], "max_steps": most}
    return {**found, "steps": steps}


@pytest.mark.parametrize("in_call", [False, True], ids=["outside", "in an item"])
def test_a_violation_behind_a_failure_is_one_within_the_budget(in_call: bool) -> None:
    wrong = []
    for name, call in islice(calls(), size(in_call, 0), None, size(6, 1)):
        for most in range(1, 8):
            data = program(call, most, in_call=in_call)
            report = ProgramValidator(Program.from_dict(data)).validate()
            found = next(one for one in report.properties if one.rule == "r")
            due = Verdict.VIOLATED if truth(data).broken["r"] else Verdict.PROVED
            if found.verdict is not due or any(one.code in ("SW901", "SW902") for one in report.findings):
                wrong.append((name, most, found.verdict.value, due.value, found.evidence.reason))
    assert not wrong
