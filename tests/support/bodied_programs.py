"""Small programs with for_each steps: one small program in the body of a step of another one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from random import Random
from typing import Any, Final

from legal_programs import all_can_end, back_targets, redirect, settled
from small_programs import small_program
from small_tools import INPUTS, KINDS, LETTERS, STARTS, TOOLS

MOST_TRIES: Final = 400
MOST_STEPS: Final = 5

_REFERENCE: Final = re.compile(r"\$(\w+)")
_NAMES: Final = ("step", "then", "otherwise", "next_step", "error_step", "id")
_CAUGHT: Final = ("Unexpected", "TooManyItems", "Declared", "Uncovered", "Undefined", "Visits", "BadOutput", "Declined")


def bodied_program(seed: int) -> dict[str, Any]:
    """Return the program of a seed."""
    for number in range(MOST_TRIES):
        chance = Random(f"{seed}/{number}/bodies")
        seeds = [chance.randrange(1 << 30) for _ in range(2)]
        around = small_program(seeds[0])
        if len(around["steps"]) > MOST_STEPS:
            continue
        body = small_program(seeds[1])
        if len(body["steps"]) > MOST_STEPS:
            continue
        if "max_steps" in body or "max_steps" in around:
            around = {**around, "max_steps": around.get("max_steps", 8) + chance.randint(2, 10)}
        if all(_is_whole(one["steps"], chance) for one in (around, body)):
            return _Maker(around, body, chance).program()
    raise AssertionError("no two small programs are small enough")


def _is_whole(steps: list[dict[str, Any]], chance: Random) -> bool:
    """Return whether edges lead to all steps, and from each one to an ending."""
    return len(settled([dict(step) for step in steps], chance)) == len(steps) and all_can_end(steps)


class _Maker:
    def __init__(self, around: dict[str, Any], body: dict[str, Any], chance: Random) -> None:
        self.around, self.body, self.chance = around, body, chance
        self.item = chance.choice(list(body["inputs"]))
        self.kind = KINDS[self.item]
        self.assigned = sorted({name for step in body["steps"] for name in _assigned(step)})
        self.carried = [f"b{name}" for name in self.assigned if name in KINDS and self.odds(0.4)]
        self.is_single = self.odds(0.12)

    def odds(self, share: float) -> bool:
        return self.chance.random() < share

    # -- the body ------------------------------------------------------------------------------------------------------

    def renamed(self, value: Any, key: str = "") -> Any:
        """Return a part of the body under names of its own; what was the input is the item."""
        if isinstance(value, dict):
            names = key in ("set", "carry")
            return {f"b{name}" if names else name: self.renamed(one, name) for name, one in value.items()}
        if isinstance(value, list):
            return [self.renamed(one, "errors" if key == "errors" else "") for one in value]
        if not isinstance(value, str):
            return value
        if key == "output_key" or (key in _NAMES and key != "then") or (key == "then" and value in self.ids):
            return f"b{value}"
        return _REFERENCE.sub(self._reference, value)

    def _reference(self, found: re.Match[str]) -> str:
        name = found[1]
        if name == self.item:
            return "$x"
        return f"$b{name}" if name in self.ids or name in self.assigned else found[0]

    @property
    def ids(self) -> set[str]:
        parts = (part for step in self.body["steps"] for part in (step, *step.get("parallel_steps", ())))
        return {part["id"] for part in parts}

    def steps(self) -> list[dict[str, Any]]:
        found = [self.renamed(step) for step in self.body["steps"]]
        if self.odds(0.2):
            asking = [step for step in found if "condition" in step]
            for step in asking[:1]:
                step["condition"] = self.chance.choice(["$i == 0", f"$i > 0 or ({step['condition']})"])
        if self.odds(0.12):
            found.insert(0, {**self.inner(), "next_step": found[0]["id"]})
        elif self.odds(0.5) and _is_silent(found[-1]) and "outcome" not in found[-1]:
            found[-1]["next_step"] = "bin"
            found.append({**self.inner(), "is_terminal": True, "outcome": self.chance.choice(["success", "failure"])})
        return found

    def inner(self) -> dict[str, Any]:
        """Return a for_each step with a single call, for the body of another one."""
        call: dict[str, Any] = {"id": "bcall", "type": "tool", "tool": "mail", "args": {"x": "$y"}}
        if self.odds(0.3):
            call["on_error"] = "skip"
        step = {
            "id": "bin",
            "type": "for_each",
            "items": ["a", "b"][: self.chance.randint(1, 2)],
            "as": "y",
            "do": call,
        }
        if self.odds(0.4):
            step["on_item_error"] = "skip"
        return {**step, "max_items": 2}

    # -- the step ------------------------------------------------------------------------------------------------------

    def each(self, following: str, below: list[str]) -> dict[str, Any]:
        step: dict[str, Any] = {"id": "each", "type": "for_each", "items": self.items(), "as": "x", "max_items": 2}
        steps = self.steps()
        if any("$i" in text for text in _texts(steps)) or self.odds(0.1):
            step["index_as"] = "i"
        call = next((one for one in steps if one["type"] in ("llm", "tool") and self.stands_alone(one)), None)
        if self.is_single and call is not None:
            step["do"] = {key: one for key, one in call.items() if key not in _OF_STEPS}
            self.carried = [name for name in self.carried if name == call.get("output_key")]
        else:
            step["steps"] = steps
        if self.carried:
            step["carry"] = {name: self.first(name[1:]) for name in self.carried}
        if self.odds(0.35):
            step["on_item_error"] = "skip"
        if self.odds(0.15):
            step["max_visits"] = self.chance.randint(1, 2)
        if self.odds(0.1):
            step["output_key"] = "receipts"
        if self.odds(0.1):
            step["max_items"] = 1
        self.fail(step, below)
        return {**step, "next_step": following}

    @staticmethod
    def stands_alone(call: dict[str, Any]) -> bool:
        """Return whether a call reads nothing that other steps of the body assign."""
        return not any(name.startswith("b") for text in _texts(call) for name in _REFERENCE.findall(text))

    def items(self) -> Any:
        if self.odds(0.7):
            return "$l"
        known: dict[str, list[Any]] = {"letter": LETTERS, "flag": [True, False], "number": [0, 1, 2]}
        of_kind = [f"${name}" for name in self.around["inputs"] if KINDS[name] == self.kind]
        return [self.chance.choice([*known[self.kind], *of_kind]) for _ in range(self.chance.randint(1, 2))]

    def first(self, name: str) -> Any:
        of_kind = [f"${one}" for one in self.around["inputs"] if KINDS[one] == KINDS[name]]
        return self.chance.choice(of_kind) if of_kind and self.odds(0.3) else self.chance.choice(STARTS[KINDS[name]])

    def fail(self, step: dict[str, Any], below: list[str]) -> None:
        roll = self.chance.random()
        if roll < 0.12:
            step["on_error"] = "skip"
            return
        if roll < 0.24:
            step |= {"on_error": "retry", "max_retries": 2}
        if self.odds(0.25):
            step["error_step"] = self.chance.choice(below)
        elif self.odds(0.3):
            names = [["any"] if self.odds(0.3) else self.chance.sample(_CAUGHT, 2) for _ in range(2)]
            step["catch"] = [{"errors": one, "then": self.chance.choice(below)} for one in names]

    # -- the whole -----------------------------------------------------------------------------------------------------

    def program(self) -> dict[str, Any]:
        steps = [dict(step) for step in self.around["steps"]]
        place = self.chance.randrange(len(steps))
        following = steps[place]["id"]
        redirect(steps, following, "each")
        each = self.each(following, [step["id"] for step in steps[place:]])
        after: list[dict[str, Any]] = []
        if _is_silent(steps[-1]):
            steps[-1]["is_terminal"] = True
        if self.carried:
            each["next_step"] = "after"
            asked = self.asked(self.carried[0])
            after = [
                {"id": "after", "type": "condition", "condition": asked, "then": following, "otherwise": "stopped"}
            ]
            steps.append({"id": "stopped", "type": "end", "outcome": "failure"})
        steps[place:place] = [each, *after]
        named = {target for step in steps for target in _targets(step)}
        for number, step in enumerate(steps[:-1]):
            if step["id"] in named and _is_silent(step):
                step.update({"is_terminal": True} if "outcome" in step else {"next_step": steps[number + 1]["id"]})
        if "max_steps" not in self.around and "each" in back_targets(steps):
            each["max_visits"] = self.chance.randint(1, 2)
        own, others = self.rules(each)
        if own:
            each["guardrails"] = own
        inputs = {**self.around["inputs"], **self.body["inputs"]}
        inputs["l"] = {"type": "array", "items": INPUTS[self.item], "maxItems": 2}
        tools = {name: self.tool(name) for name in sorted(set(_tools(steps)))}
        found = {"name": "small", "language": 2, "inputs": inputs, "tools": tools}
        if "max_steps" in self.around:
            found["max_steps"] = self.around["max_steps"]
        return {**found, "guardrails": [*self.around["guardrails"], *others], "steps": steps}

    def asked(self, name: str) -> str:
        return {"letter": f"${name} == 'a'", "flag": f"${name}", "number": f"${name} > 0"}[KINDS[name[1:]]]

    def tool(self, name: str) -> dict[str, Any]:
        known = (self.around["tools"].get(name, {}), self.body["tools"].get(name, {}), TOOLS[name])
        return next((one for one in known if "errors" in one), TOOLS[name])

    def rules(self, each: dict[str, Any]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        """Return the rules of the body, and those about its steps that belong to the program."""
        inside = {part["id"] for step in each.get("steps", [each.get("do")]) for part in _all_parts(step)}
        own, others = [], []
        names = {name for step in each.get("steps", ()) for name in _assigned(step)} | set(self.carried)
        names |= {"x", "i", "args", *self.around["inputs"], *self.body["inputs"]}
        for rule in self.body["guardrails"]:
            found = {**self.renamed(rule), "name": f"body{rule['name']}"}
            read = set(_REFERENCE.findall(found.get("when", "")))
            if not set(_ids_in(found)) <= inside or not read <= names:
                continue
            is_own = "followed_by" not in found and (bool(read & {"x", "i"}) or self.odds(0.5))
            if "followed_by" in found and found.get("ends") != "any":
                is_own = Random(f"{found}").random() < 0.5  # so that other programs of a seed stay what they are
            (own if is_own else others).append(found)
        return own, others


_OF_STEPS: Final = ("next_step", "is_terminal", "outcome", "error_step", "catch", "max_visits")


def _assigned(step: dict[str, Any]) -> Iterator[str]:
    yield from step.get("set", ())
    for part in (step, *step.get("parallel_steps", ())):
        if "output_key" in part:
            yield part["output_key"]


def _targets(step: dict[str, Any]) -> list[str]:
    fields = [step.get("then"), step.get("otherwise"), step.get("error_step")]
    return [
        one for one in (*fields, *(part["then"] for part in (*step.get("cases", ()), *step.get("catch", ())))) if one
    ]


def _is_silent(step: dict[str, Any]) -> bool:
    return step["type"] not in ("condition", "end") and "next_step" not in step and "is_terminal" not in step


def _all_parts(step: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield from (step, *step.get("parallel_steps", ()))
    for inner in (*step.get("steps", ()), *([step["do"]] if "do" in step else ())):
        yield from _all_parts(inner)


def _tools(steps: list[dict[str, Any]]) -> Iterator[str]:
    for step in steps:
        yield from (part["tool"] for part in _all_parts(step) if "tool" in part)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _texts(inner)


def _ids_in(rule: Any) -> Iterator[str]:
    """Yield the steps that a rule names."""
    if isinstance(rule, dict):
        if isinstance(rule.get("step"), str):
            yield rule["step"]
        for inner in rule.values():
            yield from _ids_in(inner)
    for inner in rule if isinstance(rule, list) else ():
        yield from _ids_in(inner)
