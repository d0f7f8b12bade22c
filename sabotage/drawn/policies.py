"""Random policies with like names, for a small program that waits and is continued under more of them."""

from __future__ import annotations

import json
from random import Random
from typing import Any, Final

from stepward.sabotage.drawn.machine import DAYS, DrawnCase
from stepward.sabotage.drawn.world import Manner
from stepward.vm import Policy, Program

NAMES: Final = ("p", "pp", "p1", "pp1", "p 1", "q")
"""Names of policies: most begin like another one."""

RULES: Final = ("kept", "kept too", "ke", "allow too")
TOOLS: Final[dict[str, dict[str, Any]]] = {
    "get": {"effect": "read"},
    "get_all": {"effect": "read"},
    "pay": {"effect": "write"},
    "pay_in": {"effect": "write", "idempotent": True},
    "sign": {"effect": "none", "suspends": True, "returns": {"type": "boolean"}},
    "sign_in": {"effect": "none", "suspends": True, "returns": {"type": "boolean"}},
}
ARGS: Final[tuple[dict[str, Any], ...]] = ({}, {"args": {"n": 1}}, {"args": {"n": 2}}, {"args": {"n": "$n"}})
"""The arguments of calls: the machine prepares those without a reference in advance."""

SUSPENDS: Final = ("sign", "sign_in")
FILES: Final = ("flows/pay/wide.json", "wide.json", "flows\\pay\\wide.json")
APPLIES: Final[tuple[list[str], ...]] = (
    ["wide"],
    ["other", "w*"],
    ["wide.json"],
    ["flows/*"],
    ["other", "pay/*.json"],
    ["flows"],
    ["wid"],
    ["WIDE"],
    ["ide.json"],
)
"""Patterns of names and paths of programs. Some do not match."""

MANNER: Final = Manner(beside=0.0, echoes=0.0, weights=((3, 0, 0, 0, 0, 20), (10, 1, 1, 1, 0, 20)))


def policies_case(seed: str) -> DrawnCase:
    """Return the case of a seed."""
    chance = Random(f"policies {seed}")
    ids = ["s" + "1" * number for number in range(chance.randint(2, 4))]
    tools = [chance.choice(SUSPENDS), *(chance.choice(list(TOOLS)) for _ in ids[1:])]
    steps = [
        {"id": name, "type": "tool", "tool": tool, **chance.choice(ARGS)} for name, tool in zip(ids, tools, strict=True)
    ]
    data = {"name": "wide", "inputs": {"n": {"type": "integer", "default": 2}}, "tools": TOOLS, "steps": steps}
    program = Program.from_json(json.dumps(data), chance.choice(FILES))
    names = chance.sample(NAMES, 4)
    policies = [_policy(chance, name, ids, tools) for name in names[: chance.choice((0, 1, 1, 2))]]
    later = [_policy(chance, name, ids, tools) for name in names[2:]]
    if chance.random() < 0.3:
        later.append(_policy(chance, names[0], ids, tools))
    return DrawnCase(program, seed, policies, later, MANNER, day=chance.choice(list(DAYS)))


def _policy(chance: Random, name: str, ids: list[str], tools: list[str]) -> Policy:
    data: dict[str, Any] = {"policy": name}
    known: list[str] = []
    if chance.random() < 0.5:
        rules = chance.sample(RULES, chance.randint(1, 3))
        data["guardrails"] = [{"name": rule, **_rule(chance, ids)} for rule in rules]
        known += rules
    if chance.random() < 0.5:
        missing = chance.sample(tools, chance.randint(0, 1))
        data["allow"] = [_allowed(chance, tool) for tool in TOOLS if tool not in missing]
        known.append("allow")
    if chance.random() < 0.3:
        data["four_eyes"] = [tool for tool in TOOLS if chance.random() < 0.5]
        known.append("four_eyes")
    if chance.random() < 0.75:
        waived = [rule for rule in (*known, *known, *RULES) if chance.random() < 0.4]
        data["waivers"] = [_waiver(chance, rule) for rule in dict.fromkeys(waived)]
    if chance.random() < 0.3:
        data["applies_to"] = chance.choice(APPLIES)
    return Policy.from_dict(data)


def _allowed(chance: Random, tool: str) -> str | dict[str, str]:
    return tool if chance.random() < 0.8 else {"tool": tool, "when": chance.choice(("$args.n < 2", "$args.n == 2"))}


def _waiver(chance: Random, rule: str) -> dict[str, str]:
    program = chance.choice(("wide", "wide", "wide", "wide", "wid", "wider"))
    expiry = chance.choice(("2099-01-01", "2099-01-01", "2026-01-01", "2025-12-31"))
    return {"program": program, "rule": rule, "reason": "r", "expiry": expiry}


def _rule(chance: Random, ids: list[str]) -> dict[str, Any]:
    def selected() -> dict[str, str]:
        return {"tool": chance.choice(list(TOOLS))} if chance.random() < 0.6 else {"step": chance.choice(ids)}

    return chance.choice(
        (
            {"never": selected()},
            {"at_most_once": selected()},
            {"protects": selected(), "requires": selected()},
            {"exclusive": [selected(), selected()]},
            {"followed_by": {"first": selected(), "then": selected()}, "ends": "any"},
        )
    )
