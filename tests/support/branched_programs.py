"""Small programs with branches: a parallel step, its bodies, and a few steps around it."""

from __future__ import annotations

from random import Random
from typing import Any, Final

TOOLS: Final[dict[str, Any]] = {
    "ask": {"effect": "read", "returns": {"type": "boolean"}},
    "look": {"effect": "read"},
    "pay": {"effect": "write", "idempotent": True},
}
INPUTS: Final[dict[str, Any]] = {"f": {"type": "boolean"}, "g": {"type": "string", "enum": ["a", "b"]}}
ASKED: Final = ("$f", "not $f", "$g == 'a'", "$g == 'b'", "$f and $g == 'a'")

OF_BRANCHES: Final = (
    "defined($m.output)",
    "not defined($m.output)",
    "defined($k.output)",
    "defined($k.error)",
    "defined($m.error)",
    "not defined($k.error)",
)


OF_ALL: Final = (
    "$both.output.m == 1",
    "$both.output.k == 2",
    "defined($both.output.m)",
    "not defined($both.output.k)",
    "defined($all.m)",
    "$all.k == 1",
    "not $all.m == 2",
    "defined($all)",
    "defined($both.output.w)",
)
"""What asks for the object of the outputs of all branches, which has the name `all`, too."""


def branched_program(seed: int) -> dict[str, Any]:
    """Return the program of a seed."""
    return BranchedMaker(Random(f"{seed}/branches")).program()


class BranchedMaker:
    """Draws one program. Its step `both` is the one with bodies."""

    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self.ids: list[str] = []
        self.conditions: list[str] = []

    def odds(self, share: float) -> bool:
        return self.chance.random() < share

    def name(self, kind: str) -> str:
        self.ids.append(f"{kind}{len(self.ids)}")
        return self.ids[-1]

    def call(self) -> dict[str, Any]:
        tool = self.chance.choice(["pay", "pay", "pay", "ask", "look"])
        step: dict[str, Any] = {"id": self.name(tool[0]), "type": "tool", "tool": tool}
        if self.odds(0.25):
            step["on_error"] = "skip"
        return step

    def steps(self, most: int, *, is_body: bool, readable: list[str]) -> list[dict[str, Any]]:
        """Return a list of steps that goes down, with branches that go down, too."""
        found: list[dict[str, Any]] = []
        for _ in range(self.chance.randint(1, most)):
            roll = self.chance.random()
            if roll < 0.62:
                found.append(self.call())
            elif roll < 0.72:
                found.append({"id": self.name("s"), "type": "set", "set": {"v": self.chance.choice([1, "'x'"])}})
            else:
                found.append({"id": self.name("c"), "type": "condition", "condition": self.asked(found, readable)})
        if is_body and self.odds(0.3):
            outcome = self.chance.choice(["success", "failure"])
            found.append(
                {"id": self.name("e"), "type": "end", "outcome": outcome, "output": self.chance.choice([1, 2])}
            )
        self.connect(found, is_body=is_body)
        return found

    def asked(self, before: list[dict[str, Any]], readable: list[str]) -> str:
        known = [f"${step['id']}.output" for step in before if step.get("tool") == "ask"]
        known += [f"defined(${step['id']}.error)" for step in before if step["type"] == "tool"]
        known += [f"${name}.output == 1" for name in readable]
        return self.chance.choice(known) if known and self.odds(0.5) else self.chance.choice(ASKED)

    def connect(self, steps: list[dict[str, Any]], *, is_body: bool) -> None:
        """Let conditions, errors and successors lead down; a body may have a loop with a bound."""
        if steps[-1]["type"] == "condition":
            steps.append(self.call())
        for number, step in enumerate(steps):
            below = [one["id"] for one in steps[number + 1 :]]
            if step["type"] == "condition":
                self.conditions.append(step["id"])
                step["then"], step["otherwise"] = self.chance.choice(below), self.chance.choice(below)
            elif step["type"] == "tool" and below and step.get("on_error") is None and self.odds(0.3):
                step["error_step"] = self.chance.choice(below)
            if step["type"] in ("tool", "set") and is_body and self.odds(0.08):
                step.update({"next_step": step["id"], "max_visits": 2})
        named = {step.get(field) for step in steps for field in ("then", "otherwise", "error_step")}
        for number, step in enumerate(steps):
            if step["type"] in ("tool", "set") and "next_step" not in step and step["id"] in named:
                is_last = number + 1 == len(steps) or (is_body and self.odds(0.3))
                step.update({"is_terminal": True} if is_last else {"next_step": steps[number + 1]["id"]})

    def fork(self, below: list[str]) -> dict[str, Any]:
        branches: dict[str, Any] = {}
        for name in ["m", "k", "w"][: self.chance.choice([2, 2, 2, 3])]:
            needs = [one for one in branches if self.odds(0.25)]
            before = len(self.conditions)
            body = self.steps(2, is_body=True, readable=needs)
            branches[name] = {"steps": body} | ({"depends_on": needs} if needs else {})
            if self.odds(0.15):
                kept, self.conditions = self.conditions, self.conditions[before:]
                branches[name]["guardrails"] = [{**self.rule(0), "name": f"own {name}"}]
                self.conditions = kept
            within = self.followed_within()
            if within:
                branches[name]["guardrails"] = [*branches[name].get("guardrails", ()), *within]
        step: dict[str, Any] = {"id": "both", "type": "parallel", "branches": branches}
        if self.odds(0.2):
            step["on_error"] = "skip"
        elif below and self.odds(0.4):
            step["error_step"] = self.chance.choice(below)
        return step

    def program(self) -> dict[str, Any]:
        before = self.steps(2, is_body=False, readable=[]) if self.odds(0.4) else []
        after = self.steps(2, is_body=False, readable=[]) if self.odds(0.6) else []
        fork = self.fork([step["id"] for step in after])
        if fork.get("error_step") is not None and after:
            self._settle(after, fork["error_step"])
        fork["next_step" if after else "is_terminal"] = after[0]["id"] if after else True
        for step in before:
            if step.pop("is_terminal", None) or (step is before[-1] and step["type"] in ("tool", "set")):
                step["next_step"] = "both"
        if after and after[0]["type"] in ("tool", "set") and "next_step" not in after[0]:
            self._settle(after, after[0]["id"])
        rules = [self.rule(number) for number in range(self.chance.randint(2, 3))]
        rules.append(self.followed())
        found = {"name": "small", "language": 2, "inputs": INPUTS, "tools": TOOLS, "guardrails": rules}
        self._read_all(fork, after, rules)
        return {**found, "steps": [*before, fork, *after]}

    def _read_all(self, fork: dict[str, Any], after: list[dict[str, Any]], rules: list[dict[str, Any]]) -> None:
        """Let some conditions and rules read what the branches give together. Chance of its own leaves the rest."""
        apart = Random(f"all {self.ids}")
        if "branches" not in fork or apart.random() < 0.4:
            return
        fork["output_key"] = "all"
        for one in [*after, *rules]:
            field = "condition" if one.get("type") == "condition" else "when" if "when" in one else None
            if field is not None and apart.random() < 0.6:
                one[field] = apart.choice(OF_ALL)

    @staticmethod
    def _settle(steps: list[dict[str, Any]], name: str) -> None:
        """Make the successor of an arm explicit."""
        for number, step in enumerate(steps):
            is_open = "next_step" not in step and "is_terminal" not in step
            if step["id"] == name and step["type"] in ("tool", "set") and is_open:
                is_last = number + 1 == len(steps)
                step.update({"is_terminal": True} if is_last else {"next_step": steps[number + 1]["id"]})

    # -- rules ---------------------------------------------------------------------------------------------------------

    def selector(self) -> dict[str, Any]:
        called = [name for name in self.ids if name[0] in "pal"]
        return (
            {"step": self.chance.choice(called)}
            if called and self.odds(0.5)
            else {"tool": self.chance.choice(list(TOOLS))}
        )

    def guard(self) -> dict[str, Any]:
        if self.conditions and self.odds(0.4):
            return {"step": self.chance.choice(self.conditions), "branch": self.chance.choice(["then", "otherwise"])}
        return {"step": "both"} if self.odds(0.1) else self.selector()

    def followed_within(self) -> list[dict[str, Any]]:
        """Return the rules of a body of what follows in it: one, or none."""
        rule = {**self.followed("within"), "name": f"within {len(self.ids)}"}
        is_drawn = Random(f"is within {self.ids}").random() < 0.35
        return [rule] if is_drawn and rule.get("ends") != "any" else []

    def followed(self, salt: str = "followed") -> dict[str, Any]:
        """Return a rule of what follows. Chance of its own leaves the rest of a seed as it is."""
        apart = BranchedMaker(Random(f"{salt} {self.ids}"))
        apart.ids = self.ids
        first, then = ({"step": "both"} if apart.odds(0.08) else apart.selector() for _ in range(2))
        rule = {"name": "follows", "followed_by": {"first": first, "then": then}}
        ends = apart.chance.choice([None, None, "success", "any"])
        return rule if ends is None else {**rule, "ends": ends}

    def rule(self, number: int) -> dict[str, Any]:
        name, kind = f"r{number}", self.chance.choice(["requires", "requires", "once", "exclusive", "never"])
        if kind == "requires":
            return {"name": name, "protects": self.selector(), "requires": self.guard()}
        if kind == "once":
            return {"name": name, "at_most_once": self.selector()}
        if kind == "exclusive":
            return {"name": name, "exclusive": [self.selector(), self.selector()]}
        rule = {"name": name, "never": self.selector(), "when": self.chance.choice(ASKED)}
        apart = Random(f"{number} {self.ids}")  # so that the other rules of a seed stay what they are
        return rule | ({"when": apart.choice(OF_BRANCHES)} if apart.random() < 0.5 else {})
