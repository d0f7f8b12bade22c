"""Random programs that assign like values again and again, under a bound of steps that change nothing."""

from __future__ import annotations

from random import Random
from typing import Any, Final

from stepward.sabotage.drawn.machine import DrawnCase
from stepward.vm import Program

LIKE: Final[tuple[tuple[Any, ...], ...]] = (
    (1, True, "1.0"),
    (0, False, None),
    ([1], [True], [], {}),
    ({"a": 1}, {"a": True}, {"a": [1]}, {"a": [True]}),
)
"""Values of `set`, of which a text is an expression: some that are equal in Python differ in the language."""

VARIABLES: Final = ("v", "w")


def stalls_case(seed: str) -> DrawnCase:
    """Return the case of a seed: a sequence of assignments, and of calls that repeat an output."""
    chance = Random(f"stalls {seed}")
    like = chance.sample(chance.choice(LIKE), 2)
    steps = [_step(chance, f"s{number}", like) for number in range(chance.randint(3, 9))]
    tools = {"get": {"effect": "read", "args": {}, "returns": {"enum": [1, True]}}}
    data = {"name": "wide", "inputs": {}, "tools": tools, "steps": steps, "max_steps": 40}
    return DrawnCase(Program.from_dict(data | {"max_stalled_steps": chance.choice((1, 1, 2, 3))}), seed)


def _step(chance: Random, name: str, like: list[Any]) -> dict[str, Any]:
    kind = chance.choice(("set", "set", "set", "both", "call"))
    if kind == "call":
        return {"id": name, "type": "tool", "tool": "get", "output_key": chance.choice(VARIABLES), "on_error": "skip"}
    names = VARIABLES if kind == "both" else (chance.choice(VARIABLES),)
    return {"id": name, "type": "set", "set": {key: chance.choice(like) for key in names}}
