"""Makes the control flow of a drawn program legal: every step says where it goes, and can end."""

from __future__ import annotations

from random import Random
from typing import Any


def redirect(steps: list[dict[str, Any]], name: str, to: str) -> None:
    """Send everyone who goes to a step to another one."""
    for step in steps:
        for part in (step, *step.get("cases", ()), *step.get("catch", ())):
            for field in ("then", "otherwise", "error_step", "next_step"):
                if part.get(field) == name:
                    part[field] = to


def all_parts(steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [part for step in steps for part in (step, *step.get("parallel_steps", ()))]


def branches_of(step: dict[str, Any]) -> list[Any]:
    found: list[Any] = [field for field in ("then", "otherwise") if field in step]
    return found + [case.get("name", number) for number, case in enumerate(step.get("cases", ()), start=1)]


def targets_of(step: dict[str, Any]) -> list[str]:
    """Return the steps that a step names as arms."""
    named = [step.get("then"), step.get("otherwise"), step.get("error_step")]
    entries = (*step.get("cases", ()), *step.get("catch", ()))
    return [target for target in (*named, *(entry["then"] for entry in entries)) if target]


def _following(steps: list[dict[str, Any]], number: int, arms: set[str]) -> list[str]:
    """Return the steps to which edges lead from a step."""
    step = steps[number]
    found = targets_of(step)
    if "next_step" in step:
        found.append(step["next_step"])
    elif _falls(steps, number, arms):
        found.append(steps[number + 1]["id"])
    return found


def _falls(steps: list[dict[str, Any]], number: int, arms: set[str]) -> bool:
    return _is_silent(steps[number]) and steps[number]["id"] not in arms and number + 1 < len(steps)


def _is_silent(step: dict[str, Any]) -> bool:
    return step["type"] not in ("condition", "end") and "next_step" not in step and "is_terminal" not in step


def settled(steps: list[dict[str, Any]], chance: Random) -> list[dict[str, Any]]:
    """Return the steps that edges lead to, with every ambiguous arm told where to go."""
    while True:
        arms = {target for step in steps for target in targets_of(step)}
        for number, step in enumerate(steps[:-1]):
            is_entered = number == 0 or _falls(steps, number - 1, arms)
            if _is_silent(step) and step["id"] in arms and (is_entered or chance.random() < 0.5):
                step["next_step"] = steps[number + 1]["id"]
        found, pending = set(), [0]
        position = {step["id"]: number for number, step in enumerate(steps)}
        while pending:
            number = pending.pop()
            if number not in found:
                found.add(number)
                pending += [position[name] for name in _following(steps, number, arms)]
        if len(found) == len(steps):
            for number, step in enumerate(steps):
                _without_idle_outcome(step, ends=not _following_on_success(steps, number, arms))
            return steps
        steps = [steps[number] for number in sorted(found)]


def _following_on_success(steps: list[dict[str, Any]], number: int, arms: set[str]) -> bool:
    return "next_step" in steps[number] or _falls(steps, number, arms)


def _without_idle_outcome(step: dict[str, Any], *, ends: bool) -> None:
    """An outcome belongs to a step after which the run ends."""
    if step["type"] != "end" and not ends:
        step.pop("outcome", None)


def back_targets(steps: list[dict[str, Any]]) -> set[str]:
    """Return the steps that an edge enters from below, or from themselves."""
    arms = {target for step in steps for target in targets_of(step)}
    position = {step["id"]: number for number, step in enumerate(steps)}
    pairs = ((number, target) for number in range(len(steps)) for target in _following(steps, number, arms))
    return {target for number, target in pairs if position[target] <= number}


def all_can_end(steps: list[dict[str, Any]]) -> bool:
    """Whether from every step edges lead to an ending that the program declares."""
    arms = {target for step in steps for target in targets_of(step)}
    position = {step["id"]: number for number, step in enumerate(steps)}
    good = {
        number
        for number, step in enumerate(steps)
        if step["type"] != "condition" and not _following_on_success(steps, number, arms)
    }
    while True:
        more = {
            number
            for number in range(len(steps))
            if number not in good and any(position[name] in good for name in _following(steps, number, arms))
        }
        if not more:
            return len(good) == len(steps)
        good |= more
