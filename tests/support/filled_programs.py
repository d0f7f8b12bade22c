"""Small programs that pass a text with references to a tool that declares what it takes, and whether the call fails."""

from __future__ import annotations

from itertools import product
from random import Random
from typing import Any, Final

from stepward.vm.errors import EvaluationError
from stepward.vm.expressions.evaluator import evaluate
from stepward.vm.expressions.parser import parse
from stepward.vm.expressions.template import fill
from stepward.vm.language.types import TypeSpec, fits
from stepward.vm.values import freeze

TEXT: Final = {"type": "string"}
SOURCES: Final[tuple[dict[str, Any], ...]] = (
    TEXT,
    {**TEXT, "maxLength": 2},
    {**TEXT, "minLength": 1, "maxLength": 3},
    {**TEXT, "pattern": "^[a-c]+$"},
    {**TEXT, "pattern": "^[0-9]{2}$"},
    {**TEXT, "pattern": "^a"},
    {**TEXT, "pattern": "b$", "maxLength": 3},
    {**TEXT, "pattern": "a|b"},
    {**TEXT, "enum": ["a", "bc"]},
    {"type": "integer", "minimum": 0},
    {"type": "integer", "minimum": -10, "maximum": 9},
    {"type": "number", "minimum": 0, "maximum": 2},
    {"type": "boolean"},
    {"type": ["string", "null"], "maxLength": 2},
    {"type": ["integer", "null"], "minimum": 0, "maximum": 99},
)
TAKEN: Final[tuple[dict[str, Any], ...]] = (
    TEXT,
    *({**TEXT, "maxLength": most} for most in (2, 3, 4, 5, 7)),
    *({**TEXT, "minLength": least} for least in (1, 2, 3)),
    {**TEXT, "minLength": 2, "maxLength": 4},
    *({**TEXT, "pattern": pattern} for pattern in ("^R-", "^R-[a-c]+$", "^R-[0-9]+$", "^[^0-9]+$", "[ab]$", "^.?a")),
    {**TEXT, "enum": ["R-a", "R-bc", "a"]},
    {**TEXT, "enum": ["R-true", "R-false", "R-null", "bc"]},
)
SHAPES: Final = ("$s", "R-$s", "R-$s", "$s!", "$s$t", "R-$s $t", "$s$s", "$$$s")
CONDITIONS: Final = (
    None,
    None,
    "len($s) <= 2",
    "len($s) > 1",
    "$s starts_with 'a'",
    "$s in ['a', 'bc']",
    "$s != ''",
    "matches($s, '^[a-c]+$')",
    "len($s) <= 2 and len($t) <= 1",
)
NUMBERS: Final = (0, 1, 2, 5, 9, 10, 99, 100, 12345, -1, -5, -9, -10, -100, 0.5, 1.25)
SIGNS: Final = ("a", "b", "c", "1", "9", "-", "\n", "R", "!", "é")


def filled_program(seed: int) -> dict[str, Any]:
    """Return a program with a rule that is broken where the last call can fail before its start."""
    chance = Random(f"filled {seed}")
    sources = {name: chance.choice(SOURCES) for name in ("s", "t")}
    condition, steps, inputs = chance.choice(CONDITIONS), [], dict(sources)
    text = chance.choice(SHAPES)
    if condition is not None and not all(sources[name]["type"] == "string" for name in ("s", "t")):
        condition = None
    tools: dict[str, Any] = {
        "check": {"effect": "write", "idempotent": True},
        "pay": {"effect": "write", "idempotent": True, "args": {"t": chance.choice(TAKEN)}},
    }
    match chance.choice(("input", "input", "output", "copy", "item")):
        case "output":
            tools["look"] = {"effect": "read", "returns": inputs.pop("s")}
            steps.append({"id": "look_it_up", "type": "tool", "tool": "look", "output_key": "s"})
        case "copy":
            inputs["u"] = inputs.pop("s")
            steps.append({"id": "copy", "type": "set", "set": {"s": "$u"}})
    if condition is not None:
        steps.append({"id": "asked", "type": "condition", "condition": condition, "then": "first", "otherwise": "done"})
    steps.append({"id": "first", "type": "tool", "tool": "check", "next_step": "pay_out"})
    steps.append({"id": "pay_out", "type": "tool", "tool": "pay", "args": {"t": text}, "next_step": "done"})
    steps.append({"id": "done", "type": "end"})
    rule = {"name": "paid", "followed_by": {"first": {"tool": "check"}, "then": {"tool": "pay"}}}
    return {"name": "filled", "language": 2, "inputs": inputs, "tools": tools, "guardrails": [rule], "steps": steps}


def misfits(data: dict[str, Any]) -> bool:
    """Return whether some values of the types, among a few, lead to a text that the tool does not take."""
    steps = {step["id"]: step for step in data["steps"]}
    specs = {name: spec for name, spec in data["inputs"].items() if name in ("s", "t")}
    specs.setdefault("s", data["tools"].get("look", {}).get("returns") or data["inputs"].get("u"))
    spec = TypeSpec.model_validate(data["tools"]["pay"]["args"]["t"])
    condition = parse(steps["asked"]["condition"], 2) if "asked" in steps else None
    text = steps["pay_out"]["args"]["t"]
    for s, t in product(_values(specs["s"]), _values(specs["t"]) if "$t" in str(steps) else ["a"]):
        known = {"s": s, "t": t}

        def lookup(names: tuple[str, ...], known: dict[str, Any] = known) -> Any:
            return known[names[0]]

        try:
            if condition is not None and evaluate(condition, lookup) is not True:
                continue
        except EvaluationError:
            continue
        if not fits(freeze(fill(text, lookup)), spec):
            return True
    return False


def _values(data: dict[str, Any]) -> list[Any]:
    """Return the values of a type among all short texts of some signs, some longer ones, and some numbers."""
    spec = TypeSpec.model_validate(data)
    texts = ["", *SIGNS, *map("".join, product(SIGNS, repeat=2)), *map("".join, product("abc1", repeat=3))]
    texts += ["aaaa", "abcab", "a1bcb", "ab" * 5, "b" * 120]
    return [one for one in (None, True, False, *map(freeze, NUMBERS), *texts) if fits(one, spec)]
