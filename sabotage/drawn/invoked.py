"""Random programs with calls: a drawn program is called by another, once or in a loop, with its inputs as arguments."""

from __future__ import annotations

from random import Random
from typing import Any, Final

from stepward.sabotage.drawn.bodies import BODIES, MANNERS, body_program
from stepward.sabotage.drawn.machine import DrawnCase
from stepward.sabotage.drawn.waiting import with_waits
from stepward.vm import Program
from stepward.vm.machine.state import Limits

BUDGETS: Final = ("max_steps", "max_stalled_steps", "max_tokens", "max_cost", "timeout_seconds")
SMALL: Final = BODIES._replace(kinds=(*("call",) * 5, "condition", "set", "for_each", "end"), most_steps=4)
"""The theme of the programs that are called."""


def invoking_program(seed: str) -> dict[str, Any]:
    """Return the program of a seed: it calls a drawn one twice, or within items, and goes on when that fails."""
    chance = Random(f"calls {seed}")
    inner = body_program(seed, SMALL).program
    inner = with_waits(inner, Random(f"waits in calls {seed}"), 0.3)
    called = {name: value for name, value in inner.items() if name not in (*BUDGETS, "tools", "language")}
    inputs = dict(inner["inputs"])
    for name in sorted(inputs):
        if chance.random() < 0.2 and "default" not in inputs[name]:
            inputs[name] = {}  # the caller knows less than the called program
    steps = _calls(chance, called)
    if chance.random() < 0.4:
        steps = [
            {
                "id": "each",
                "type": "for_each",
                "items": [1, 2],
                "as": "one",
                "steps": [step if step.get("error_step") != "z" else without(step) for step in steps],
                "on_item_error": chance.choice(["fail", "skip"]),
            }
        ]
        last: Any = ["$each.output"]
    else:
        last = [f"$c0.{chance.choice(['output', 'error', 'error_name'])}"]
    steps.append({"id": "z", "type": "end", "output": chance.choice([last, None, None])})
    budgets = {name: value for name, value in inner.items() if name in BUDGETS}
    rules = [{"name": "top", "at_most_once": {"tool": name}} for name in list(inner.get("tools") or ())[:1]]
    whole: dict[str, Any] = {"name": "top", "language": 2, "inputs": inputs, **budgets, "programs": {"p": called}}
    if "tools" in inner:
        whole["tools"] = inner["tools"]
        if chance.random() < 0.4:  # the worse word counts
            stricter = {name: {**tool, "effect": "write"} for name, tool in inner["tools"].items()}
            called["tools"] = stricter if chance.random() < 0.5 else inner["tools"]
            if chance.random() < 0.3:
                del whole["tools"]
    if chance.random() < 0.3:
        whole["guardrails"] = rules
    return {**whole, "steps": steps}


def _calls(chance: Random, called: dict[str, Any]) -> list[dict[str, Any]]:
    """Return one or two calls, with steps between them that read what they give."""
    steps: list[dict[str, Any]] = []
    for number in range(chance.randint(1, 2)):
        args: dict[str, Any] = {name: f"${name}" for name in called["inputs"]}
        if number and "x" in args and chance.random() < 0.4:
            args["x"] = chance.choice([0, 7, "$first_output", [1], "no number"])
        step: dict[str, Any] = {"id": f"c{number}", "type": "call", "program": "p", "args": args}
        if chance.random() < 0.5:
            step["output_key"] = f"r{number}"
        if chance.random() < 0.3:
            step["returns"] = chance.choice(
                [{"type": "number"}, {"type": ["string", "null"]}, {"enum": [1, "a", None]}]
            )
        step |= chance.choice([{}, {"on_error": "skip"}, {"on_error": "retry", "max_retries": 2}, {"error_step": "z"}])
        if chance.random() < 0.2:
            step["max_visits"] = 2
        steps.append(step)
        if chance.random() < 0.5:
            steps.append({"id": f"s{number}", "type": "set", "set": {"first_output": f"$c{number}.output"}})
    return steps


def without(step: dict[str, Any]) -> dict[str, Any]:
    """Return a step that names no other."""
    return {name: value for name, value in step.items() if name != "error_step"}


def invoked_case(seed: str) -> DrawnCase:
    """Return the case of a seed: a program with calls, and a world."""
    chance = Random(f"limits {seed}")
    program = Program.from_dict(invoking_program(seed))
    return DrawnCase(program, seed, manner=chance.choice(MANNERS), limits=Limits(steps=chance.choice((20, 60, 120))))
