"""Errors by name, put into drawn programs: tools that list errors, `catch`, `retry` and reads of `error_name`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from random import Random
from typing import Any, Final

LISTED: Final = ("Declined", "Busy", "VeryBusy", "Lost")
"""Errors that tools may list; what tools raise is drawn apart from it."""

OTHERS: Final = ("Unexpected", "Timeout", "BadOutput")
EARLY: Final = ("Undefined", "BadArguments", "BadValue", "Refused", "Visits", "Dependency")
OF_BODIES: Final = ("TooManyItems", "Declared", "Uncovered")

LONG: Final = 130
"""A delay in seconds after which the lease of a dead process is over, and more."""

_ERROR: Final = re.compile(r"\$(\w+)\.(?:error|output)\b(?![.\w])")
_QUESTION: Final = re.compile(r"defined\(\$(\w+)\.error_name\)")


def with_errors(data: dict[str, Any], chance: Random, share: float) -> dict[str, Any]:
    """Return a program with errors by name in a `share` of the cases, else the same one. It is not changed."""
    if chance.random() >= share:
        return data
    tools = {name: _listing(tool, chance) for name, tool in data.get("tools", {}).items()}
    steps = _all_changed(data["steps"], chance)
    return {**data, "language": 2, "steps": steps} | ({"tools": tools} if "tools" in data else {})


def listing_policy(tools: Iterable[str], chance: Random) -> dict[str, Any]:
    """Return a policy that lists errors of tools, beside those that a program lists."""
    found = {name: {"errors": chance.sample(LISTED, chance.randint(1, 2))} for name in tools if chance.random() < 0.7}
    return {"policy": "names", "tools": found}


def _listing(tool: dict[str, Any], chance: Random) -> dict[str, Any]:
    if chance.random() < 0.3:
        return tool
    return {**tool, "errors": chance.sample(LISTED, chance.randint(0, len(LISTED)))}


def _all_changed(steps: list[dict[str, Any]], chance: Random) -> list[dict[str, Any]]:
    ids = [step["id"] for step in steps]
    found = [_changed(step, ids, chance) for step in steps]
    settle_arms(found)
    return found


def _changed(step: dict[str, Any], ids: list[str], chance: Random) -> dict[str, Any]:
    found = _with_retry(step, chance) if step["type"] in ("llm", "tool") else dict(step)
    if "steps" in found:
        found["steps"] = _all_changed(found["steps"], chance)
    if "branches" in found:
        found["branches"] = {
            name: {**branch, "steps": _all_changed(branch["steps"], chance)}
            for name, branch in found["branches"].items()
        }
    if "do" in found:
        found["do"] = _with_retry(found["do"], chance)
    known = (*LISTED, *OTHERS, *EARLY, *(OF_BODIES if found["type"] == "for_each" else ()))
    if "parallel_steps" in found:
        found["parallel_steps"] = [_with_retry(part, chance) for part in found["parallel_steps"]]
    if (
        found["type"] in ("llm", "tool", "compute", "parallel", "for_each")
        and found.get("on_error") != "skip"
        and chance.random() < 0.7
    ):
        found.pop("error_step", None)
        entries = [_names(known, chance) for _ in range(chance.randint(1, 3))]
        found["catch"] = [{"errors": names, "then": chance.choice(ids)} for names in entries]
    return {
        name: value if name in ("steps", "do", "branches") else _reading(value, chance) for name, value in found.items()
    }


def _with_retry(call: dict[str, Any], chance: Random) -> dict[str, Any]:
    if chance.random() < 0.5 or call.get("on_error") == "retry":
        return dict(call)
    return {**call, "retry": [_entry(chance) for _ in range(chance.randint(1, 2))]}


def _entry(chance: Random) -> dict[str, Any]:
    entry: dict[str, Any] = {"errors": _names((*LISTED, *OTHERS), chance)}
    if chance.random() < 0.8:
        entry["max_attempts"] = chance.randint(1, 4)
    if chance.random() < 0.5:
        entry |= {"delay_seconds": chance.choice((0, 0.5, 3)), "backoff": chance.choice((1, 2, 1.5))}
    if chance.random() < 0.1:
        entry |= {"delay_seconds": LONG, "backoff": 1}
    if chance.random() < 0.3:
        entry["max_delay_seconds"] = chance.choice((0, 2, 60))
    return entry


def _names(known: tuple[str, ...], chance: Random) -> list[str]:
    return ["any"] if chance.random() < 0.3 else chance.sample(known, chance.randint(1, 3))


def _reading(value: Any, chance: Random) -> Any:
    """Return a value in which some references to an error or an output are to the name of an error."""
    if isinstance(value, str):
        renamed = _ERROR.sub(lambda found: f"${found[1]}.error_name" if chance.random() < 0.3 else found[0], value)
        return _QUESTION.sub(lambda found: _with_name(found, chance), renamed)
    if isinstance(value, dict):
        return {name: _reading(item, chance) for name, item in value.items()}
    return [_reading(item, chance) for item in value] if isinstance(value, list) else value


def _with_name(found: re.Match[str], chance: Random) -> str:
    name = chance.choice((*LISTED, *OTHERS, *EARLY))
    return found[0] if chance.random() < 0.5 else f"({found[0]} and ${found[1]}.error_name == '{name}')"


def settle_arms(steps: list[dict[str, Any]]) -> None:
    """Make the successor explicit for every step that could be an ambiguous arm."""
    named = {step.get(field) for step in steps for field in ("then", "otherwise", "error_step")}
    named |= {entry["then"] for step in steps for entry in (*step.get("cases", ()), *step.get("catch", ()))}
    for number, step in enumerate(steps):
        if step["type"] in ("condition", "end") or "next_step" in step or step.get("is_terminal"):
            continue
        if step["id"] in named:
            step.update({"next_step": steps[number + 1]["id"]} if number + 1 < len(steps) else {"is_terminal": True})
