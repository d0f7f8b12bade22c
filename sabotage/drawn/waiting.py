"""Time in drawn programs: steps that wait in place of some that set a variable, and deadlines of suspended calls."""

from __future__ import annotations

from random import Random
from typing import Any, Final

GOOD: Final[tuple[dict[str, Any], ...]] = (
    {"seconds": 0},
    {"seconds": 864_000},
    {"seconds": 864_000.000001},
    {"seconds": 864_000.0000001},
    {"until": "2001-02-03T04:05:06Z"},
    {"until": "2033-12-31T23:59:59.9999999+01:30"},
    {"until": "2040-02-29t00:00:00-00:15"},
)
"""How long steps wait. No clock of a case gets to the end of a wait by itself, but where it is over at once."""

WAITS: Final = (*GOOD, {"seconds": "$x"}, {"seconds": "$v"}, {"until": "$s"}, {"until": "2050-01-01T00:00:0$x"})
"""The same, and some that fail, for some values or always."""

DEADLINES: Final = (864_000, 864_000.0000001, 1_000_000)
"""How long suspended calls wait. No clock of a case gets to a deadline by itself."""

SHARE_OF_DEADLINES: Final = 0.8

_KEPT: Final = ("next_step", "is_terminal", "outcome", "max_visits")


def with_waits(data: dict[str, Any], chance: Random, share: float) -> dict[str, Any]:
    """Return a program in which some `set` steps wait, in a `share` of the cases, else the same one. It is not
    changed."""
    if chance.random() >= share:
        return data
    steps = _all_waiting(data["steps"], chance)
    return data if steps == data["steps"] else {**data, "language": 2, "steps": steps}


def with_deadlines(data: dict[str, Any], chance: Random) -> dict[str, Any]:
    """Return a program in which some calls of tools that suspend have a deadline. It is not changed."""
    slow = {name for name, tool in data.get("tools", {}).items() if tool.get("suspends")}
    steps = _all_dated(data["steps"], chance, slow)
    return data if steps == data["steps"] else {**data, "language": 2, "steps": steps}


def _all_dated(steps: list[dict[str, Any]], chance: Random, slow: set[str]) -> list[dict[str, Any]]:
    found = []
    for step in steps:
        dated = dict(step)
        if step.get("tool") in slow and chance.random() < SHARE_OF_DEADLINES:
            dated["deadline_seconds"] = chance.choice(DEADLINES)
            if "error_step" in dated and "retry" not in dated and chance.random() < 0.5:
                dated["catch"] = [{"errors": [chance.choice(("Deadline", "any"))], "then": dated.pop("error_step")}]
        for name in ("steps", "parallel_steps"):
            if name in step:
                dated[name] = _all_dated(step[name], chance, slow)
        if "do" in step:
            dated["do"] = _all_dated([step["do"]], chance, slow)[0]
        if "branches" in step:
            dated["branches"] = {
                name: {**branch, "steps": _all_dated(branch["steps"], chance, slow)}
                for name, branch in step["branches"].items()
            }
        found.append(dated)
    return found


def _all_waiting(steps: list[dict[str, Any]], chance: Random) -> list[dict[str, Any]]:
    """Return the steps of a list, those of bodies included, with some that wait, perhaps also at the start."""
    found = [_waiting(one, chance) if one["type"] == "set" and chance.random() < 0.5 else dict(one) for one in steps]
    for step in found:
        if "steps" in step:
            step["steps"] = _all_waiting(step["steps"], chance)
        if "branches" in step:
            step["branches"] = {
                name: {**branch, "steps": _all_waiting(branch["steps"], chance)}
                for name, branch in step["branches"].items()
            }
    if chance.random() < 0.6:
        first = found[0]["id"]
        found.insert(0, {"id": f"w{first}", "type": "wait", **chance.choice(GOOD), "next_step": first})
    return found


def _waiting(step: dict[str, Any], chance: Random) -> dict[str, Any]:
    fields: dict[str, Any] = {name: step[name] for name in _KEPT if name in step}
    return {"id": step["id"], "type": "wait", **chance.choice(WAITS), **fields}


LIMITS: Final = (432_000, 1_296_000.5, 2_160_000, 4_752_000)
"""How long runs may take: days from the ends of all waits, so that no leap of a clock decides what comes first."""


def with_limit(data: dict[str, Any], chance: Random, share: float) -> dict[str, Any]:
    """Return a program whose runs may take some days, in a `share` of the cases, else the same one."""
    if chance.random() >= share:
        return data
    return {**data, "language": 2, "timeout_seconds": chance.choice(LIMITS)}
