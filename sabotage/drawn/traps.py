"""Beginnings of random programs in which a guard comes to count, or not, in a rare way."""

from __future__ import annotations

from random import Random
from typing import Any, Final

Step = dict[str, Any]

FEWEST: Final = 4
"""The number of steps that the longer of the beginnings has."""


def trap(chance: Random, ids: list[str]) -> tuple[list[Step], Step]:
    """Return the first steps of a program, for the first ids, and a rule about them, named `trap`."""
    is_short = len(ids) < FEWEST or chance.random() < 0.4
    return _guard_that_ends(chance, ids) if is_short else _stale_guard(chance, ids)


def _stale_guard(chance: Random, ids: list[str]) -> tuple[list[Step], Step]:
    """Something that a branch condition reads changes, in one of many ways, before the step that the branch guards."""
    first, gate, edit, last = ids[:4]
    edits = _edits(chance, edit)
    change, reads = chance.choice((*edits, edits[-1]))
    if chance.random() < 0.15:  # the condition reads something else
        reads = chance.choice(edits)[1]
    gated, branch = _gate(chance, chance.choice(reads), edit)
    steps: list[Step] = [
        {"id": first, "type": "set", "set": {"v": 1}, "next_step": gate},
        {"id": gate, "type": "condition", **gated},
        {"id": edit, **change, "next_step": last},
        {"id": last, "type": "tool", "tool": chance.choice(("get", "push"))},
    ]
    guard: Step = {"step": gate, "branch": branch}
    both = [guard, {"step": first}]
    chance.shuffle(both)
    required = chance.choice((guard, guard, {"all_of": both}))
    return steps, {"name": "trap", "protects": {"step": last}, "requires": required}


def _edits(chance: Random, edit: str) -> list[tuple[Step, tuple[str, ...]]]:
    """Return steps, each with what it may change: variables, outputs and errors, of itself or of its sub-steps."""
    call = {"type": "tool", "tool": chance.choice(("get", "open")), "on_error": "skip"}
    parts: list[Step] = [{"id": f"{edit}_{number}", **call} for number in range(chance.randint(1, 3))]
    chance.choice(parts)["output_key"] = "w"
    changed = [f"${part['id']}.{what}" for part in parts for what in ("output", "output", "error")]
    joined = {"type": "parallel", "parallel_steps": parts, "output_key": "vw", "on_error": "skip"}
    return [
        ({"type": "set", "set": {"v": 1}}, ("$v",)),
        ({**call, "output_key": "v"}, ("$v", f"${edit}.output", f"${edit}.error")),
        (joined, (*changed, "$w", "$vw", f"${edit}.output", f"${edit}.output.{parts[0]['id']}")),
    ]


def _gate(chance: Random, read: str, to: str) -> tuple[Step, str | int]:
    """Return the fields of a condition step that reads something at any place, and the branch that it takes."""
    holds = f"defined({read})" if read == "$v" else f"not defined({read})"
    if chance.random() < 0.5:
        return {"condition": _among(chance, holds), "then": to}, "then"
    cases = [{"when": "1 == 2", "then": to, "name": f"c{number}"} for number in range(chance.randint(1, 3))]
    always, reading = chance.randrange(len(cases)), chance.randrange(len(cases))
    cases[always]["when"] = "1 == 1"
    cases[reading]["when"] = _among(chance, holds if reading >= always else f"not ({holds})")
    return {"cases": cases}, chance.choice((always + 1, f"c{always}"))


def _among(chance: Random, condition: str) -> str:
    """Return a condition that holds if another one does, which is a part of it."""
    conditions = [condition, "1 == 1", "'a' == 'a'"][: chance.randint(1, 3)]
    chance.shuffle(conditions)
    return " and ".join(conditions)


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
    behind: Step = {"id": last, "type": "tool", "tool": chance.choice(("get_total", "push", "open"))}
    if behind["tool"] == "get_total":
        behind["args"] = {"n": 1}
    return [front, behind], {"name": "trap", "protects": {"step": last}, "requires": chance.choice(guards)}
