"""Small programs in which `set` assigns fields of objects: a new field, one that is there, and one further down.

The object is an input's copy, the output of a tool, or one that `set` builds. What the fields are is asked before and
behind the assignment, in conditions, in rules and by other assignments; every run can be enumerated.
"""

from __future__ import annotations

from random import Random
from typing import Any, Final

_N: Final = {"type": "integer", "minimum": 0, "maximum": 2}
_S: Final = {"type": "string", "enum": ["a", "b"]}
_TYPES: Final[list[dict[str, Any]]] = [
    {"type": "object", "properties": {"n": _N, "s": _S}, "required": ["n", "s"]},
    {"type": "object", "properties": {"n": _N, "s": _S}, "required": ["n"]},
    {
        "type": "object",
        "properties": {
            "n": _N,
            "d": {"type": "object", "properties": {"n": _N, "s": _S}, "required": ["n"]},
        },
        "required": ["n", "d"],
    },
    {"type": "object", "properties": {"n": _N, "d": {"type": "object", "properties": {"s": _S}}}},
]
_BUILT: Final[list[Any]] = [
    {"n": 1, "s": "a"},
    {"n": "$i", "s": "$t"},
    {"n": 0, "d": {"n": "$i", "s": "b"}},
    {"n": "$i", "d": {"s": "$t"}},
]
_NUMBERS: Final = ("n", "d.n")
_TEXTS: Final = ("s", "d.s")


def path_program(seed: int) -> dict[str, Any]:
    """Return the program of a seed."""
    return _Writer(Random(f"{seed}/paths")).program()


class _Writer:
    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self.fields: list[str] = ["n"]

    def program(self) -> dict[str, Any]:
        tools = {
            "pay": {"effect": "write", "idempotent": True, "args": {}, "returns": {"type": "boolean"}},
            "look": {"effect": "read", "args": {}, "returns": {"type": "boolean"}},
        }
        inputs = {"i": _N, "t": _S, "f": {"type": "boolean"}}
        steps: list[dict[str, Any]] = [self.source(tools)]
        count = self.chance.randint(2, 4)
        for number in range(count):
            steps.append(self.step(number))
        steps += [{"id": "p", "type": "tool", "tool": "pay"}, {"id": "z", "type": "end"}]
        self.joined(steps)
        return {
            "name": "paths",
            "language": 2,
            "inputs": inputs,
            "tools": tools,
            "guardrails": [self.rule(steps)],
            "max_steps": self.chance.choice([9, 20]),
            "steps": steps,
        }

    def source(self, tools: dict[str, Any]) -> dict[str, Any]:
        """Return the step that gives the object."""
        if self.chance.random() < 0.45:
            value = self.chance.choice(_BUILT)
            self.fields += [name for name in ("s",) if name in value] + [f"d.{one}" for one in value.get("d", ())]
            return {"id": "g", "type": "set", "set": {"o": value}}
        spec = self.chance.choice(_TYPES)
        tools["get"] = {"effect": "read", "args": {}, "returns": spec}
        self.fields += [name for name in ("s",) if name in spec["properties"]]
        self.fields += [f"d.{name}" for name in spec["properties"].get("d", {}).get("properties", ())]
        how = self.chance.random()
        more = {"on_error": "skip"} if how < 0.15 else {"error_step": "z"} if how < 0.3 else {}
        return {"id": "g", "type": "tool", "tool": "get", "output_key": "o", **more}

    def step(self, number: int) -> dict[str, Any]:
        name, how = f"s{number}", self.chance.random()
        if how < 0.55 or (number == 0 and how < 0.8):
            return {"id": name, "type": "set", "set": self.assigned()}
        if how < 0.65:
            return {"id": name, "type": "tool", "tool": "look", "output_key": "f2", "on_error": "skip"}
        question = self.question()
        if self.chance.random() < 0.3:
            question = f"{question} {self.chance.choice(['and', 'or'])} {self.question()}"
        then, otherwise = ("", "z") if self.chance.random() < 0.7 else ("z", "")
        return {"id": name, "type": "condition", "condition": question, "then": then, "otherwise": otherwise}

    def joined(self, steps: list[dict[str, Any]]) -> None:
        """Say of each step which comes next: now and then it is one before, so that the program has a loop."""
        for number, step in enumerate(steps[:-1]):
            following = steps[number + 1]["id"]
            if step["type"] == "condition":
                step |= {way: target or following for way, target in step.items() if way in ("then", "otherwise")}
                if number > 1 and self.chance.random() < 0.2:
                    step["otherwise"] = steps[1]["id"]
                    step["max_visits"] = 3
            else:
                step["next_step"] = following

    def known(self, *names: str) -> str:
        """Return a field of some names that the object may have; now and then one that nothing gives it before."""
        found = [name for name in names if name in self.fields]
        return self.chance.choice(found) if found and self.chance.random() < 0.95 else found[0] if found else "n"

    def value(self, field: str) -> Any:
        """Return what is assigned to a field."""
        if field.endswith("s"):
            return self.chance.choice(
                ["'a'", "'b'", "$t", f"$o.{self.known(*_TEXTS)}"] if "s" in self.fields else ["$t"]
            )
        if field in ("b", "d.b"):
            asked, held = self.question(), f"defined($o.{self.chance.choice(self.fields)})"
            return self.chance.choice([asked, f"$f or {asked}", f"{held} and {asked}", f"not {held} or {asked}", True])
        held = f"$o.{self.known(*_NUMBERS)}"
        return self.chance.choice(["$i", 1, 0, held, "$i - 1", f"{held} - $i"])

    def assigned(self) -> dict[str, Any]:
        """Return what a `set` assigns: one field or two, the whole, or a copy of it beside a field."""
        how = self.chance.random()
        if how < 0.08:
            return {"c": "$o", f"o.{self.known(*_NUMBERS)}": 2}
        inside = ["n", "n", "s", "b", "m"]
        inside += ["d.n", "d.s", "d.b"] if any(name.startswith("d.") for name in self.fields) else []
        fields = self.chance.sample(list(dict.fromkeys(inside)), self.chance.choice([1, 1, 1, 2]))
        found = {f"o.{field}": self.value(field) for field in fields}
        self.fields += [field for field in fields if field not in self.fields]
        if how < 0.2:
            found["k"] = self.chance.choice(["$o", f"$o.{self.known(*_NUMBERS)}", "$o.n"])
        if how > 0.9:
            found = {"o.e": self.chance.choice([{"n": "$i", "s": "x"}, {"n": 1}]), **found}
        return found

    def question(self) -> str:
        """Return a question about the object, its fields or an input."""
        numbers = f"$o.{self.known(*_NUMBERS, 'm')}"
        texts = f"$o.{self.known(*_TEXTS)}" if set(_TEXTS) & set(self.fields) else "$t"
        asked = [
            f"{numbers} {self.chance.choice(['==', '<', '>', '!='])} {self.chance.choice(['0', '1', '2', '$i'])}",
            f"{texts} {self.chance.choice(['==', '!='])} {self.chance.choice(['$t', repr('a'), repr('b')])}",
            f"defined($o.{self.chance.choice(self.fields)})",
            "$f",
            f"{numbers} + $i > 2",
        ]
        asked += ["$o.b"] if "b" in self.fields else []
        return self.chance.choice(asked)

    def rule(self, steps: list[dict[str, Any]]) -> dict[str, Any]:
        conditions = [step["id"] for step in steps if step["type"] == "condition"]
        sets = [step["id"] for step in steps if step["type"] == "set"] or ["g"]
        how = self.chance.random()
        if how < 0.45:
            return {"name": "r", "never": {"tool": "pay"}, "when": self.question()}
        if how < 0.65 and conditions:
            needed = {"step": self.chance.choice(conditions), "branch": self.chance.choice(["then", "otherwise"])}
            return {"name": "r", "protects": {"tool": "pay"}, "requires": needed}
        if how < 0.75:
            return {"name": "r", "protects": {"tool": "pay"}, "requires": {"step": self.chance.choice(sets)}}
        if how < 0.85:
            return {"name": "r", "followed_by": {"first": {"step": sets[0]}, "then": {"tool": "pay"}}}
        return {"name": "r", "at_most_once": {"step": self.chance.choice(sets)}}
