"""Random programs over small finite domains, so that every run of them can be enumerated.

They are legal and well-typed. Their conditions ask for the same few things again and again, flags are set and tested,
and their guardrails hang on that: whether a rule holds is mostly a matter of which paths are feasible.
"""

from __future__ import annotations

from random import Random
from typing import Any, Final

LETTERS: Final = ["a", "b", "c"]
SMALL: Final = {"type": "integer", "minimum": 0, "maximum": 3}
TOOLS: Final[dict[str, dict[str, Any]]] = {
    "pay": {"effect": "write", "idempotent": False, "args": {"x": {"type": "integer"}}, "returns": {"type": "boolean"}},
    "book": {"effect": "write", "idempotent": True},
    "mail": {"effect": "write", "idempotent": True, "args": {"x": {"type": "string"}}},
    "ask": {"effect": "read", "echoes": False, "returns": {"type": "boolean"}},
    "grade": {"effect": "none", "returns": {"type": "string", "enum": LETTERS}},
    "count": {"effect": "read", "idempotent": True, "returns": SMALL},
    "look": {
        "effect": "read",
        "returns": {
            "type": "object",
            "properties": {"kind": {"type": "string", "enum": ["a", "b"]}, "fine": {"type": "boolean"}},
            "required": ["kind"],
        },
    },
}
INPUTS: Final[dict[str, dict[str, Any]]] = {
    "mode": {"type": "string", "enum": LETTERS},
    "ok": {"type": "boolean"},
    "n": SMALL,
    "m": {"type": "integer", "minimum": 0, "maximum": 2},
}
KINDS: Final = {
    **dict.fromkeys(("mode", "v", "w"), "letter"),
    **dict.fromkeys(("ok", "done", "seen"), "flag"),
    **dict.fromkeys(("n", "m", "k", "j"), "number"),
}
STARTS: Final[dict[str, list[Any]]] = {"letter": ["'a'", "'b'"], "flag": [False, True], "number": [0, 1]}
GIVERS: Final = {"letter": ["grade", "llm"], "flag": ["ask", "ask", "pay"], "number": ["count"]}


def small_program(seed: int) -> dict[str, Any]:
    """Return the program of a seed; those below zero are written by hand: see `rare_programs`."""
    if seed < 0:
        return rare_programs()[-seed - 1]
    chance = Random(seed)
    while True:
        program = _Maker(chance).program()
        if program is not None:
            return _with_an_error(program, Random(f"{seed}/error"))


def _with_an_error(program: dict[str, Any], chance: Random) -> dict[str, Any]:
    """Return the program, now and then with a condition that asks whether a call has failed."""
    calls = [part["id"] for part in _parts(program["steps"]) if part["type"] in ("llm", "tool", "parallel")]
    conditions = [step for step in program["steps"] if "condition" in step]
    if calls and conditions and chance.random() < 0.08:
        step = chance.choice(conditions)
        asked = f"defined(${chance.choice(calls)}.error)"
        step["condition"] = chance.choice([asked, f"not {asked}", f"{asked} or ({step['condition']})"])
    return program


class _Maker:
    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self.size = chance.choice([4, 5, 6, 6, 7, 7, 8, 8, 9])
        self.has_loops = chance.random() < 0.45
        self.ids = [f"s{number}" for number in range(self.size)]
        self.inputs = chance.sample(list(INPUTS), chance.choice([1, 2, 2, 3]))
        self.variables = chance.sample(["v", "w", "done", "seen", "k", "j", "r"], chance.choice([1, 2, 2, 3]))
        self.atoms = [self.atom() for _ in range(chance.choice([1, 2, 2, 3]))]
        self.asked: list[str] = []
        self.gated = ""

    def odds(self, share: float) -> bool:
        return self.chance.random() < share

    def of_kind(self, kind: str, *, assigned: bool = False) -> list[str]:
        names = self.variables if assigned else [*self.inputs, *self.variables]
        return [name for name in names if KINDS.get(name) == kind]

    # -- expressions -----------------------------------------------------------------------------------------------

    def atom(self) -> str:
        name = self.chance.choice([*self.inputs, *self.variables, *self.variables])
        if name == "r":
            return self.chance.choice(["$r.kind == 'a'", "defined($r.fine) and $r.fine", "defined($r)", "$r.fine"])
        if name in self.variables and self.odds(0.15):
            return f"defined(${name})"
        if KINDS[name] == "flag":
            return self.chance.choice([f"${name}", f"${name}", f"${name} == true", f"not ${name}"])
        others = [other for other in self.of_kind(KINDS[name]) if other != name]
        other = f"${self.chance.choice(others)}" if others and self.odds(0.3) else ""
        if KINDS[name] == "letter":
            simple = [f"== {other}"] if other else ["== 'a'", "== 'b'", "!= 'a'", "in ['a', 'b']", "not in ['c', 'a']"]
        else:
            simple = [f"< {other}", f"== {other}"] if other else ["> 1", "<= 1", "== 0", "in [0, 2]", "+ 1 > 2", "< 3"]
        return f"${name} {self.chance.choice(simple)}"

    def condition(self) -> str:
        """Return a condition: mostly one that was asked before, or its opposite."""
        roll = self.chance.random()
        first = self.chance.choice(self.asked) if self.asked and roll < 0.35 else self.chance.choice(self.atoms)
        if roll < 0.15:
            first = f"not ({first})"
        elif 0.5 < roll < 0.7:
            first = f"{self.chance.choice(self.atoms)} {self.chance.choice(['and', 'or'])} ({first})"
        elif roll > 0.9:
            first = self.atom()
        if len(first) < 50:
            self.asked.append(first)
        return first if len(first) < 90 else self.chance.choice(self.atoms)

    def assigned(self, name: str) -> Any:
        """Return what a `set` may give a variable of that kind."""
        kind, roll = KINDS[name], self.chance.random()
        same = [f"${other}" for other in self.of_kind(kind) if other != name]
        if same and roll < 0.3:
            return self.chance.choice(same)
        if kind == "flag":
            return self.condition() if roll < 0.55 else self.chance.choice(["true", "false", True, False])
        if kind == "number" and roll < 0.6:
            return self.chance.choice([f"${name} + 1", f"{self.chance.choice(same)} + 1" if same else "1 + 1"])
        return self.chance.choice(STARTS[kind])

    # -- steps -----------------------------------------------------------------------------------------------------

    def target(self, number: int) -> str:
        """Return a step to go to: mostly one of the next few, seldom one above."""
        if self.has_loops and self.odds(0.3):
            return self.ids[self.chance.randrange(self.size)]
        last = self.size - 1
        return self.ids[min(last, number + self.chance.choice([1, 1, 1, 2, 2, 3]))]

    def step(self, number: int) -> dict[str, Any]:
        kinds = ["condition"] * 8 + ["call"] * 10 + ["set"] * 3 + ["parallel"] * 2 + ["end"]
        kind = self.chance.choice(kinds)
        if number == self.size - 1:
            kind = self.chance.choice(["end", "call", "call"])
        if number == 0 and self.odds(0.55):
            return self.first_values()
        step: dict[str, Any] = {"id": self.ids[number]}
        if kind == "condition":
            return step | self.decision(number)
        if kind == "end":
            step |= {"type": "end", "outcome": self.chance.choice(["success", "failure"])}
            return step | ({"output": f"${self.chance.choice(self.variables)}"} if self.odds(0.1) else {})
        if kind == "set":
            names = self.set_names()
            step |= {"type": "set", "set": {name: self.assigned(name) for name in names}} if names else self.call(step)
        elif kind == "parallel":
            step |= self.parallel(number)
        else:
            step |= self.call(step)
        if step["type"] != "set":
            self.fail(step, number)
        roll = self.chance.random()
        if roll < 0.2:
            step["next_step"] = self.target(number)
        elif roll < 0.25:
            step |= {"is_terminal": True, "outcome": self.chance.choice(["success", "failure"])}
        return step

    def set_names(self) -> list[str]:
        names = [name for name in self.variables if name != "r"]
        return self.chance.sample(names, min(len(names), self.chance.choice([1, 1, 2])))

    def first_values(self) -> dict[str, Any]:
        names = [name for name in self.variables if name != "r" and self.odds(0.9)]
        if not names:
            return {"id": "s0"} | self.call({})
        return {"id": "s0", "type": "set", "set": {name: self.first(name) for name in names}}

    def first(self, name: str) -> Any:
        """Return a value for a variable before all others: mostly what an input decides."""
        inputs = [other for other in self.inputs if KINDS[other] == KINDS[name]]
        if inputs and self.odds(0.7):
            return f"${self.chance.choice(inputs)}"
        tests = [test for test in self.atoms if not any(f"${other}" in test for other in self.variables)]
        if KINDS[name] == "flag" and tests and self.odds(0.6):
            return self.chance.choice(tests)
        return self.chance.choice(STARTS[KINDS[name]])

    def decision(self, number: int) -> dict[str, Any]:
        step: dict[str, Any] = {"type": "condition"}
        if self.odds(0.75):
            step |= {"condition": self.condition(), "then": self.target(number), "otherwise": self.target(number)}
            if step["then"] == step["otherwise"]:
                step["then"] = self.ids[(number + 1) % self.size]
            if self.odds(0.12):
                del step[self.chance.choice(["then", "otherwise"])]
            return step
        cases = [{"when": self.condition(), "then": self.target(number)} for _ in range(self.chance.choice([2, 2, 3]))]
        if self.odds(0.5):
            cases[0] |= {"name": "first"}
        step["cases"] = cases
        if self.odds(0.6):
            step["otherwise"] = self.target(number)
        if self.odds(0.4):
            step["exclusive"] = True
        return step

    def call(self, step: dict[str, Any], *, key: str | None = None) -> dict[str, Any]:
        """Return a call of a tool or a model; with a key, one whose output is of the kind of that variable."""
        name = key
        if name is None and self.odds(0.7):
            name = self.chance.choice(self.variables)
        writes = ["pay", "pay", "pay", "book", "book", "mail", "ask"]
        tool = self.chance.choice(writes if name is None or (key is None and self.odds(0.25)) else self.givers(name))
        is_given = name is not None and tool in self.givers(name)
        call: dict[str, Any] = {"output_key": name} if is_given else {}
        if tool == "llm":
            return call | {"type": "llm", "prompt": self.prompt(), "allowed_outputs": LETTERS}
        if tool == "read":
            return call | {"type": "llm", "prompt": self.prompt(), "returns": TOOLS["look"]["returns"]}
        call |= {"type": "tool", "tool": tool}
        if "args" in TOOLS[tool]:
            call["args"] = {"x": self.argument("number" if tool == "pay" else "letter")}
        return call

    def givers(self, name: str) -> list[str]:
        return ["look", "look", "read"] if name == "r" else GIVERS[KINDS[name]]

    def prompt(self) -> str:
        return f"say ${self.chance.choice([*self.inputs, *self.variables])} now" if self.odds(0.2) else "say"

    def argument(self, kind: str) -> Any:
        names = self.of_kind(kind)
        if names and self.odds(0.6):
            return f"${self.chance.choice(names)}"
        return self.chance.choice([1, 2] if kind == "number" else ["a", "b"])

    def fail(self, step: dict[str, Any], number: int | None) -> None:
        """Say what happens when the call fails; without a number it is a sub-step, which has no error step."""
        roll = self.chance.random()
        if roll < 0.15:
            step["on_error"] = "skip"
        elif roll < 0.25:
            step["on_error"] = "retry"
            if self.odds(0.5):
                step["max_retries"] = 2
        parts = step.get("parallel_steps", [{}])
        can_fail = step.get("on_error") != "skip" and any(part.get("on_error") != "skip" for part in parts)
        if number is not None and can_fail and self.odds(0.3):
            step["error_step"] = self.target(number)
        if step["type"] != "parallel" and self.odds(0.12):
            step |= {"timeout_seconds": 1, "on_timeout": "fallback", "fallback": _fallback(step)}

    def parallel(self, number: int) -> dict[str, Any]:
        keys = self.chance.sample(self.variables, min(len(self.variables), 2))
        parts = []
        for place in range(self.chance.choice([2, 2, 3])):
            part = {"id": f"{self.ids[number]}_{place}"}
            part |= self.call(part, key=keys.pop()) if keys and self.odds(0.5) else self.call(part)
            part.pop("output_key", None) if len(parts) > len(keys) and self.odds(0.5) else None
            self.fail(part, None)
            parts.append(part)
        taken: set[str] = set()
        for part in parts:
            if part.get("output_key") in taken:
                del part["output_key"]
            taken.add(part.get("output_key", ""))
        return {"type": "parallel", "parallel_steps": parts}

    # -- the whole -------------------------------------------------------------------------------------------------

    def program(self) -> dict[str, Any] | None:
        """Return a program, or None if this one is not worth having."""
        steps = [self.step(number) for number in range(self.size)]
        if self.odds(0.35):
            self.gate(steps)
        steps = _settled(steps, self.chance)
        if not 3 <= len(steps) <= 9 or not _all_can_end(steps):
            return None
        self.define(steps)
        if not self.all_have_types(steps):
            return None
        program: dict[str, Any] = {"name": "small", "inputs": {name: INPUTS[name] for name in self.inputs}}
        bounded = _back_targets(steps)
        if bounded and self.odds(0.4):
            program["max_steps"] = self.chance.randrange(len(steps) + 2, len(steps) + 9)
        for step in steps:
            # Every cycle has a step that an edge enters from below; without a budget it must be bounded.
            if step["type"] != "end" and (
                (step["id"] in bounded and ("max_steps" not in program or self.odds(0.3))) or self.odds(0.03)
            ):
                step["max_visits"] = self.chance.choice([1, 2, 2, 3])
        used = sorted({part["tool"] for part in _parts(steps) if part["type"] == "tool"})
        program["tools"] = {name: TOOLS[name] for name in used}
        program["guardrails"] = self.rules(steps)
        return (program | {"steps": steps}) if program["guardrails"] else None

    def gate(self, steps: list[dict[str, Any]]) -> None:
        """Put a condition in front of a write; sometimes what it reads is assigned between the two."""
        places = [number for number, step in enumerate(steps) if TOOLS.get(step.get("tool", ""), {}).get("args")]
        if not places:
            return
        place = self.chance.choice(places)
        name = steps[place]["id"]
        if self.odds(0.75):
            _redirect(steps, name, "gate")
        tests = [self.condition() for _ in range(3)]
        test = next((one for one in tests if any(f"${name}" in one for name in self.variables)), tests[0])
        gate = {"id": "gate", "type": "condition", "condition": test, "then": name, "otherwise": "stop"}
        between: list[dict[str, Any]] = []
        names = [one for one in self.variables if f"${one}" in test and one != "r"][:1]
        if names and self.odds(0.6):
            gate["then"] = "change"
            values = {one: self.assigned(one) for one in names}
            between = [{"id": "change", "type": "set", "set": values, "next_step": name}]
        steps[place:place] = [gate, *between]
        steps.append({"id": "stop", "type": "end", "outcome": "failure"})
        self.gated = name

    def define(self, steps: list[dict[str, Any]]) -> None:
        """Give a variable that nothing assigns a value in front of all others: what is read must exist."""
        given = {name for part in _parts(steps) for name in (part.get("output_key"), *part.get("set", {}))}
        missing = [name for name in self.variables if name not in given]
        fresh: list[dict[str, Any]] = []
        values = {name: self.first(name) for name in missing if name != "r"}
        if values:
            fresh.append({"id": "begin", "type": "set", "set": values})
        if "r" in missing:
            fresh.append({"id": "find", "type": "tool", "tool": "look", "output_key": "r"})
        if fresh:
            fresh[-1]["next_step"] = steps[0]["id"]
            steps[:0] = fresh

    def all_have_types(self, steps: list[dict[str, Any]]) -> bool:
        """Whether no variable is given values of other variables alone, and these of it: of what type are they?"""
        typed = {*self.inputs, *(part["output_key"] for part in _parts(steps) if "output_key" in part)}
        copies: dict[str, set[str]] = {}
        for name, value in (one for step in steps for one in step.get("set", {}).items()):
            is_copy = isinstance(value, str) and value.startswith("$") and value[1:].isidentifier()
            copies.setdefault(name, set()).add(value[1:] if is_copy else "")
        typed |= {name for name, values in copies.items() if "" in values}
        while more := {name for name, values in copies.items() if name not in typed and values & typed}:
            typed |= more
        return typed >= copies.keys()

    # -- guardrails ------------------------------------------------------------------------------------------------

    def rules(self, steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
        made = [self.rule(f"rule{number}", steps) for number in range(self.chance.choice([1, 2, 2, 3]))]
        return [rule for rule in made if rule is not None]

    def rule(self, name: str, steps: list[dict[str, Any]]) -> dict[str, Any] | None:
        calls = [part for part in _parts(steps) if part["type"] == "tool" and TOOLS[part["tool"]]["effect"] == "write"]
        conditions = [step for step in steps if step["type"] == "condition"]
        if not calls:
            return None
        kinds = ["requires"] * 4 + ["never"] * 4 + ["at_most_once"] * 2 + ["followed_by"] * 2 + ["exclusive"] * 2
        kind = self.chance.choice(kinds)
        is_gated = any(step["id"] == "gate" for step in steps) and any(part["id"] == self.gated for part in calls)
        if kind == "requires" and is_gated and self.odds(0.7):
            guard = {"step": "gate", "branch": "then"}
            return {"name": name, "protects": {"step": self.gated}, "requires": guard}
        arms = [(part["id"], step) for part in calls for step in conditions if part["id"] in _targets(step)]
        if kind == "requires" and arms and self.odds(0.6):
            arm, step = self.chance.choice(arms)
            branches = [branch for branch in _branches(step) if step.get(branch) == arm] or _branches(step)
            guard = {"step": step["id"], "branch": self.chance.choice(branches)}
            return {"name": name, "protects": {"step": arm}, "requires": guard}
        if kind == "requires":
            rule = {"protects": self.selector(calls, steps), "requires": self.requirement(conditions, steps)}
            return {"name": name} | rule | ({"fresh": self.odds(0.3)} if self.odds(0.4) else {})
        if kind == "never":
            return {"name": name} | self.never(calls, conditions, steps)
        if kind == "at_most_once":
            tools = [part["tool"] for part in calls]
            often = [tool for tool in tools if tools.count(tool) > 1]
            return {"name": name, "at_most_once": {"tool": often[0]} if often else self.selector(calls, steps)}
        if kind == "exclusive":
            pair = [*self.two_arms(calls, conditions), *(self.selector(calls, steps) for _ in range(4))]
            return {"name": name, "exclusive": [pair[0], next((one for one in pair if one != pair[0]), pair[1])]}
        first, then = self.selector(calls, steps, ending=False), self.selector(calls, steps)
        ends = self.chance.choice([None, None, "success", "any"])
        return {"name": name, "followed_by": {"first": first, "then": then}} | ({"ends": ends} if ends else {})

    def selector(
        self, calls: list[dict[str, Any]], steps: list[dict[str, Any]], *, ending: bool = True
    ) -> dict[str, Any]:
        roll, part = self.chance.random(), self.chance.choice(calls)
        if roll < 0.5:
            return {"step": part["id"]}
        if roll < 0.8:
            return {"tool": part["tool"]}
        # Whether an `end` that can't be evaluated has started is nobody's question.
        others = [step["id"] for step in steps if step["type"] != "end" or ("output" not in step and ending)]
        return {"effect": "write"} if roll < 0.87 else {"step": self.chance.choice(others)}

    def two_arms(self, calls: list[dict[str, Any]], conditions: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return two writes that a condition chooses between, or one, or none."""
        names = {part["id"] for part in calls}
        for step in self.chance.sample(conditions, len(conditions)):
            arms = [{"step": target} for target in dict.fromkeys(_targets(step)) if target in names]
            if len(arms) > 1:
                return arms
        return []

    def requirement(self, conditions: list[dict[str, Any]], steps: list[dict[str, Any]]) -> dict[str, Any]:
        guards = [self.guard(conditions, steps) for _ in range(2)]
        if self.odds(0.7):
            return guards[0]
        return {self.chance.choice(["all_of", "any_of", "any_of"]): guards}

    def guard(self, conditions: list[dict[str, Any]], steps: list[dict[str, Any]]) -> dict[str, Any]:
        if not conditions or self.odds(0.25):
            part = self.chance.choice(list(_parts(steps)))
            is_tool = part["type"] == "tool" and self.odds(0.5)
            return {"tool": part["tool"]} if is_tool else {"step": part["id"]}
        step = self.chance.choice(conditions)
        return {"step": step["id"], "branch": self.chance.choice(_branches(step))}

    def never(
        self, calls: list[dict[str, Any]], conditions: list[dict[str, Any]], steps: list[dict[str, Any]]
    ) -> dict[str, Any]:
        selector = self.selector(calls, steps)
        roll = self.chance.random()
        if roll < 0.12:
            return {"never": selector}
        tests = [case["when"] for step in conditions for case in step.get("cases", [{"when": step.get("condition")}])]
        test = self.chance.choice(tests) if tests and roll < 0.7 else self.condition()
        if self.odds(0.5):
            test = f"not ({test})"
        before = [step for step in conditions if "condition" in step and selector.get("step") in _targets(step)]
        if before and self.odds(0.8):
            step = self.chance.choice(before)
            is_then = step.get("then") == selector["step"]
            test = f"not ({step['condition']})" if is_then else step["condition"]
        if "tool" in selector and "args" in TOOLS[selector["tool"]] and roll < 0.45:
            kind = "number" if selector["tool"] == "pay" else "letter"
            simple = self.chance.choice(["> 1", "== 0", "in [0, 3]"] if kind == "number" else ["== 'a'", "!= 'b'"])
            names = self.of_kind(kind)
            simple = f"!= ${self.chance.choice(names)}" if names and self.odds(0.3) else simple
            test = f"$args.x {simple}" if self.odds(0.5) else f"$args.x {simple} and ({test})"
        return {"never": selector, "when": test}


def _fallback(step: dict[str, Any]) -> Any:
    returns = TOOLS[step["tool"]].get("returns", {}) if step["type"] == "tool" else step.get("returns", {})
    return {"boolean": True, "integer": 0, "object": {"kind": "a"}}.get(returns.get("type"), "b")


def _redirect(steps: list[dict[str, Any]], name: str, to: str) -> None:
    """Send everyone who goes to a step to another one."""
    for step in steps:
        for part in (step, *step.get("cases", ())):
            for field in ("then", "otherwise", "error_step", "next_step"):
                if part.get(field) == name:
                    part[field] = to


def _parts(steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [part for step in steps for part in (step, *step.get("parallel_steps", ()))]


def _branches(step: dict[str, Any]) -> list[Any]:
    found: list[Any] = [field for field in ("then", "otherwise") if field in step]
    return found + [case.get("name", number) for number, case in enumerate(step.get("cases", ()), start=1)]


# -- control flow that is legal ----------------------------------------------------------------------------------------


def _targets(step: dict[str, Any]) -> list[str]:
    """Return the steps that a step names as arms."""
    named = [step.get("then"), step.get("otherwise"), step.get("error_step")]
    return [target for target in (*named, *(case["then"] for case in step.get("cases", ()))) if target]


def _following(steps: list[dict[str, Any]], number: int, arms: set[str]) -> list[str]:
    """Return the steps to which edges lead from a step."""
    step = steps[number]
    found = _targets(step)
    if "next_step" in step:
        found.append(step["next_step"])
    elif _falls(steps, number, arms):
        found.append(steps[number + 1]["id"])
    return found


def _falls(steps: list[dict[str, Any]], number: int, arms: set[str]) -> bool:
    return _is_silent(steps[number]) and steps[number]["id"] not in arms and number + 1 < len(steps)


def _is_silent(step: dict[str, Any]) -> bool:
    return step["type"] not in ("condition", "end") and "next_step" not in step and "is_terminal" not in step


def _settled(steps: list[dict[str, Any]], chance: Random) -> list[dict[str, Any]]:
    """Return the steps that edges lead to, with every ambiguous arm told where to go."""
    while True:
        arms = {target for step in steps for target in _targets(step)}
        for number, step in enumerate(steps[:-1]):
            is_entered = number == 0 or _falls(steps, number - 1, arms)
            if _is_silent(step) and step["id"] in arms and (is_entered or chance.random() < 0.5):
                step["next_step"] = steps[number + 1]["id"]
        found, pending = set(), [0]
        position = {step["id"]: number for number, step in enumerate(steps)}
        while pending:
            number = pending.pop()
            if number not in found:
                found.add(number)
                pending += [position[name] for name in _following(steps, number, arms)]
        if len(found) == len(steps):
            for number, step in enumerate(steps):
                _without_idle_outcome(step, ends=not _following_on_success(steps, number, arms))
            return steps
        steps = [steps[number] for number in sorted(found)]


def _following_on_success(steps: list[dict[str, Any]], number: int, arms: set[str]) -> bool:
    return "next_step" in steps[number] or _falls(steps, number, arms)


def _without_idle_outcome(step: dict[str, Any], *, ends: bool) -> None:
    """An outcome belongs to a step after which the run ends."""
    if step["type"] != "end" and not ends:
        step.pop("outcome", None)


def _back_targets(steps: list[dict[str, Any]]) -> set[str]:
    """Return the steps that an edge enters from below, or from themselves."""
    arms = {target for step in steps for target in _targets(step)}
    position = {step["id"]: number for number, step in enumerate(steps)}
    pairs = ((number, target) for number in range(len(steps)) for target in _following(steps, number, arms))
    return {target for number, target in pairs if position[target] <= number}


def _all_can_end(steps: list[dict[str, Any]]) -> bool:
    """Whether from every step edges lead to an ending that the program declares."""
    arms = {target for step in steps for target in _targets(step)}
    position = {step["id"]: number for number, step in enumerate(steps)}
    good = {
        number
        for number, step in enumerate(steps)
        if step["type"] != "condition" and not _following_on_success(steps, number, arms)
    }
    while True:
        more = {
            number
            for number in range(len(steps))
            if number not in good and any(position[name] in good for name in _following(steps, number, arms))
        }
        if not more:
            return len(good) == len(steps)
        good |= more


# -- what chance seldom makes ------------------------------------------------------------------------------------------


def rare_programs() -> list[dict[str, Any]]:
    """Return programs by hand, each about something on which the verdict seldom hangs in those made by chance."""
    owed = {"followed_by": {"first": {"step": "p"}, "then": {"step": "q"}}}
    pay = {"id": "p", "type": "tool", "tool": "pay", "args": {"x": 1}}
    book = {"id": "q", "type": "tool", "tool": "book"}
    ask = {"id": "a", "type": "tool", "tool": "ask", "output_key": "v", "on_error": "skip"}
    begin = {"id": "b", "type": "set", "set": {"k": 0, "j": 1}}
    count = {"id": "s", "type": "set", "set": {"k": "$k + 1"}}
    asked = {"id": "a", "type": "tool", "tool": "ask", "output_key": "v", "max_visits": 1, "error_step": "c"}
    end = {"id": "e", "type": "end"}

    def check(condition: str, then: str | None, otherwise: str | None, name: str = "c") -> dict[str, Any]:
        ways = {field: to for field, to in (("then", then), ("otherwise", otherwise)) if to}
        return {"id": name, "type": "condition", "condition": condition, **ways}

    return [
        # An `end` that fails, because its output is undefined whenever it is reached.
        _rare([pay, ask, check("defined($v)", "q", "e"), book, end | {"output": "$v"}], owed),
        # A visit too many leaves the output of the visit before undefined.
        _rare(
            [begin, asked, count | {"next_step": "a"}, check("$k == 1 and not defined($v)", "p", "e"), pay, end],
            {"never": {"step": "p"}},
        ),
        # A bound that ends the run just before what is owed would start.
        _rare(
            [
                begin,
                pay | {"next_step": "s"},
                {"id": "s", "type": "set", "set": {"k": "$j", "j": 2}, "max_visits": 1, "next_step": "c"},
                check("$k == 1", "s", "q"),
                book,
            ],
            owed,
        ),
        # The second visit too many ends the run, although there is an error step.
        _rare(
            [asked | {"error_step": "p", "next_step": "a"}, pay | {"next_step": "a", "error_step": "e"}, end],
            {"followed_by": {"first": {"step": "p"}, "then": {"step": "e"}}},
        ),
        # The last step that the budget admits breaks the rule, with and without retries that were not needed.
        _rare([begin, pay], {"never": {"step": "p"}, "when": "$m == 1"}, max_steps=2),
        _rare([ask | {"on_error": "retry"}, pay], {"never": {"step": "p"}, "when": "$m == 1"}, max_steps=2),
        # A swap.
        _rare(
            [begin, {"id": "s", "type": "set", "set": {"k": "$j", "j": "$k"}}, pay],
            {"never": {"step": "p"}, "when": "$j == 0 and $m == 1"},
        ),
        # A condition without `then` that always holds where it stands.
        _rare([check("$ok", "p", "e", "g"), pay | {"next_step": "c"}, check("$ok", None, "q"), book, end], owed),
        # What is owed does not start, because it reads what is undefined.
        _rare([pay, ask, {"id": "q", "type": "llm", "prompt": "it is $v"}], owed),
        # A calculation that matters, and a loop whose counter leaves it at two only.
        _rare([begin, count, pay], {"never": {"step": "p"}, "when": "$k == 1 and $m == 1"}),
        _rare(
            [begin, check("$k < 2", "s", "p"), count | {"next_step": "c"}, pay],
            {"never": {"step": "p"}, "when": "$k == 2 and $m == 1"},
            max_steps=9,
        ),
        # A loop that can be entered at two steps, one of which brings what breaks the rule.
        _rare(
            [
                begin,
                check("$ok", "x", "y"),
                {"id": "x", "type": "set", "set": {"k": 1}, "next_step": "y"},
                {"id": "y", "type": "set", "set": {"j": "$j"}, "next_step": "d"},
                check("$m == 2", "x", "p", "d"),
                pay,
            ],
            {"never": {"step": "p"}, "when": "$k == 0"},
            max_steps=12,
        ),
        # Two expressions of one `set`: that the first holds says nothing of the second.
        _rare([ask, {"id": "s", "type": "set", "set": {"done": "true", "seen": "$v"}}, pay], {"never": {"step": "s"}}),
        # A field that may be absent, of a variable that is defined wherever it is read.
        _rare(
            [
                {"id": "s", "type": "set", "set": {"seen": True}},
                {"id": "l", "type": "tool", "tool": "look", "output_key": "r", "error_step": "c"},
                {"id": "p", "type": "tool", "tool": "pay", "args": {"x": 1}, "output_key": "seen"},
                check("$seen or $r.fine", "q", "e"),
                book,
                end,
            ],
            {"never": {"step": "q"}},
        ),
        # A parallel step whose retry runs its failed part again: the second visit is beyond the budget.
        _rare(
            [
                {"id": "s", "type": "set", "set": {"done": False}},
                {
                    "id": "b",
                    "type": "parallel",
                    "parallel_steps": [ask | {"on_error": "fail", "output_key": "done"}, pay],
                    "on_error": "retry",
                    "max_retries": 2,
                    "error_step": "b",
                },
            ],
            {"never": {"step": "p"}, "when": "$done"},
            max_steps=8,
        ),
    ]


def _rare(steps: list[dict[str, Any]], rule: dict[str, Any], **more: Any) -> dict[str, Any]:
    used = dict.fromkeys(part["tool"] for part in _parts(steps) if part["type"] == "tool")
    tools = {name: TOOLS[name] for name in used}
    guardrails = [{"name": "rule0", **rule}]
    return {"name": "rare", "inputs": INPUTS, **more, "tools": tools, "guardrails": guardrails, "steps": steps}
