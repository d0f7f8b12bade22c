"""Every kind of step as the part that a rule asks about: both checkers agree on when it starts and how it fails.

A step that fails may have started or not: a `compute` step never has, a `set` always has, a call has unless it was
refused. The second checker has its own code for that, and the machine replays what is violated.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pytest

from stepward.validator import ProgramValidator, Report, Verdict
from stepward.vm import Program, ProgramError

Data = dict[str, Any]

KINDS: Final[dict[str, Data]] = {
    "compute": {"type": "compute", "lisp": "(+ 1 data/i)", "args": {"i": "$i"}},
    "compute of a field": {"type": "compute", "lisp": "(+ 1 data/i)", "args": {"i": "$found.x"}},
    "set": {"type": "set", "set": {"v": "$i * $i"}},
    "set of a field": {"type": "set", "set": {"v": "$found.x"}},
    "read": {"type": "tool", "tool": "look"},
    "read of a field": {"type": "tool", "tool": "take", "args": {"x": "$found.x"}},
    "write": {"type": "tool", "tool": "put"},
    "llm": {"type": "llm", "prompt": "$i"},
    "llm of a field": {"type": "llm", "prompt": "$found.x"},
    "parallel": {"type": "parallel", "parallel_steps": [{"id": "one", "type": "tool", "tool": "look"}]},
    "for_each": {
        "type": "for_each",
        "items": "$l",
        "as": "x",
        "max_items": 2,
        "steps": [{"id": "in", "type": "tool", "tool": "look"}],
    },
    "end": {"type": "end", "output": "$i"},
    "end of a field": {"type": "end", "output": "$found.x"},
}
PART: Final = {"step": "part"}
PAY: Final = {"tool": "pay"}
RULES: Final[dict[str, Data]] = {
    "follows": {"followed_by": {"first": PAY, "then": PART}},
    "follows in success": {"followed_by": {"first": PAY, "then": PART}, "ends": "success"},
    "is required": {"protects": PAY, "requires": PART},
    "is protected": {"protects": PART, "requires": PAY},
    "happens once": {"at_most_once": PART},
    "never happens": {"never": PART, "when": "$i > 1"},
}
FAILURES: Final[dict[str, Data]] = {
    "fails": {},
    "is skipped": {"on_error": "skip"},
    "is handled": {"error_step": "handled"},
    "is told apart": {"catch": [{"errors": ["Undefined"], "then": "handled"}]},
}
TOOLS: Final[Data] = {
    "pay": {"effect": "write", "idempotent": True},
    "put": {"effect": "write", "idempotent": False},
    "look": {"effect": "read"},
    "find": {"effect": "read", "returns": {"type": "object", "properties": {"x": {"type": "integer"}}}},
    "take": {"effect": "read", "args": {"x": {"type": "integer"}}},
}


def programs(kind: str) -> Iterator[tuple[str, Data]]:
    """Yield programs in which a rule asks about a step of a kind, each with what it is called."""
    inputs = {"i": {"type": "integer"}, "l": {"type": "array", "items": {"type": "integer"}, "maxItems": 3}}
    found = {"id": "found", "type": "tool", "tool": "find", "output_key": "found"}
    for failure, fields in FAILURES.items():
        for rule, asked in RULES.items():
            part = {"id": "part", **KINDS[kind], **fields}
            if part["type"] != "end":
                part["next_step"] = "done"
            pay = {"id": "paid", "type": "tool", **PAY}
            first = (
                [part | {"next_step": "paid"}, pay | {"next_step": "done"}] if rule == "is required" else [pay, part]
            )
            ends = [{"id": "done", "type": "end"}, {"id": "handled", "type": "end", "outcome": "failure"}]
            data = {
                "name": "p",
                "language": 2,
                "inputs": inputs,
                "tools": TOOLS,
                "guardrails": [{"name": "g", **asked}],
            }
            yield f"{rule}, {failure}", {**data, "steps": [found, *first, *ends]}


def legal(data: Data) -> Program | None:
    try:
        return Program.from_dict(data)
    except ProgramError:
        return None  # such a step has no such field


def checked(program: Program) -> Report:
    return ProgramValidator(program).validate()


@pytest.mark.one_in(3)
@pytest.mark.parametrize("kind", KINDS)
def test_both_checkers_agree_on_when_a_step_starts(kind: str) -> None:
    several = 0
    for name, data in programs(kind):
        program = legal(data)
        if program is None:
            continue
        several += 1
        report = checked(program)
        refused = [f"{one.code} {one.message}" for one in report.findings if one.code.startswith("SW9")]
        assert not refused, f"{name}: {refused}"
        assert report.properties[0].verdict is not Verdict.UNKNOWN, name
    assert several >= len(RULES) - 1


def test_a_compute_step_that_fails_has_not_started() -> None:
    found = {name: legal(data) for name, data in programs("compute")}
    skipped = found["follows in success, is skipped"]
    assert skipped is not None
    report = checked(skipped)
    assert report.properties[0].verdict is Verdict.VIOLATED


def test_the_steps_of_a_run_are_counted_with_a_compute_step_among_them() -> None:
    data: Data = {
        "name": "p",
        "language": 2,
        "max_steps": 21,
        "inputs": {"i": {"type": "integer"}},
        "tools": TOOLS,
        "guardrails": [{"name": "g", "followed_by": {"first": PART, "then": PART}}],
        "steps": [{"id": "sum", **KINDS["compute"]}, {"id": "part", "type": "tool", "tool": "put"}],
    }
    report = checked(Program.from_dict(data))
    assert [one.message for one in report.findings if one.code.startswith("SW9") or one.code == "SW408"] == []
