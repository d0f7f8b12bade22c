"""Random programs in which a call is settled beside a sibling that has found out something sensitive."""

from __future__ import annotations

from random import Random
from typing import Any, Final

from stepward.sabotage.drawn.machine import DrawnCase
from stepward.sabotage.drawn.secret import COINED, HIDDEN
from stepward.sabotage.drawn.world import Manner
from stepward.vm import Program

MANNER: Final = Manner(beside=0.0, echoes=0.95, weights=((8, 0, 0, 6, 0, 2), (8, 0, 0, 4, 0, 8), (9, 1, 0, 2, 0, 9)))
"""Answers of which many are lost or wait, so that somebody has to say what came of a call."""

TOOLS: Final[dict[str, dict[str, Any]]] = {
    "coin": {"effect": "read", "returns": {**HIDDEN, "pattern": f"^{COINED}$"}},
    "coin_in": {
        "effect": "read",
        "returns": {
            "type": "object",
            "properties": {"a": {**HIDDEN, "pattern": f"^{COINED}$"}, "b": {"type": "integer"}},
            "required": ["a"],
        },
    },
    "book": {"effect": "write", "returns": {"type": "object", "properties": {"ref": {"type": "string"}}}},
    "note": {"effect": "write", "returns": {"type": "string"}},
    "push": {"effect": "write", "suspends": True, "returns": {"type": ["string", "object"]}},
    "sign": {"effect": "none", "suspends": True, "returns": {"type": "array", "items": {"type": "string"}}},
    "mail": {"effect": "write", "idempotent": True, "args": {"x": {}}},
}
KNOWS: Final = ("coin", "coin_in")
HELD: Final = ("book", "note", "push", "sign")


def beside_secret_case(seed: str) -> DrawnCase:
    """Return the case of a seed: one or two parallel steps, whose outputs the next calls read."""
    chance = Random(f"beside a secret {seed}")
    steps: list[dict[str, Any]] = []
    for number in range(chance.choice((1, 1, 2))):
        tools = [chance.choice(KNOWS), *(chance.choice(HELD) for _ in range(chance.randint(2, 3)))]
        chance.shuffle(tools)
        calls = [
            {"id": f"s{number}_{place}", "type": "tool", "tool": tool, "on_error": "skip"}
            for place, tool in enumerate(tools)
        ]
        steps.append({"id": f"s{number}", "type": "parallel", "parallel_steps": calls, "output_key": "z"})
        read = chance.choice(("$z", *(f"${call['id']}.output" for call in calls)))
        steps.append({"id": f"m{number}", "type": "tool", "tool": "mail", "args": {"x": read}, "on_error": "skip"})
    data = {"name": "secret", "inputs": {}, "tools": TOOLS, "steps": steps, "max_steps": 40}
    return DrawnCase(Program.from_dict(data), seed, manner=MANNER, secrets=(COINED,))
