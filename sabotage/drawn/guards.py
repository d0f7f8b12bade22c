"""Random small programs in which a rule asks how some call ended: each end of a call, alone or beside others."""

from __future__ import annotations

from random import Random
from typing import Any, Final

from stepward.sabotage.drawn.machine import DAYS, DrawnCase
from stepward.sabotage.drawn.world import Manner
from stepward.vm import Policy, Program

MOST_CALLS: Final = 4

FACTS: Final[tuple[dict[str, Any], ...]] = (
    {"effect": "read"},
    {"effect": "write", "idempotent": True},
    {"effect": "write"},
    {"effect": "none", "suspends": True},
)
"""The facts of tools whose calls a rule asks about. Each call has a tool of its own, so that a rule can name either."""

MANNER: Final = Manner(
    beside=0.0,
    echoes=0.0,
    weights=((6, 1, 9, 0, 0, 4), (2, 0, 9, 0, 0, 1), (1, 0, 9, 0, 0, 1), (4, 4, 2, 1, 0, 2), (8, 0, 6, 1, 0, 8)),
)
"""Answers that are often late: only then does a call end by its fallback."""

Step = dict[str, Any]


def guards_case(seed: str) -> DrawnCase:
    """Return the case of a seed: calls, perhaps a pause, and a step that a rule allows after some ends of the calls."""
    chance = Random(f"guards {seed}")
    count = chance.choice((1, 2, 2, 3, MOST_CALLS))
    calls = [guarded_call(chance, f"c{number}") for number in range(count)]
    front: list[Step] = [{"id": "front", "type": "parallel", "parallel_steps": calls, **_ending(chance)}]
    if chance.random() < 0.35:
        front = [{**call, "on_error": call.get("on_error", "skip")} for call in calls]
    waits = {"id": "wait", "type": "tool", "tool": "sign"}
    steps = [*front, *([waits] if chance.random() < 0.6 else []), {"id": "last", "type": "tool", "tool": "pay"}]
    tools = {call["tool"]: chance.choice(FACTS) for call in calls}
    tools |= {"sign": {"effect": "none", "suspends": True}, "pay": {"effect": "write", "idempotent": True}}
    names = [call["id"] for call in calls] + [step["id"] for step in front]
    rules = [{"name": f"r{number}", **_rule(chance, names)} for number in range(chance.choice((1, 1, 2)))]
    data: dict[str, Any] = {"name": "wide", "inputs": {}, "tools": tools, "steps": steps, "max_steps": 40}
    home = chance.choice(("program", "policy", "later policy"))
    if home == "program":
        data["guardrails"] = rules
    policies = [Policy.from_dict({"policy": "p", "guardrails": rules})]
    return DrawnCase(
        Program.from_dict(data),
        seed,
        policies if home == "policy" else [],
        policies if home == "later policy" else [],
        MANNER,
        day=chance.choice(list(DAYS)),
    )


def _ending(chance: Random) -> Step:
    """Return what follows if a step fails."""
    return chance.choice(
        ({"on_error": "skip"}, {"error_step": "last"}, {"on_error": "retry", "max_retries": 2, "error_step": "last"})
    )


def guarded_call(chance: Random, name: str) -> Step:
    """Return a call of a tool of its own, often with a fallback."""
    call: Step = {"id": name, "type": "tool", "tool": f"t_{name}"}
    call |= chance.choice(({}, {"on_error": "skip"}, {"on_error": "retry", "max_retries": 2}))
    if chance.random() < 0.8:
        call["timeout_seconds"] = 2
        if chance.random() < 0.9:
            call |= {"on_timeout": "fallback", "fallback": chance.choice((None, False, "m", {"total": 1}))}
    return call


def _rule(chance: Random, names: list[str]) -> dict[str, Any]:
    def selected() -> dict[str, str]:
        name = chance.choice(names)
        return {"step": name} if name == "front" or chance.random() < 0.5 else {"tool": f"t_{name}"}

    last: dict[str, str] = chance.choice(({"step": "last"}, {"tool": "pay"}))
    required: dict[str, Any] = selected()
    if chance.random() < 0.3:
        required = {chance.choice(("all_of", "any_of")): [required, selected()]}
    requirement = {"protects": last, "requires": required}
    return chance.choice(
        (
            *[requirement] * 5,
            {"followed_by": {"first": selected(), "then": selected()}, "ends": chance.choice(("any", "success"))},
            {"exclusive": [selected(), last]},
            {"at_most_once": selected()},
            {"never": last},
        )
    )
