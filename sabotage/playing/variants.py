"""Variants of a target: the same program with a change."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

from stepward.sabotage.target import Target
from stepward.vm.language.policy import Policy
from stepward.vm.language.program import Program


def variant(target: Target, key: str, change: Callable[[dict[str, Any]], None]) -> Target:
    """Return a target whose program data `change` has modified. `key` identifies the variant."""

    def make() -> Target:
        data = copy.deepcopy(target.program.to_dict())
        change(data)
        return Target(Program.from_dict(data), unbound(target), target.routes)

    return target.once(("variant", key), make)


def under(target: Target, key: str, policy: dict[str, Any]) -> Target:
    """Return the target with one more policy."""

    def make() -> Target:
        program = Program.from_dict(target.program.to_dict())
        return Target(program, (*unbound(target), Policy.from_dict(policy)), target.routes)

    return target.once(("under", key), make)


def unbound(target: Target) -> tuple[Policy, ...]:
    """Return the policies of a target without `applies_to`, since a variant has no path."""
    return tuple(policy.model_copy(update={"applies_to": None}) for policy in target.policies)


def lists_in(data: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Return the lists of steps in the data of a program, which they replace: its own under an empty name, and each
    body under the id of its step or the name of its branch."""
    found: dict[str, list[dict[str, Any]]] = {}
    open_ = [("", data)]
    for name, holder in open_:
        found[name] = holder["steps"] = list(holder["steps"])
        open_ += [(step["id"], step) for step in found[name] if "steps" in step]
        open_ += [one for step in found[name] for one in step.get("branches", {}).items()]
    return found


def step_in(data: dict[str, Any], step: str) -> dict[str, Any]:
    """Return a step, in whichever body it is, or in a called program: that of `charge/ask` is `ask` there."""
    holder, name = _holder(data, step)
    return next(one for steps in lists_in(holder).values() for one in steps if one["id"] == name)


def calls_in(data: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the llm and tool steps and sub-steps in the data of a program, and of those that it lists."""
    for steps in lists_in(data).values():
        for step in steps:
            if step["type"] in ("llm", "tool"):
                yield step
            yield from step.get("parallel_steps", ())
            if "do" in step:
                yield step["do"]
    for program in data.get("programs", {}).values():
        yield from calls_in(program)


def call_in(data: dict[str, Any], step: str) -> dict[str, Any]:
    """Return the call of a step; one in a called program is changed for each call of that program."""
    holder, name = _holder(data, step)
    return next(call for call in calls_in({**holder, "programs": {}}) if call["id"] == name)


def _holder(data: dict[str, Any], step: str) -> tuple[dict[str, Any], str]:
    """Return the data of the program in which a step stands, and the id that it has there."""
    holder, known, way = data, dict(data.get("programs", {})), step
    while "/" in way:
        ids = [one for steps in lists_in(holder).values() for one in steps if one["type"] == "call"]
        own = next((one for one in ids if way.startswith(f"{one['id']}/")), None)
        if own is None:
            break
        holder, way = known[own["program"]], way[len(own["id"]) + 1 :]
        known |= holder.get("programs", {})
    return holder, way
