"""Small programs with calls: one small program is called by another, once or twice; and the same with for_each steps.

A call is a body that is performed once. `as_items` writes it so for the enumeration, which knows for_each steps.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from random import Random
from typing import Any, Final

from legal_programs import all_can_end, back_targets, redirect, settled, targets_of
from small_programs import small_program
from small_tools import INPUTS, KINDS, TOOLS

MOST_TRIES: Final = 400
MOST_STEPS: Final = 4

_REFERENCE: Final = re.compile(r"\$(\w+)")
_IDS: Final = ("step", "then", "otherwise", "next_step", "error_step", "id", "output_key")
_CAUGHT: Final = ("Unexpected", "Declared", "Uncovered", "Undefined", "Visits", "Declined")
_CONSTANTS: Final[dict[str, list[Any]]] = {"letter": ["a", "b", "c"], "flag": [True, False], "number": [0, 1, 2]}


def called_program(seed: int) -> dict[str, Any]:
    """Return the program of a seed: `c0` and perhaps `c1` call the program `p`."""
    for number in range(MOST_TRIES):
        chance = Random(f"{seed}/{number}/calls")
        seeds = [chance.randrange(1 << 30) for _ in range(2)]
        around = small_program(seeds[0])
        if len(around["steps"]) > MOST_STEPS:
            continue
        inner = small_program(seeds[1])
        if len(inner["steps"]) > MOST_STEPS:
            continue
        if "max_steps" in inner or "max_steps" in around:
            around = {**around, "max_steps": around.get("max_steps", 8) + chance.randint(2, 12)}
        if all(_is_whole(one["steps"], chance) for one in (around, inner)):
            return _Maker(around, inner, chance).program()
    raise AssertionError("no two small programs are small enough")


def _is_whole(steps: list[dict[str, Any]], chance: Random) -> bool:
    return len(settled([dict(step) for step in steps], chance)) == len(steps) and all_can_end(steps)


class _Maker:
    def __init__(self, around: dict[str, Any], inner: dict[str, Any], chance: Random) -> None:
        self.around, self.inner, self.chance = around, inner, chance

    def odds(self, share: float) -> bool:
        return self.chance.random() < share

    def call(self, name: str, following: str, below: list[str]) -> dict[str, Any]:
        step = {"id": name, "type": "call", "program": "p", "args": {one: self.value(one) for one in self.inputs}}
        if self.odds(0.15):
            step["on_error"] = "skip"
            return {**step, "next_step": following}
        if self.odds(0.15):
            step |= {"on_error": "retry", "max_retries": 2}
        if self.odds(0.3):
            step["error_step"] = self.chance.choice(below)
        elif self.odds(0.3):
            names = [["any"] if self.odds(0.3) else self.chance.sample(_CAUGHT, 2) for _ in range(2)]
            step["catch"] = [{"errors": one, "then": self.chance.choice(below)} for one in names]
        return {**step, "next_step": following}

    @property
    def inputs(self) -> dict[str, Any]:
        return {name: INPUTS[name] for name in self.inner["inputs"]}

    def value(self, name: str) -> Any:
        """Return an argument that is always of its type."""
        same = [f"${one}" for one in self.around["inputs"] if INPUTS[one] == INPUTS[name]]
        return self.chance.choice(same) if same and self.odds(0.6) else self.chance.choice(_CONSTANTS[KINDS[name]])

    def program(self) -> dict[str, Any]:
        steps = [dict(step) for step in self.around["steps"]]
        place = self.chance.randrange(len(steps))
        following = steps[place]["id"]
        redirect(steps, following, "c0")
        below = [step["id"] for step in steps[place:]]
        calls = [self.call("c1", following, below)] if self.odds(0.5) else []
        calls.insert(0, self.call("c0", "c1" if calls else following, below))
        if steps[-1]["type"] not in ("condition", "end") and not {"next_step", "is_terminal"} & set(steps[-1]):
            steps[-1]["is_terminal"] = True
        steps[place:place] = calls
        named = {target for step in steps for target in targets_of(step)}
        for number, step in enumerate(steps[:-1]):
            is_silent = step["type"] not in ("condition", "end") and not {"next_step", "is_terminal"} & set(step)
            if step["id"] in named and is_silent:
                step.update({"is_terminal": True} if "outcome" in step else {"next_step": steps[number + 1]["id"]})
        for step in calls if "max_steps" not in self.around else ():
            if step["id"] in back_targets(steps):
                step["max_visits"] = self.chance.randint(1, 2)
        own, others = self.rules(calls)
        called = {"inputs": self.inputs, "guardrails": own, "steps": self.inner["steps"]}
        tools = {name: self.tool(name) for name in sorted({*_tools(steps), *_tools(called["steps"])})}
        found: dict[str, Any] = {"name": "small", "language": 2, "inputs": self.around["inputs"], "tools": tools}
        if "max_steps" in self.around:
            found["max_steps"] = self.around["max_steps"]
        rules = [*self.around["guardrails"], *others]
        return {**found, "programs": {"p": called}, "guardrails": rules, "steps": steps}

    def tool(self, name: str) -> dict[str, Any]:
        known = (self.around["tools"].get(name, {}), self.inner["tools"].get(name, {}), TOOLS[name])
        return next((one for one in known if "errors" in one), TOOLS[name])

    def rules(self, calls: list[dict[str, Any]]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Return the rules of the called program, and those about its steps that belong to the caller."""
        own, others = [], []
        for one in self.inner["guardrails"]:
            rule = {**one, "name": f"p{one['name']}"}
            is_own = "followed_by" not in rule and ("when" in rule or self.odds(0.6))
            if "followed_by" in rule and rule.get("ends") != "any":
                is_own = Random(f"{rule}").random() < 0.5  # so that other programs of a seed stay what they are
            if is_own:
                own.append(rule)
            elif "when" not in rule:
                others.append(_named(rule, f"{self.chance.choice(calls)['id']}/"))
        return own, others


def _named(value: Any, prefix: str, key: str = "") -> Any:
    """Return a rule of the caller that names steps of a call."""
    if isinstance(value, dict):
        return {name: _named(one, prefix, name) for name, one in value.items()}
    if isinstance(value, list):
        return [_named(one, prefix) for one in value]
    return f"{prefix}{value}" if key == "step" else value


def _tools(steps: list[dict[str, Any]]) -> Iterator[str]:
    for step in steps:
        yield from (part["tool"] for part in (step, *step.get("parallel_steps", ())) if "tool" in part)


# -- the same with for_each steps --------------------------------------------------------------------------------------


def as_items(data: dict[str, Any]) -> dict[str, Any]:
    """Return a program in which each call is a for_each step with one item, and `c0/pay` is called `c0_pay`."""
    whole = {name: value for name, value in data.items() if name != "programs"}
    whole["steps"] = [
        _as_item(step, data["programs"]["p"]) if step["type"] == "call" else step for step in data["steps"]
    ]
    return {**whole, "guardrails": _flat(data["guardrails"])}


def flat_text(text: str) -> str:
    """Return a text in which steps of calls have the names that they have in `as_items`."""
    return re.sub(r"\bc([01])/", r"c\1_", text)


def _flat(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _flat(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_flat(one) for one in value]
    return flat_text(value) if isinstance(value, str) else value


def _as_item(step: dict[str, Any], called: dict[str, Any]) -> dict[str, Any]:
    inner = _Names(f"{step['id']}_", {part["id"] for one in called["steps"] for part in _parts(one)})
    kept = {name: value for name, value in step.items() if name not in ("type", "program", "args")}
    carry = {f"{inner.prefix}{name}": _as_carried(value) for name, value in step["args"].items()}
    rules = [{**inner.of(rule), "name": f"{inner.prefix}{rule['name']}"} for rule in called["guardrails"]]
    return {
        **kept,
        "type": "for_each",
        "items": ["one"],
        "as": f"{inner.prefix}item",
        "max_items": 1,
        "carry": carry,
        "guardrails": rules,
        "steps": [inner.of(one) for one in called["steps"]],
    }


def _as_carried(value: Any) -> Any:
    """Return an argument as a first value: a text there is an expression."""
    return f"'{value}'" if isinstance(value, str) and not value.startswith("$") else value


def _parts(step: dict[str, Any]) -> tuple[dict[str, Any], ...]:
    return (step, *step.get("parallel_steps", ()))


class _Names:
    """Puts a prefix before all names of a program, so that its steps may stand in another one."""

    def __init__(self, prefix: str, ids: set[str]) -> None:
        self.prefix, self.ids = prefix, ids

    def of(self, value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {self._key(name, key): self.of(one, name) for name, one in value.items()}
        if isinstance(value, list):
            return [self.of(one, "depends_on" if key == "depends_on" else "") for one in value]
        if not isinstance(value, str):
            return value
        if key == "depends_on" or (key in _IDS and (key != "then" or value in self.ids)):
            return f"{self.prefix}{value}"
        return _REFERENCE.sub(lambda found: found[0] if found[1] == "args" else f"${self.prefix}{found[1]}", value)

    def _key(self, name: str, key: str) -> str:
        return f"{self.prefix}{name}" if key == "set" else name
