"""Programs that a proof is hard for, each with what is to be found in it, and seen to be what it says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Data = dict[str, Any]
Steps = list[Data]

TOOLS = {
    "look": {"effect": "read", "returns": {"type": "integer", "minimum": 0, "maximum": 100}},
    "pay": {"effect": "write", "idempotent": True},
}
APPROVED = {"name": "approved-first", "protects": {"tool": "pay"}, "requires": {"step": "approved", "branch": "then"}}


@dataclass(frozen=True)
class Hard:
    """A family of programs: `verdict` is what is true of its one guardrail."""

    name: str
    make: Callable[[int], Data]
    verdict: str
    conditions: Callable[[int], int]

    def program(self, n: int) -> Data:
        """Return the program of size n, once it was seen to have as many conditions as it should."""
        data = self.make(n)
        found = sum(step["type"] == "condition" for step in data["steps"])
        assert found == self.conditions(n), f"{self.name} of size {n} has {found} conditions"
        assert all(rule is APPROVED for rule in data["guardrails"]), "one rule is asked about"
        return data


def _program(name: str, inputs: Data, steps: Steps) -> Data:
    return {"name": name, "inputs": inputs, "tools": TOOLS, "guardrails": [APPROVED], "steps": steps}


def _end(asked: str) -> Steps:
    """Return the last steps: those who are asked for approval, and those who are paid without."""
    return [
        {"id": "direct", "type": "condition", "condition": asked, "then": "pay", "otherwise": "approved"},
        {"id": "approved", "type": "condition", "condition": "$approval", "then": "pay", "otherwise": "stop"},
        {"id": "pay", "type": "tool", "tool": "pay", "next_step": "stop"},
        {"id": "stop", "type": "end"},
    ]


def diamonds(n: int, hole: int) -> Data:
    """n diamonds in a row, each counting one of n inputs; past `hole` of them no approval is needed: 2^n paths."""
    steps: Steps = [{"id": "start", "type": "set", "set": {"count": 0}}]
    for number in range(n):
        after = f"ask_{number + 1}" if number + 1 < n else "direct"
        asked = f"$x_{number} > 50"
        steps += [
            {
                "id": f"ask_{number}",
                "type": "condition",
                "condition": asked,
                "then": f"add_{number}",
                "otherwise": after,
            },
            {"id": f"add_{number}", "type": "set", "set": {"count": "$count + 1"}, "next_step": after},
        ]
    inputs: Data = {f"x_{number}": {"type": "number", "minimum": 0, "maximum": 100} for number in range(n)}
    return _program("diamonds", inputs | {"approval": {"type": "boolean"}}, [*steps, *_end(f"$count >= {hole}")])


def correlated(n: int) -> Data:
    """n steps between two conditions that ask the same: those who came the one way can't go the other."""
    steps: Steps = [
        {
            "id": "is_large",
            "type": "condition",
            "condition": "$amount > 500",
            "then": "approved",
            "otherwise": "step_0",
        },
        {"id": "approved", "type": "condition", "condition": "$approval", "then": "step_0", "otherwise": "stop"},
    ]
    steps += [{"id": f"step_{number}", "type": "tool", "tool": "look"} for number in range(n - 5)]
    steps[2]["next_step"] = "step_1"  # it is an arm
    steps[-1]["next_step"] = "again"
    steps += [
        {"id": "again", "type": "condition", "condition": "$amount >= 501", "then": "pay", "otherwise": "stop"},
        {"id": "pay", "type": "tool", "tool": "pay", "next_step": "stop"},
        {"id": "stop", "type": "end"},
    ]
    inputs = {"amount": {"type": "number", "minimum": 0, "maximum": 10_000}, "approval": {"type": "boolean"}}
    return _program("correlated", inputs, steps)


def copies(n: int) -> Data:
    """A flag copied through n diamonds, on both sides of each, under a new name: nothing can be left out."""
    steps: Steps = [{"id": "start", "type": "set", "set": {"flag_0": "$amount > 500"}, "next_step": "ask_0"}]
    for number in range(n):
        after = f"ask_{number + 1}" if number + 1 < n else "direct"
        copied = {f"flag_{number + 1}": f"$flag_{number}"}
        steps += [
            {
                "id": f"ask_{number}",
                "type": "condition",
                "condition": f"$x_{number % 20} > 50",
                "then": f"left_{number}",
                "otherwise": f"right_{number}",
            },
            {"id": f"left_{number}", "type": "set", "set": copied, "next_step": after},
            {"id": f"right_{number}", "type": "set", "set": copied, "next_step": after},
        ]
    inputs: Data = {f"x_{number}": {"type": "number", "minimum": 0, "maximum": 100} for number in range(20)}
    inputs |= {"amount": {"type": "number", "minimum": 0, "maximum": 10_000}, "approval": {"type": "boolean"}}
    return _program("copies", inputs, [*steps, *_end(f"not $flag_{n} and $amount > 500")])


CASES = {
    "plain": ("$amount", "$amount"),
    "sums": ("$amount + $extra", "$amount + $extra"),
    "sums, turned": ("$amount + $extra", "$extra + $amount"),
}
"""What the lower bounds of cases are of, and the upper ones. Only a solver knows that a turned sum is the same."""


def cases(n: int, kind: str) -> Data:
    """One condition of n exclusive cases that leave nothing out, over what a kind says."""
    least, below = CASES[kind]
    bands = [f"{least} >= {number} and {below} < {number + 1}" for number in range(1, n - 1)]
    bands = [f"{below} < 1", *bands, f"{least} >= {n - 1}"]
    found = [{"name": f"band_{number}", "when": band, "then": "stop"} for number, band in enumerate(bands)]
    inputs = {name: {"type": "number", "minimum": 0, "maximum": 1000} for name in ("amount", "extra")}
    steps = [{"id": "by_amount", "type": "condition", "exclusive": True, "cases": found}, {"id": "stop", "type": "end"}]
    return {"name": "cases", "inputs": inputs, "steps": steps}


HARD = (
    Hard("diamonds with a hole", lambda n: diamonds(n, n), "violated", lambda n: n + 2),
    Hard("diamonds without", lambda n: diamonds(n, n + 1), "proved", lambda n: n + 2),
    Hard("correlated conditions", correlated, "proved", lambda _: 3),
    Hard("a flag copied", copies, "proved", lambda n: n + 2),
)
