"""Rules as they stand in the middle of a chain of runs; helpers only, no tests stand here."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from random import Random
from typing import Any


def any_past(rule: dict[str, Any], names: list[str], chance: Random) -> Any:
    """Return any state in which a run may have left a rule; None for the state at a start."""
    if "requires" in rule:
        count = len({repr(guard) for guard in single(rule["requires"])})
        levels = [chance.choice(["never", "stale", "fresh", "fresh"]) for _ in range(count)]
        return [{"level": level, "reads": chance.sample(names, min(len(names), 2))} for level in levels]
    if "exclusive" in rule:
        return [chance.random() < 0.5, chance.random() < 0.5]
    return None if "never" in rule else chance.random() < 0.7


def single(requirement: dict[str, Any]) -> Iterator[dict[str, Any]]:
    inner = requirement.get("all_of") or requirement.get("any_of")
    for part in inner or ():
        yield from single(part)
    if not inner:
        yield requirement


def assigned(data: dict[str, Any]) -> list[str]:
    """Return the variables and outputs that a program assigns."""
    found = {name for step in data["steps"] for name in step.get("set", ())}
    for step in data["steps"]:
        for part in (step, *step.get("parallel_steps", ())):
            found |= {part["output_key"]} if "output_key" in part else set()
            found |= {f"{part['id']}.output"} if part["type"] == "tool" else set()
    return sorted(found)


def candidates(data: dict[str, Any], chance: Random) -> list[dict[str, Any]]:
    """Return rules for a program: its own, and some that ask for what only a run before can have done."""
    own = deepcopy(data["guardrails"])
    tools = sorted(
        {
            part["tool"]
            for step in data["steps"]
            for part in (step, *step.get("parallel_steps", ()))
            if part["type"] == "tool"
        }
    )
    if not tools:
        return own
    tool, other = ({"tool": chance.choice(tools)} for _ in range(2))
    gate = {"step": "gate0", "branch": "then"}
    own += [
        {"name": "gated", "protects": tool, "requires": gate},
        {"name": "signed", "protects": tool, "requires": chance.choice(
            [{"tool": "sign"}, {"any_of": [gate, {"tool": "sign"}]}, {"all_of": [gate, other]}])},
        {"name": "either", "exclusive": [{"tool": "open"}, tool]},
        {"name": "once", "at_most_once": tool},
        {"name": "closed", "followed_by": {"first": {"tool": "open"}, "then": tool},
         **chance.choice([{}, {"ends": "success"}, {"ends": "any"}])},
    ]  # fmt: skip
    return own
