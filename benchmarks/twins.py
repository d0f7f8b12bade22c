"""Long programs with a rule that their conditions have nothing to do with: kept in one twin, broken in the other.

About a third of the steps are conditions. None of them reads what the rule depends on, so neither the proof nor the
violation should cost more because they are there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

Data = dict[str, Any]
Step = dict[str, Any]

LEVELS: Final = 40
NEST: Final = 5
"""Conditions that stand inside one another, in the shape that nests them."""

INPUTS: Final[Data] = {
    "approved": {"type": "boolean"},
    **{f"level_{number}": {"type": "integer"} for number in range(LEVELS)},
}
TOOLS: Final[Data] = {
    "note": {"effect": "read"},
    "ask": {"effect": "read", "returns": {"enum": ["open", "busy", "closed"]}},
    "count": {"effect": "read", "returns": {"type": "integer", "minimum": 0}},
    "approve": {"effect": "none"},
    "pay": {"effect": "write", "idempotent": True},
}
RULE: Final[Data] = {"name": "approved-first", "protects": {"tool": "pay"}, "requires": {"tool": "approve"}}


@dataclass(frozen=True)
class Twins:
    """A family of programs of about n steps: `rung(number, next)` are the steps between one place and the next."""

    name: str
    rung: Callable[[int, str], list[Step]]

    def program(self, n: int, *, breaks: bool, has_rule: bool = True) -> Data:
        """Return a program of about n steps; `breaks` says whether a run can pay without approval."""
        size = len(self.rung(0, ""))
        rungs = max(1, (n - 6) // size)
        steps: list[Step] = [
            {"id": "is_approved", "type": "condition", "condition": "$approved", "then": "approval", "otherwise": "r0"},
            {"id": "approval", "type": "tool", "tool": "approve", "next_step": "r0"},
        ]
        for number in range(rungs):
            steps += self.rung(number, f"r{number + 1}" if number + 1 < rungs else "last")
        last = "true" if breaks else "$approved"
        steps += [
            {"id": "last", "type": "tool", "tool": "count", "output_key": "total", "next_step": "may_pay"},
            {
                "id": "may_pay",
                "type": "condition",
                "condition": f"{last} and $total > 3",
                "then": "pay",
                "otherwise": "no",
            },
            {"id": "pay", "type": "tool", "tool": "pay", "is_terminal": True},
            {"id": "no", "type": "end"},
        ]
        rules = [RULE] if has_rule else []
        return {"name": "twins", "inputs": INPUTS, "tools": TOOLS, "guardrails": rules, "steps": steps}


def over_inputs(number: int, following: str) -> list[Step]:
    """Return a condition over an input, round a step."""
    asked = f"$level_{number % LEVELS} > {number}"
    return [
        {"id": f"r{number}", "type": "condition", "condition": asked, "then": f"a{number}", "otherwise": f"b{number}"},
        {"id": f"a{number}", "type": "tool", "tool": "note", "next_step": following},
        {"id": f"b{number}", "type": "tool", "tool": "note", "next_step": following},
    ]


def over_outputs(number: int, following: str) -> list[Step]:
    """Return a condition over what a tool has just returned: its longer branch is the one that the simplest takes."""
    return [
        {
            "id": f"r{number}",
            "type": "tool",
            "tool": "count",
            "output_key": f"n{number}",
            "next_step": f"c{number}",
        },
        {
            "id": f"c{number}",
            "type": "condition",
            "condition": f"$n{number} > {number}",
            "then": following,
            "otherwise": f"a{number}",
        },
        {"id": f"a{number}", "type": "tool", "tool": "note", "next_step": following},
    ]


def nested(number: int, following: str) -> list[Step]:
    """Return conditions inside one another, over an input and an output in turns."""
    steps: list[Step] = [{"id": f"r{number}", "type": "tool", "tool": "count", "output_key": f"n{number}"}]
    steps[0]["next_step"] = f"c{number}_0"
    for depth in range(NEST):
        name = f"n{number}" if depth % 2 else f"level_{(number + depth) % LEVELS}"
        steps.append(
            {
                "id": f"c{number}_{depth}",
                "type": "condition",
                "condition": f"${name} != {number + depth}",
                "then": f"c{number}_{depth + 1}",
                "otherwise": f"d{number}_{depth}",
            }
        )
    for depth in range(NEST):
        steps.append({"id": f"d{number}_{depth}", "type": "tool", "tool": "note", "next_step": following})
    steps.append({"id": f"c{number}_{NEST}", "type": "tool", "tool": "note", "next_step": following})
    return steps


def polling(number: int, following: str) -> list[Step]:
    """Return a loop that asks until the answer is `closed`, the last of its values."""
    return [
        {
            "id": f"r{number}",
            "type": "tool",
            "tool": "ask",
            "output_key": f"s{number}",
            "max_visits": 5,
            "next_step": f"c{number}",
        },
        {
            "id": f"c{number}",
            "type": "condition",
            "condition": f"$s{number} != 'closed'",
            "then": f"w{number}",
            "otherwise": following,
        },
        {"id": f"w{number}", "type": "tool", "tool": "note", "next_step": f"r{number}"},
    ]


def counting(number: int, following: str) -> list[Step]:
    """Return a loop of three rounds that a variable counts."""
    return [
        {"id": f"r{number}", "type": "set", "set": {f"i{number}": 0}, "next_step": f"w{number}"},
        {"id": f"w{number}", "type": "set", "set": {f"i{number}": f"$i{number} + 1"}, "next_step": f"c{number}"},
        {
            "id": f"c{number}",
            "type": "condition",
            "condition": f"$i{number} < 3",
            "then": f"w{number}",
            "otherwise": following,
        },
    ]


TWINS: Final = (
    Twins("over inputs", over_inputs),
    Twins("over outputs", over_outputs),
    Twins("nested", nested),
    Twins("polling loops", polling),
    Twins("counting loops", counting),
)
