"""Random programs that go round, whose outputs do not all fit into the state of a run."""

from __future__ import annotations

from random import Random
from typing import Any, Final

from stepward.sabotage.drawn.machine import DrawnCase
from stepward.sabotage.drawn.world import Manner
from stepward.vm import Program
from stepward.vm.machine.state import Limits

TOOLS: Final[dict[str, dict[str, Any]]] = {
    "get": {"effect": "read"},
    "pay": {"effect": "write"},
    "mail": {"effect": "write", "idempotent": True},
    "sign": {"effect": "none", "suspends": True},
}
MANNER: Final = Manner(beside=0.0, at_limit=0.8, echoes=0.0, weights=((20, 0, 0, 0, 0, 2), (20, 1, 1, 1, 0, 6)))
STATES: Final = (900, 1_000, 1_200, 1_500)
"""Limits of the state. The first record of a run is checked against them, too, and has about 700 bytes."""

Step = dict[str, Any]


def room_case(seed: str) -> DrawnCase:
    """Return the case of a seed: some steps, two or three times, in a state that may be too small for them."""
    chance = Random(f"room {seed}")
    body = [_step(chance, f"s{number}") for number in range(chance.randint(2, 4))]
    for step, following in zip(body, [*body[1:], {"id": "count"}], strict=True):
        step["next_step"] = following["id"]
    again = {"id": "again", "type": "condition", "condition": f"$n < {chance.choice((2, 2, 3))}"}
    steps = [
        {"id": "zero", "type": "set", "set": {"n": 0}, "next_step": "s0"},
        *body,
        {"id": "count", "type": "set", "set": {"n": "$n + 1"}, "next_step": "again"},
        {**again, "then": body[0]["id"], "otherwise": "last"},
        {"id": "last", "type": "end"},
    ]
    data = {"name": "room", "language": 2, "inputs": {}, "tools": TOOLS, "steps": steps, "max_steps": 60}
    limits = Limits(chance.choice((200, 250, 300, 400)), chance.choice(STATES))
    return DrawnCase(Program.from_dict(data), seed, manner=MANNER, limits=limits)


def _step(chance: Random, name: str) -> Step:
    kind = chance.choice(("call", "call", "call", "parallel", "set", "for_each"))
    if kind == "set":
        return {
            "id": name,
            "type": "set",
            "set": {"v": chance.choice(("'" + "\u00fc" * chance.choice((20, 99)) + "'", "$v", 1))},
        }
    if kind == "for_each":
        call = {key: value for key, value in _call(chance, f"{name}_0").items() if key != "output_key"}
        each = {"items": [1, 2, 3][: chance.randint(1, 3)], "as": f"{name}_item", "do": call}
        return {
            "id": name,
            "type": "for_each",
            **each,
            **chance.choice(({}, {"on_item_error": "skip"})),
            **chance.choice(({}, {"max_concurrency": 2})),
            **_ending(chance),
        }
    if kind == "call":
        return {**_call(chance, name), **_ending(chance)}
    parts = [_call(chance, f"{name}_{number}") for number in range(2)]
    return {"id": name, "type": "parallel", "parallel_steps": parts, **_ending(chance)}


def _call(chance: Random, name: str) -> Step:
    call: Step = {"id": name, "type": "tool", "tool": chance.choice(list(TOOLS))}
    if chance.random() < 0.2:
        call = {"id": name, "type": "llm", "prompt": "say"}
    if chance.random() < 0.3:
        call |= {"timeout_seconds": 2, "on_timeout": "fallback", "fallback": "f" * chance.choice((1, 90))}
    return call | chance.choice(({}, {"on_error": "skip"}, {"output_key": "v"}))


def _ending(chance: Random) -> Step:
    return chance.choice(({"on_error": "skip"}, {"error_step": "count"}, {"on_error": "retry", "error_step": "count"}))
