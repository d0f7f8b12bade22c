"""Errors by name in small programs: tools that list errors, `catch` and `retry`, and questions about `error_name`."""

from __future__ import annotations

from random import Random
from typing import Any, Final

from stepward.validator.analysis.graph import StepGraph
from stepward.vm import Program
from stepward.vm.language.flow import Flow

LISTED: Final = ("Declined", "Busy")
"""The errors that a tool of a small program may list."""

CAUGHT: Final = (*LISTED, "Unexpected", "BadOutput", "Timeout", "Undefined", "BadArguments", "Visits", "Dependency")


def with_named_errors(data: dict[str, Any], chance: Random, share: float) -> dict[str, Any]:
    """Return a program in which a `share` of the programs have errors by name, the same one else."""
    if chance.random() >= share:
        return data
    found = {**data, "language": 2, "tools": {name: _listing(tool, chance) for name, tool in data["tools"].items()}}
    ids = [step["id"] for step in data["steps"]]
    found["steps"] = [_changed(step, ids[number + 1 :], chance) for number, step in enumerate(data["steps"])]
    _settle(found["steps"], ids)
    _reach_all(found, data["steps"])
    _ask(found, chance)
    return found


def _listing(tool: dict[str, Any], chance: Random) -> dict[str, Any]:
    """Return a tool that lists errors, most often; one that does keeps them, because a condition may ask for one."""
    if "errors" in tool or chance.random() >= 0.8:
        return tool
    return {**tool, "errors": chance.sample(LISTED, chance.randint(1, 2))}


def _changed(step: dict[str, Any], below: list[str], chance: Random) -> dict[str, Any]:
    found = _with_retry(step, chance) if step["type"] in ("llm", "tool") else dict(step)
    if "parallel_steps" in found:
        found["parallel_steps"] = [_with_retry(part, chance) for part in found["parallel_steps"]]
    targets = [*below, *([found["error_step"]] if "error_step" in found else [])]
    is_call = found["type"] in ("llm", "tool", "parallel") and found.get("on_error") != "skip"
    if is_call and targets and chance.random() < 0.7:
        found.pop("error_step", None)
        entries = [_names(CAUGHT, chance, 0.3) for _ in range(chance.randint(1, 2))]
        found["catch"] = [{"errors": names, "then": chance.choice(targets)} for names in entries]
    return found


def _with_retry(call: dict[str, Any], chance: Random) -> dict[str, Any]:
    share = 0.5 if call["type"] == "llm" else 0.3
    if chance.random() >= share or call.get("on_error") == "retry":
        return dict(call)
    entry: dict[str, Any] = {"errors": _names((*LISTED, "Unexpected", "BadOutput"), chance, 0.3)}
    entry["max_attempts"] = chance.randint(1, 3)
    if chance.random() < 0.5:
        entry |= {"delay_seconds": chance.choice((0, 0.5, 4)), "backoff": 1.5, "max_delay_seconds": 5}
    return {**call, "retry": [entry]}


def _names(known: tuple[str, ...], chance: Random, any_share: float) -> list[str]:
    return ["any"] if chance.random() < any_share else chance.sample(known, chance.randint(1, 2))


def _settle(steps: list[dict[str, Any]], ids: list[str]) -> None:
    """Let every step that a `catch` names go on as before: an arm would end the run."""
    caught = {entry["then"] for step in steps for entry in step.get("catch", ())}
    for number, step in enumerate(steps[:-1]):
        is_silent = "next_step" not in step and "is_terminal" not in step and "outcome" not in step
        if step["id"] in caught and step["type"] not in ("condition", "end") and is_silent:
            step["next_step"] = ids[number + 1]


def _reach_all(data: dict[str, Any], before: list[dict[str, Any]]) -> None:
    """Let a `catch` lead where its step led on an error before, if nothing else leads there by now.

    All steps were reachable before, and only these transitions are gone: a step that no path leads to is behind one.
    """
    for step, old in zip(data["steps"], before, strict=True):
        for target in _targets(old) - _targets(step):
            graph = StepGraph(Flow(Program.from_dict(data)))
            if data["steps"].index(next(one for one in data["steps"] if one["id"] == target)) not in graph.reachable:
                step["catch"].append({"errors": ["any"], "then": target})


def _targets(step: dict[str, Any]) -> set[str]:
    named = [entry["then"] for entry in step.get("catch", ())]
    return {*named, *([step["error_step"]] if "error_step" in step else [])}


def _ask(data: dict[str, Any], chance: Random) -> None:
    """Let some condition ask for the name of an error."""
    calls = [
        part
        for step in data["steps"]
        for part in (step, *step.get("parallel_steps", ()))
        if part["type"] == "tool" and data["tools"][part["tool"]].get("errors")
    ]
    conditions = [step for step in data["steps"] if "condition" in step]
    if calls and conditions and chance.random() < 0.5:
        call, step = chance.choice(calls), chance.choice(conditions)
        name = chance.choice(data["tools"][call["tool"]]["errors"])
        asked = f"defined(${call['id']}.error_name) and ${call['id']}.error_name == '{name}'"
        step["condition"] = chance.choice([asked, f"({asked}) or ({step['condition']})", f"not ({asked})"])
