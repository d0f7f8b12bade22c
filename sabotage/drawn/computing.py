"""Compute steps, put into drawn programs in place of some that set a variable."""

from __future__ import annotations

from random import Random
from typing import Any, Final

from stepward.sabotage.drawn.errors import settle_arms

EXPRESSIONS: Final = (
    "data/a",
    "(inc data/a)",
    "(str data/a data/b)",
    "[data/a {:of data/b}]",
    "{:total (if (number? data/a) (* 2 data/a) 1) :note (str data/b)}",
    "(when (number? data/a) (/ data/a 3))",
    '(get data/a "total" 3)',
    "(count data/a)",
    "(= data/a data/b)",
    '(if data/a "ok" (fail "no"))',
    "(reduce + 0 (range 5))",
    "(loop [n 0] (recur (inc n)))",
    "inc",
)
"""Expressions over `data/a` and `data/b`; some of them fail, for some values or always."""

RETURNS: Final[tuple[dict[str, Any] | None, ...]] = (
    None,
    None,
    {"type": "number"},
    {"type": ["string", "null"]},
    {"type": "object", "properties": {"total": {"type": "number"}}, "required": ["total"]},
    {"type": ["number", "string"], "sensitive": True},
)
READ: Final = ("$x", "$s", "$h", "$v", "$w", "$o", "$l", "$u", "is $s and $x", 5, [1, "$v"])
LONG: Final = "(loop [n 0] (recur (inc n)))"
"""An expression that takes all its steps, so it is rare."""

_KEPT: Final = ("next_step", "is_terminal", "outcome", "max_visits")


def with_compute(data: dict[str, Any], chance: Random, share: float) -> dict[str, Any]:
    """Return a program in which some `set` steps compute, in a `share` of the cases, else the same one. It is not
    changed."""
    if chance.random() >= share:
        return data
    steps = _all_computing(data["steps"], chance)
    if steps == data["steps"]:
        return data
    return {**data, "language": 2, "steps": steps}


def _all_computing(steps: list[dict[str, Any]], chance: Random) -> list[dict[str, Any]]:
    """Return the steps of a list, those of bodies included, with some that compute."""
    ids = [step["id"] for step in steps]
    found = [_computing(step, ids, chance) if step["type"] == "set" else dict(step) for step in steps]
    for step in found:
        if "steps" in step:
            step["steps"] = _all_computing(step["steps"], chance)
        for branch in step.get("branches", {}).values():
            branch["steps"] = _all_computing(branch["steps"], chance)
    if found != steps:
        settle_arms(found)
    return found


def _computing(step: dict[str, Any], ids: list[str], chance: Random) -> dict[str, Any]:
    text = chance.choice(EXPRESSIONS)
    if text == LONG and chance.random() < 0.9:
        text = EXPRESSIONS[0]
    found = {"id": step["id"], "type": "compute", "lisp": text}
    found["args"] = {"a": chance.choice(READ), "b": chance.choice(READ)}
    if chance.random() < 0.8:
        found["output_key"] = next(iter(step["set"]))
    returns = chance.choice(RETURNS)
    if returns is not None:
        found["returns"] = returns
    match chance.random():
        case draw if draw < 0.3:
            found["on_error"] = "skip"
        case draw if draw < 0.6:
            found["error_step"] = chance.choice(ids)
    return found | {name: step[name] for name in _KEPT if name in step}
