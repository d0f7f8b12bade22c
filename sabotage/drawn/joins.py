"""Random small programs in which branches wait for each other and fail in many ways, and what a join makes of it."""

from __future__ import annotations

from random import Random
from typing import Any, Final

from stepward.sabotage.drawn.machine import DrawnCase
from stepward.sabotage.drawn.world import Manner
from stepward.vm import Program
from stepward.vm.machine.state import Limits

Step = dict[str, Any]

TOOLS: Final[dict[str, dict[str, Any]]] = {
    "get": {
        "effect": "read",
        "errors": ["Declined", "Busy", "Lost"],
        "returns": {"type": "integer", "minimum": 0, "maximum": 9},
    },
    "mail": {"effect": "write", "idempotent": True, "errors": ["Busy"]},
    "sign": {"effect": "none", "suspends": True, "returns": {"type": ["boolean", "null"]}},
}
MANNER: Final = Manner(
    beside=0.0,
    echoes=0.0,
    weights=((5, 3, 0, 0, 0, 0), (9, 2, 0, 0, 0, 1), (3, 4, 0, 0, 0, 1), (20, 1, 0, 0, 0, 2)),
)
SHARE_CROSSED: Final = 0.35
"""The share of cases in which the first branch by name depends on the last one, and several fail."""

ENDINGS: Final[tuple[Step, ...]] = (
    {"on_error": "skip"},
    {"error_step": "failed"},
    {"catch": [{"errors": ["Declined", "Visits"], "then": "declined"}, {"errors": ["any"], "then": "failed"}]},
    {
        "catch": [
            {"errors": ["Busy", "Declared"], "then": "declined"},
            {"errors": ["Lost", "Uncovered"], "then": "failed"},
        ]
    },
    {"catch": [{"errors": ["Dependency"], "then": "declined"}, {"errors": ["any"], "then": "failed"}]},
)


def joins_case(seed: str) -> DrawnCase:
    """Return the case of a seed: a parallel step with branches, which is visited once or twice, and steps that read
    what they came to."""
    chance = Random(f"joins {seed}")
    names = chance.sample(("a", "b", "c", "d"), chance.choice((2, 3, 4, 4)))
    branches: dict[str, Any] = {}
    is_crossed = chance.random() < SHARE_CROSSED
    if is_crossed:
        names.sort(reverse=True)
    for number, name in enumerate(names):
        needs = [one for one in names[:number] if chance.random() < 0.6 / number]
        if is_crossed:
            needs = names[:1] if name == names[-1] else []
        branches[name] = {"depends_on": needs} if needs else {}
        refusals = (0.9 if number else 0.0) if is_crossed else 0.5 if needs else 0.3
        branches[name]["steps"] = _steps(chance, name, needs, refusals)
    if chance.random() < 0.15:
        branches[names[0]]["guardrails"] = [{"name": "inside", "at_most_once": {"tool": "get"}}]
    ask = {"id": "ask", "type": "set", "set": {"was": chance.choice((1, "$count"))}, "next_step": "fork"}
    outputs = {name: f"${name}.output" for name in chance.sample(names, min(2, len(names)))}
    one = chance.choice(names)
    conditions = {"one": f"defined(${one}.error)", "two": f"defined(${one}.output)", "three": "defined($fork.output)"}
    steps = [
        {"id": "zero", "type": "set", "set": {"count": 0}},
        ask,
        {
            "id": "fork",
            "type": "parallel",
            "branches": branches,
            "output_key": "all",
            **chance.choice(ENDINGS),
            "next_step": "told",
        },
        {"id": "keep", "type": "set", "set": {"kept": outputs}, "next_step": "note"},
        {"id": "told", "type": "set", "set": conditions, "next_step": chance.choice(("note", "note", "keep"))},
        {"id": "failed", "type": "set", "set": {"why": "$fork.error_name"}, "next_step": "told"},
        {"id": "declined", "type": "set", "set": {"other": f"defined(${one}.error_name)"}, "next_step": "note"},
        {"id": "note", "type": "set", "set": {"count": "$count + 1"}, "next_step": chance.choice(("again", "last"))},
        {"id": "again", "type": "condition", "condition": "$count < 2", "then": "ask", "otherwise": "last"},
        {"id": "last", "type": "end", "output": chance.choice((None, "$all", f"${one}.output"))},
    ]
    data: dict[str, Any] = {
        "name": "joins",
        "language": 2,
        "inputs": {},
        "tools": TOOLS,
        "steps": steps,
        "max_steps": 120,
    }
    if chance.random() < 0.4:
        data["guardrails"] = [{"name": "rule", **_rule(chance, names)}]
    return DrawnCase(Program.from_dict(data), seed, manner=MANNER, limits=Limits(steps=150))


def _steps(chance: Random, name: str, needs: list[str], refusals: float) -> list[Step]:
    """Return the steps of a branch: a call, in a share of `refusals` a way to fail, and an end."""
    read = f"${chance.choice(needs)}.output" if needs and chance.random() < 0.5 else "$was"
    call: Step = {"id": f"{name}c", "type": "tool", "tool": chance.choice(("get", "get", "get", "mail", "sign"))}
    call |= {
        "args": {"of": read},
        **chance.choice(({}, {}, {}, {"on_error": "skip"}, {"on_error": "retry", "max_retries": 2})),
    }
    steps = [call] if chance.random() < 0.85 else []
    if chance.random() < 0.4 or not steps:
        steps.append({"id": f"{name}s", "type": "set", "set": {"own": read}})
    if chance.random() < refusals:
        return [*steps, *_refusal(chance, name)]
    if chance.random() < 0.85:
        outputs: tuple[Any, ...] = (read, {"of": read, "by": name}, None, name)
        steps.append({"id": f"{name}z", "type": "end", "output": chance.choice(outputs)})
    return steps


def _refusal(chance: Random, name: str) -> list[Step]:
    """Return steps after which a branch may end without success."""
    question = {
        "id": f"{name}q",
        "type": "condition",
        "condition": chance.choice(("$was == 1", "$count == 1", "1 == 1", "1 == 1")),
    }
    around = {"id": f"{name}v", "type": "set", "set": {f"{name}r": 1}, "max_visits": 1, "next_step": f"{name}v"}
    bad: Step = {"id": f"{name}x", "type": "end", "outcome": "failure", "output": "no"}
    ways: tuple[list[Step], ...] = (
        [{**question, "then": bad["id"], "otherwise": f"{name}z"}, bad],
        [{**question, "otherwise": f"{name}z"}],
        [{**question, "then": around["id"], "otherwise": f"{name}z"}, around],
    )
    return [*chance.choice(ways), {"id": f"{name}z", "type": "end", "output": name}]


def _rule(chance: Random, names: list[str]) -> dict[str, Any]:
    """Return a rule of what two branches do, or of one and what comes behind the join."""
    one, other = chance.sample(names, 2)
    first: Step = chance.choice(({"step": f"{one}c"}, {"tool": "get"}, {"step": "ask"}))
    then: Step = chance.choice(({"step": f"{other}c"}, {"step": "note"}, {"step": "told"}, {"tool": "mail"}))
    kinds: tuple[dict[str, Any], ...] = (
        {"protects": then, "requires": first},
        {"protects": then, "requires": first},
        {"followed_by": {"first": first, "then": then}, "ends": chance.choice(("any", "success"))},
        {"exclusive": [first, then]},
        {"at_most_once": first},
    )
    return chance.choice(kinds)
