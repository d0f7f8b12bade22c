"""Beginnings of random programs in which a guard comes to count, or not, in a rare way."""

from __future__ import annotations

from random import Random
from typing import Any, Final

Step = dict[str, Any]

FEWEST: Final = 4
"""The number of steps that the longer of the beginnings has."""


def trap(chance: Random, ids: list[str]) -> tuple[list[Step], Step]:
    """Return the first steps of a program, for the first ids, and a rule about them."""
    is_short = len(ids) < FEWEST or chance.random() < 0.6
    return _guard_that_ends(chance, ids) if is_short else _stale_guard(chance, ids)


def _stale_guard(chance: Random, ids: list[str]) -> tuple[list[Step], Step]:
    """A variable of a branch condition is assigned before the step that the branch guards."""
    first, gate, edit, last = ids[:4]
    edits: list[Step] = [
        {"id": edit, "type": "set", "set": {chance.choice("vw"): 1}},
        {"id": edit, "type": "tool", "tool": "get", "output_key": chance.choice("vw"), "on_error": "skip"},
    ]
    steps: list[Step] = [
        {"id": first, "type": "set", "set": {"v": 1}, "next_step": gate},
        {"id": gate, "type": "condition", "condition": chance.choice(("$v == 1", "defined($v)")), "then": edit},
        chance.choice(edits) | {"next_step": last},
        {"id": last, "type": "tool", "tool": chance.choice(("get", "push"))},
    ]
    return steps, {"name": "r0", "protects": {"step": last}, "requires": {"step": gate, "branch": "then"}}


def _guard_that_ends(chance: Random, ids: list[str]) -> tuple[list[Step], Step]:
    """A call, alone or within a parallel step, ends in any way, and the step behind it requires its success."""
    first, last = ids[:2]
    part: Step = {"id": first, "type": "tool", "tool": chance.choice(("get", "get", "sign", "mail", "pay"))}
    part |= chance.choice(({}, {"on_error": "skip"}, {"on_error": "retry", "max_retries": 2}))
    if part["tool"] == "pay":
        part["args"] = {"amount": chance.choice((5, 51))}  # more than 50 is not of its type
    if chance.random() < 0.5:
        fallback = {"get": "m", "mail": "m", "sign": True, "pay": 7}[part["tool"]]
        part |= {"timeout_seconds": 2, "on_timeout": "fallback", "fallback": fallback}
    front = part
    if chance.random() < 0.6:
        part["id"] = f"{first}_0"
        other = {"id": f"{first}_1", "type": "tool", "tool": "get", "on_error": "skip"}
        front = {"id": first, "type": "parallel", "parallel_steps": [part, other]}
        front |= chance.choice(({}, {"on_error": "skip"}))
    front["next_step"] = last
    if front.get("on_error") != "skip":
        front["error_step"] = last
    guards: list[Step] = [{"step": part["id"]}, {"tool": part["tool"]}, {"step": first}]
    behind: Step = {"id": last, "type": "tool", "tool": chance.choice(("fetch", "push", "open"))}
    if behind["tool"] == "fetch":
        behind["args"] = {"n": 1}
    return [front, behind], {"name": "r0", "protects": {"step": last}, "requires": chance.choice(guards)}
