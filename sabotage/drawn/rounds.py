"""Random small programs in which items carry values on, fail, and are tried again."""

from __future__ import annotations

from random import Random
from typing import Any, Final

from stepward.sabotage.drawn.machine import DrawnCase
from stepward.sabotage.drawn.world import Manner
from stepward.vm import Program
from stepward.vm.machine.state import Limits

Step = dict[str, Any]

ERRORS: Final = ("Declined", "Busy")
TOOLS: Final[dict[str, dict[str, Any]]] = {
    "get": {"effect": "read", "errors": list(ERRORS), "returns": {"type": "integer", "minimum": 0, "maximum": 9}},
    "mail": {"effect": "write", "idempotent": True, "errors": ["Busy"]},
    "sign": {"effect": "none", "suspends": True, "returns": {"type": ["boolean", "null"]}},
}
MANNER: Final = Manner(
    beside=0.0,
    echoes=0.0,
    weights=((6, 2, 0, 0, 0, 0), (9, 4, 1, 0, 0, 1), (5, 3, 0, 0, 0, 1), (20, 2, 0, 0, 0, 1), (3, 2, 0, 0, 0, 0)),
)
"""Answers of which many are errors: then the step may be tried again, from its first item on."""

LISTS: Final[tuple[Any, ...]] = ([1, 2], [1, 2, 3], [3, 1, 2], [5], [], ["$x", 4], "$l", "$l", [[1, 2], [3]])
FIRSTS: Final[tuple[Any, ...]] = (0, "$x + 1", "$count", 10)
SHARE_TRIED_AGAIN: Final = 0.4
"""The share of cases whose items come in order, carry on, and often fail, so that the step is tried again."""

SHARE_OF_CROWDS: Final = 0.2
"""The share of cases whose items all run at once, and of which several fail, with different errors."""

WAYS: Final[tuple[Step, ...]] = (
    {"on_error": "retry", "max_retries": 2, "error_step": "failed"},
    {"on_error": "retry", "max_retries": 3, "error_step": "failed"},
    {"on_error": "retry", "max_retries": 2},
    {"on_error": "skip"},
    {"error_step": "failed"},
    {"catch": [{"errors": ["Declined"], "then": "declined"}, {"errors": ["Declared", "Busy"], "then": "failed"}]},
    {"catch": [{"errors": ["Uncovered", "Visits"], "then": "declined"}, {"errors": ["any"], "then": "failed"}]},
)


def rounds_case(seed: str) -> DrawnCase:
    """Return the case of a seed: a `for_each` step, visited once or twice, and steps that read what it left."""
    chance = Random(f"rounds {seed}")
    share = chance.random()
    is_tried = share < SHARE_TRIED_AGAIN
    is_crowd = share > 1 - SHARE_OF_CROWDS
    each = _tried(chance) if is_tried else _crowd(chance) if is_crowd else _each(chance, "each", "it", "n", depth=0)
    again = {"id": "again", "type": "condition", "condition": "$count < 2", "then": "each", "otherwise": "last"}
    values = {"total": "$total", "seen": "$seen"}
    steps = [
        {"id": "zero", "type": "set", "set": {"count": 0, "total": 7, "seen": ["first"]}, "next_step": "each"},
        {**each, **chance.choice(WAYS[:3] if is_tried else WAYS), "next_step": chance.choice(("keep", "note", "note"))},
        {"id": "keep", "type": "set", "set": {"kept": {**values, "out": "$each.output"}}, "next_step": "note"},
        {"id": "failed", "type": "set", "set": {"why": "$each.error_name"}, "next_step": "note"},
        {
            "id": "declined",
            "type": "set",
            "set": {"one": "defined($each.errors) and len($each.errors) == 1"},
            "next_step": "note",
        },
        {"id": "note", "type": "set", "set": {"count": "$count + 1"}, "next_step": chance.choice(("again", "last"))},
        again,
        {"id": "last", "type": "end"},
    ]
    inputs = {"x": {"type": "integer", "minimum": 0, "maximum": 4}}
    inputs["l"] = {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 9}, "maxItems": 3}
    data = {"name": "rounds", "language": 2, "inputs": inputs, "tools": TOOLS, "steps": steps, "max_steps": 150}
    if chance.random() < 0.15:
        data["max_steps"] = chance.choice((12, 18, 25))
    budgets = Random(f"budgets {seed}")
    if budgets.random() < 0.2 and "max_concurrency" not in str(each):
        data["max_stalled_steps"] = budgets.choice((1, 2, 2, 3))
    return DrawnCase(Program.from_dict(data), seed, manner=MANNER, limits=Limits(steps=200))


def _tried(chance: Random) -> Step:
    """Return a for_each step that is tried again once an item fails; the items before it have carried something on."""
    carry: Step = {"total": chance.choice(FIRSTS), "seen": chance.choice(([], ["$x"]))}
    call = {"id": "eachc", "type": "tool", "tool": "get", "args": {"of": "$total"}}
    adds = _adds(["total", "seen"], "eacha", "it", "n", "own")
    steps = [adds, call] if chance.random() < 0.7 else [call, adds]
    steps += _refusals(chance, "each", "n") if chance.random() < 0.2 else []
    steps.append({"id": "eachz", "type": "end", "output": chance.choice(("$total", "$seen", "$n"))})
    each = {
        "id": "each",
        "type": "for_each",
        "as": "it",
        "index_as": "n",
        "max_items": 3,
        "carry": carry,
        "steps": steps,
    }
    return {**each, "items": chance.choice(([1, 2], [1, 2, 3], "$l", [4, 5, "$x"]))}


def _crowd(chance: Random) -> Step:
    """Return a for_each step whose items all start before one can fail."""
    call = {"id": "eachc", "type": "tool", "tool": "get", "args": {"of": "$it"}}
    steps = [call, *(_refusals(chance, "each", "n") if chance.random() < 0.5 else [])]
    steps.append({"id": "eachz", "type": "end", "output": "$n"})
    each = {"id": "each", "type": "for_each", "as": "it", "index_as": "n", "max_items": 3, "max_concurrency": 3}
    return {**each, "steps": steps, "items": chance.choice(([1, 2, 3], [4, 5], [6, 7, "$x"]))}


def _each(chance: Random, name: str, item: str, index: str, depth: int) -> Step:
    """Return a for_each step whose items add to a total, and to a list; each may fail in some way."""
    step: Step = {"id": name, "type": "for_each", "as": item, "index_as": index, "max_items": 3}
    step["items"] = chance.choice(LISTS) if depth == 0 else chance.choice(([1, 2], f"${item[:-1]}", "$l"))
    step["on_item_error"] = chance.choice(("fail", "skip"))
    is_beside = chance.random() < 0.3
    own = f"own{depth}"
    carried = chance.choice((["total"], ["total", "seen"], ["seen"], [])) if not depth else ["sub"]
    if is_beside:
        step["max_concurrency"] = 2
        carried = []
    if carried:
        firsts = {"total": chance.choice(FIRSTS), "seen": chance.choice(([], ["$x"], "$seen")), "sub": 1}
        step["carry"] = {one: firsts[one] for one in carried}
    if depth == 0 and chance.random() < 0.12:
        step.pop("carry", None)
        return {**step, "do": _call(chance, f"{name}c", item)}
    steps: list[Step] = []
    if chance.random() < 0.6:
        steps.append(_adds(carried, f"{name}a", item, index, own))
    steps.append(_call(chance, f"{name}c", item) if depth or chance.random() < 0.7 else _inner(chance, name, item))
    if chance.random() < 0.6 or not steps:
        steps.append(_adds(carried, f"{name}b", item, index, own))
    if chance.random() < 0.35:
        steps += _refusals(chance, name, index)
    outputs = [f"${one}" for one in (*carried, item, index)]
    steps.append({"id": f"{name}z", "type": "end", "output": chance.choice((*outputs, {"was": outputs}, None))})
    step["steps"] = steps
    return step


def _adds(carried: list[str], name: str, item: str, index: str, own: str) -> Step:
    """Return a `set` step that gives each carried variable a value made of the one before."""
    sums = {"total": f"$total + {'$' + index} + 1", "seen": f"$seen + [${item}]", "sub": f"$sub * 2 + ${index}"}
    return {"id": name, "type": "set", "set": {one: sums[one] for one in carried} or {own: f"${index}"}}


def _inner(chance: Random, name: str, item: str) -> Step:
    """Return a for_each step in the body of another one."""
    inner = _each(chance, f"{name}i", f"{item}s", "m", depth=1)
    return inner | chance.choice(({}, {"on_error": "retry", "max_retries": 2}, {"on_error": "skip"}))


def _call(chance: Random, name: str, item: str) -> Step:
    call: Step = {"id": name, "type": "tool", "tool": chance.choice(("get", "get", "get", "mail", "sign"))}
    call["args"] = {"of": f"${item}"}
    more: tuple[Step, ...] = ({}, {}, {"on_error": "skip"}, {"on_error": "retry", "max_retries": 2})
    timed = {"timeout_seconds": 2} if chance.random() < 0.3 and call["tool"] == "get" else {}
    return call | chance.choice(more) | timed


def _refusals(chance: Random, name: str, index: str) -> list[Step]:
    """Return steps after which an item may end without success."""
    question = {"id": f"{name}q", "type": "condition", "condition": f"${index} == {chance.choice((0, 1, 1))}"}
    bad: Step = {"id": f"{name}x", "type": "end", "outcome": "failure", "output": "no"}
    ways: tuple[list[Step], ...] = (
        [{**question, "then": bad["id"], "otherwise": f"{name}z"}, bad],
        [{**question, "otherwise": f"{name}z"}],
        [{**question, "then": f"{name}v", "otherwise": f"{name}z"}, _again(name)],
    )
    return chance.choice(ways)


def _again(name: str) -> Step:
    """Return a step that goes round until its visits are used up."""
    return {"id": f"{name}v", "type": "set", "set": {f"{name}r": 1}, "max_visits": 2, "next_step": f"{name}v"}
