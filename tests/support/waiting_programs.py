"""Puts `wait` steps into programs; helpers only, no tests stand here."""

from __future__ import annotations

from copy import deepcopy
from random import Random
from typing import Any, Final

TIMES: Final[list[dict[str, Any]]] = [{"seconds": 0}, {"seconds": 86_400}, {"until": "2031-01-31T09:00:00+01:00"}]


def with_waits(data: dict[str, Any], chance: Random) -> dict[str, Any]:
    """Return a program that waits before its first step, and on some ways to a `next_step`."""
    found = {**deepcopy(data), "language": 2}
    steps = found["steps"]
    if steps[-1]["type"] == "end" or "next_step" in steps[-1]:
        for step in [one for one in steps if "next_step" in one]:
            if chance.random() < 0.6:
                name = f"w{len(steps)}"
                steps.append({"id": name, "type": "wait", **chance.choice(TIMES), "next_step": step["next_step"]})
                step["next_step"] = name
                if chance.random() < 0.2:
                    steps[-1]["max_visits"] = 1
    return {**found, "steps": [first_wait(steps, chance), *steps]}


def first_wait(steps: list[dict[str, Any]], chance: Random) -> dict[str, Any]:
    """Return a wait before the first step of a list."""
    return {"id": f"w{steps[0]['id']}", "type": "wait", **chance.choice(TIMES), "next_step": steps[0]["id"]}


def with_waits_in_bodies(data: dict[str, Any], chance: Random) -> dict[str, Any]:
    """Return a program that waits before the first step of each of its lists, bodies included."""
    found = {**deepcopy(data), "language": 2}
    found["steps"] = _waiting(found["steps"], chance)
    return found


def _waiting(steps: list[dict[str, Any]], chance: Random) -> list[dict[str, Any]]:
    for step in steps:
        if "steps" in step:
            step["steps"] = _waiting(step["steps"], chance)
        for branch in step.get("branches", {}).values():
            branch["steps"] = _waiting(branch["steps"], chance)
    return [first_wait(steps, chance), *steps]


def with_deadlines(data: dict[str, Any], chance: Random) -> dict[str, Any]:
    """Return a program in which tools without effect suspend, and most calls of them have a deadline."""
    found = {**deepcopy(data), "language": 2}
    slow = [name for name, tool in found["tools"].items() if tool.get("effect") in ("read", "none")]
    for name in slow:
        found["tools"][name]["suspends"] = True
    for step in found["steps"]:
        for part in (step, *step.get("parallel_steps", ())):
            if part.get("tool") in slow and chance.random() < 0.8:
                part["deadline_seconds"] = chance.choice((1, 86_400))
                if "error_step" in part and "retry" not in part and chance.random() < 0.6:
                    part["catch"] = [{"errors": [chance.choice(("Deadline", "any"))], "then": part.pop("error_step")}]
    return found
