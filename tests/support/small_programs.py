"""Random programs over small finite domains, so that every run of them can be enumerated.

They are legal and well-typed. Their conditions ask for the same few things again and again, flags are set and tested,
and their guardrails hang on that: whether a rule holds is mostly a matter of which paths are feasible.
"""

from __future__ import annotations

from random import Random
from typing import Any

from legal_programs import (
    all_can_end,
    all_parts,
    back_targets,
    branches_of,
    redirect,
    settled,
    targets_of,
)
from named_errors import with_named_errors
from rare_programs import rare_programs
from small_tools import GIVERS, INPUTS, KINDS, LETTERS, STARTS, TOOLS
from stepward.sabotage.drawn.second import with_language_2


def small_program(seed: int) -> dict[str, Any]:
    """Return the program of a seed; those below zero are written by hand: see `rare_programs`."""
    if seed < 0:
        return rare_programs()[-seed - 1]
    chance = Random(seed)
    while True:
        program = _Maker(chance).program()
        if program is not None:
            program = _with_an_error(program, Random(f"{seed}/error"))
            program = with_language_2(program, Random(f"{seed}/language 2"), 0.12)
            return with_named_errors(program, Random(f"{seed}/errors"), 0.12)


def _with_an_error(program: dict[str, Any], chance: Random) -> dict[str, Any]:
    """Return the program, now and then with a condition that asks whether a call has failed."""
    calls = [part["id"] for part in all_parts(program["steps"]) if part["type"] in ("llm", "tool", "parallel")]
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
        steps = settled(steps, self.chance)
        if not 3 <= len(steps) <= 9 or not all_can_end(steps):
            return None
        self.define(steps)
        if not self.all_have_types(steps):
            return None
        program: dict[str, Any] = {"name": "small", "inputs": {name: INPUTS[name] for name in self.inputs}}
        bounded = back_targets(steps)
        if bounded and self.odds(0.4):
            program["max_steps"] = self.chance.randrange(len(steps) + 2, len(steps) + 9)
        for step in steps:
            # Every cycle has a step that an edge enters from below; without a budget it must be bounded.
            if step["type"] != "end" and (
                (step["id"] in bounded and ("max_steps" not in program or self.odds(0.3))) or self.odds(0.03)
            ):
                step["max_visits"] = self.chance.choice([1, 2, 2, 3])
        used = sorted({part["tool"] for part in all_parts(steps) if part["type"] == "tool"})
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
            redirect(steps, name, "gate")
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
        given = {name for part in all_parts(steps) for name in (part.get("output_key"), *part.get("set", {}))}
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
        typed = {*self.inputs, *(part["output_key"] for part in all_parts(steps) if "output_key" in part)}
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
        calls = [
            part for part in all_parts(steps) if part["type"] == "tool" and TOOLS[part["tool"]]["effect"] == "write"
        ]
        conditions = [step for step in steps if step["type"] == "condition"]
        if not calls:
            return None
        kinds = ["requires"] * 4 + ["never"] * 4 + ["at_most_once"] * 2 + ["followed_by"] * 2 + ["exclusive"] * 2
        kind = self.chance.choice(kinds)
        is_gated = any(step["id"] == "gate" for step in steps) and any(part["id"] == self.gated for part in calls)
        if kind == "requires" and is_gated and self.odds(0.7):
            guard = {"step": "gate", "branch": "then"}
            return {"name": name, "protects": {"step": self.gated}, "requires": guard}
        arms = [(part["id"], step) for part in calls for step in conditions if part["id"] in targets_of(step)]
        if kind == "requires" and arms and self.odds(0.6):
            arm, step = self.chance.choice(arms)
            branches = [branch for branch in branches_of(step) if step.get(branch) == arm] or branches_of(step)
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
            arms = [{"step": target} for target in dict.fromkeys(targets_of(step)) if target in names]
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
            part = self.chance.choice(list(all_parts(steps)))
            is_tool = part["type"] == "tool" and self.odds(0.5)
            return {"tool": part["tool"]} if is_tool else {"step": part["id"]}
        step = self.chance.choice(conditions)
        return {"step": step["id"], "branch": self.chance.choice(branches_of(step))}

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
        before = [step for step in conditions if "condition" in step and selector.get("step") in targets_of(step)]
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
