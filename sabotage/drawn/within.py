"""Random small programs in which a rule asks what has come of a sub-step that another one depends on."""

from __future__ import annotations

from random import Random
from typing import Any, Final

from stepward.sabotage.drawn.guards import FACTS, Step, guarded_call
from stepward.sabotage.drawn.machine import DrawnCase
from stepward.sabotage.drawn.orders import with_order
from stepward.sabotage.drawn.world import Manner
from stepward.vm import Program

MANNER: Final = Manner(beside=0.0, echoes=0.0, weights=((20, 1, 2, 0, 0, 3), (6, 1, 9, 0, 0, 2), (9, 3, 3, 0, 0, 1)))
ALONG: Final = 0.6
"""The share of rules by which a sub-step requires one that it depends on."""


def within_case(seed: str) -> DrawnCase:
    """Return the case of a seed: a branch on a variable, then sub-steps in an order, which may assign the variable."""
    chance = Random(f"within {seed}")
    calls = [_call(chance, f"c{number}") for number in range(chance.choice((2, 3, 3, 4)))]
    names = [call["id"] for call in calls]
    asks = {"id": "ask", "type": "condition", "condition": "$v != 7", "then": "front", "otherwise": "last"}
    last = {"id": "last", "type": "end"}
    data: dict[str, Any] = {
        "name": "wide",
        "language": 2,
        "inputs": {},
        "tools": {call["tool"]: chance.choice(FACTS) for call in calls},
        "steps": [
            {"id": "first", "type": "set", "set": {"v": 1}},
            asks,
            {"id": "front", "type": "parallel", "parallel_steps": calls, "error_step": "last"},
            last,
        ],
        "max_steps": 40,
    }
    data = with_order(data, chance, 1.0, reads=False)
    parts = data["steps"][2]["parallel_steps"]
    along = [(before, part["id"]) for part in parts for before in part.get("depends_on", ())]
    drawn = [chance.sample(names, 2), chance.choice(along)]
    pairs = [drawn[chance.random() < ALONG] for _ in range(chance.choice((1, 2, 2)))]
    rules = [{"name": f"r{number}", **_rule(chance, *pair)} for number, pair in enumerate(pairs)]
    return DrawnCase(Program.from_dict({**data, "guardrails": rules}), seed, manner=MANNER)


def _call(chance: Random, name: str) -> Step:
    call = guarded_call(chance, name)
    return call | {"output_key": "v"} if chance.random() < 0.3 else call


def _rule(chance: Random, before: str, after: str) -> dict[str, Any]:
    """Return a rule of one sub-step and of another, or of the branch before both."""
    one, other = ({key: value} for key, value in (_selected(chance, name) for name in (before, after)))
    branch = {"step": "ask", "branch": "then"}
    required: dict[str, Any] = chance.choice((one, one, branch))
    if chance.random() < 0.2:
        required = {chance.choice(("all_of", "any_of")): [one, branch]}
    requirement = {"protects": other, "requires": required}
    return chance.choice(
        (
            requirement,
            requirement,
            requirement,
            {"exclusive": [one, other]},
            {"followed_by": {"first": one, "then": other}},
        )
    )


def _selected(chance: Random, name: str) -> tuple[str, str]:
    return ("step", name) if chance.random() < 0.5 else ("tool", f"t_{name}")
