"""A naive interpretation of the language, for the random programs of `programs.py`; it shares no code with the machine.

It was written from the text alone, for clarity: one dict of values, one list of calls. Fate says what models and tools
answer, and what somebody finds out about a write in doubt.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

REFERENCE = re.compile(r"\$([a-z_]+[a-z_0-9]*)")
Fate = Callable[[str, int, int], tuple[str, str]]
"""Given a step, its visit and its attempt: `ok`, `raise`, `late`, `lost` or `bad`, and a value."""


class Over(Exception):  # noqa: N818 - it is no error, the run is over
    """How the run ended."""


@dataclass
class Part:
    """A call of the step that is performed."""

    step: dict[str, Any]
    phase: str = "ready"
    attempt: int = 0
    before: int = 0
    performance: int = 0
    value: Any = None
    error: Any = None
    keeps: bool = False


@dataclass
class Interpreter:
    """One run; after `go`, everything that can be told of it."""

    program: dict[str, Any]
    inputs: dict[str, Any]
    answers: Fate
    verdicts: Fate
    values: dict[str, Any] = field(default_factory=dict)
    errors: dict[str, Any] = field(default_factory=dict)
    visits: dict[str, int] = field(default_factory=dict)
    path: list[str] = field(default_factory=list)
    calls: list[tuple[str, int, int, int]] = field(default_factory=list)
    steps: int = 0
    tokens: int = 0
    idle: int = 0
    status: str = ""
    reason: str = ""
    broken: bool = False
    performed: list[str] = field(default_factory=list)
    came: dict[str, str] = field(default_factory=dict)
    owed: bool = False

    def go(self) -> Interpreter:
        self.values.update(self.inputs)
        self.by_id = {step["id"]: step for step in self.program["steps"]}
        self.rule = self.program["guardrails"][0]
        at = self.program["steps"][0]["id"]
        try:
            while True:
                self.path.append(at)
                at = self.enter(self.by_id[at])
        except Over as over:
            self.status, self.reason = over.args
        if "followed_by" in self.rule and self.owed:
            ends = self.rule.get("ends")
            is_failure = self.status == "FAILED" or self.reason == "visits"
            self.broken = ends == "any" or self.status == "SUCCESS" or (is_failure and ends != "success")
        return self

    # -- one step --------------------------------------------------------------------------------------------------

    def enter(self, step: dict[str, Any]) -> str:
        name, bound = step["id"], step.get("max_visits")
        visit = self.visits.get(name, 0) + 1
        if bound is not None and visit > bound:
            self.visits[name] = visit
            parts = step.get("parallel_steps", [])
            self.changed([one for part in [step, *parts] for one in self.without(part, "visits")])
            if "error_step" in step and visit == bound + 1:
                return str(step["error_step"])
            raise Over("STALLED", "visits")
        self.afford(1 + len(step.get("parallel_steps", [])))
        stalled = self.program.get("max_stalled_steps")
        if stalled is not None and self.idle >= stalled:
            raise Over("STALLED", "no-progress")
        if step["type"] in ("llm", "tool"):
            return self.perform(step, [Part(step)])
        self.object(step)
        if step["type"] == "parallel":
            return self.perform(step, [Part(part) for part in step["parallel_steps"]])
        self.visits[name] = visit
        self.steps += 1
        self.performs(step)
        if step["type"] == "end":
            raise Over("SUCCESS" if step["outcome"] == "success" else "FAILED", "declared")
        return self.choose(step) if step["type"] == "condition" else self.assign(step)

    def afford(self, cost: int) -> None:
        if self.steps + cost > self.program["max_steps"]:
            raise Over("BUDGET_EXCEEDED", "max_steps")

    def successor(self, step: dict[str, Any]) -> str:
        order = list(self.by_id)
        number = order.index(step["id"]) + 1
        arms = {target for one in self.by_id.values() for target in targets(one)}
        if "next_step" in step:
            return str(step["next_step"])
        if step.get("is_terminal") or step["id"] in arms or number == len(order):
            raise Over("SUCCESS" if step.get("outcome") != "failure" else "FAILED", "declared")
        return order[number]

    def choose(self, step: dict[str, Any]) -> str:
        cases = step.get("cases") or [{"when": step["condition"], "then": step["then"], "name": "then"}]
        taken, labels = step.get("otherwise"), ["otherwise"]
        for number, case in enumerate(cases, start=1):
            if self.holds(case["when"]):
                taken, labels = case["then"], [number, case.get("name")]
                break
        self.changed([])
        if taken is None:
            raise Over("FAILED", "uncovered")
        for guard in self.guards():
            if guard["step"] == step["id"] and guard.get("branch", labels[0]) in labels:
                self.came[repr(guard)] = "fresh"
        self.succeeded([step])
        return str(taken)

    def assign(self, step: dict[str, Any]) -> str:
        new = {name: self.read(text[1:]) if text[0] == "$" else text[1:-1] for name, text in step["set"].items()}
        self.changed(list(new.items()))
        self.succeeded([step])
        return self.successor(step)

    def read(self, name: str) -> Any:
        if name not in self.values:
            raise Over("FAILED", "error")
        return self.values[name]

    def holds(self, condition: str) -> bool:
        for part in condition.split(" and "):
            if part == "1 == 1":
                continue
            name = REFERENCE.findall(part)[0]
            if part.startswith("defined") and name not in self.values:
                return False
            if not part.startswith("defined") and self.read(name) != part.split("'")[1]:
                return False
        return True

    # -- calls -----------------------------------------------------------------------------------------------------

    def perform(self, step: dict[str, Any], parts: list[Part]) -> str:
        is_parallel, turn, self.is_begun = step["type"] == "parallel", 1, False
        while True:
            self.settle(step, parts)
            failed = [part for part in parts if part.phase == "failed"]
            if not is_parallel or not failed or step.get("on_error") != "retry" or turn == 3:
                break
            self.afford(1 + len(failed))
            self.steps += 1
            turn += 1
            for part in failed:
                part.phase, part.before = "ready", part.attempt
        outcome = parts[0].phase
        if is_parallel:
            outcome = "success" if not failed else "skipped" if step.get("on_error") == "skip" else "failed"
        changes = [one for part in parts for one in self.left_by(part)]
        if is_parallel and outcome == "success":
            changes += with_value(step, {part.step["id"]: part.value for part in parts if part.phase in GOOD})
        elif is_parallel:
            changes += self.without(step, [(part.step["id"], part.error) for part in failed[:3]])
        self.changed(changes)
        self.succeeded([part.step for part in parts if part.phase == "success"])
        if is_parallel and outcome == "success":
            self.succeeded([step])
        if outcome != "failed":
            return self.successor(step)
        if "error_step" in step:
            return str(step["error_step"])
        raise Over("FAILED", "error")

    def settle(self, step: dict[str, Any], parts: list[Part]) -> None:
        """Make attempts in waves until nothing is left to try; then ask about what is in doubt."""
        while True:
            for part in parts:
                if part.phase == "ready" and not self.can_start(part.step):
                    self.begin(step)
                    part.phase, part.error = (
                        ("skipped" if part.step.get("on_error") == "skip" else "failed"),
                        "undefined",
                    )
            wave = [part for part in parts if part.phase == "ready"]
            if wave:
                self.wave(step, wave)
                continue
            doubts = [part for part in parts if part.phase == "doubt"]
            if not doubts:
                return
            self.reconcile(doubts[0])

    def can_start(self, step: dict[str, Any]) -> bool:
        text = step.get("prompt", "") + "".join(step.get("args", {}).values())
        return all(name in self.values for name in REFERENCE.findall(text))

    def begin(self, step: dict[str, Any]) -> None:
        if not self.is_begun:
            self.is_begun = True
            self.visits[step["id"]] = self.visits.get(step["id"], 0) + 1
            self.steps += 1 + len(step.get("parallel_steps", []))
            if step["type"] == "parallel":
                self.performs(step)

    def wave(self, step: dict[str, Any], wave: list[Part]) -> None:
        extra = sum(part.attempt > 0 for part in wave)
        if extra:
            self.afford(extra)
        performed, owed = list(self.performed), self.owed
        for part in wave:
            if not self.is_same(part):
                self.object(part.step)
                self.performs(part.step)
        self.performed, self.owed = performed, owed
        limit = self.program.get("max_tokens")
        if limit is not None and self.tokens >= limit and any(part.step["type"] == "llm" for part in wave):
            raise Over("BUDGET_EXCEEDED", "max_tokens")
        self.begin(step)
        for part in wave:
            self.attempt(step, part)

    def is_same(self, part: Part) -> bool:
        """Whether the next attempt is one more start under the same key."""
        return part.performance > 0 and (part.keeps or self.facts(part.step).get("idempotent", False))

    def facts(self, step: dict[str, Any]) -> dict[str, Any]:
        return dict(self.program["tools"][step["tool"]]) if step["type"] == "tool" else {"effect": "none"}

    def attempt(self, whole: dict[str, Any], part: Part) -> None:
        step, visit = part.step, self.visits[whole["id"]]
        if not self.is_same(part):
            part.performance += 1
            self.performs(step)
        self.steps += part.attempt > 0
        part.attempt, part.keeps = part.attempt + 1, False
        self.calls.append((step["id"], visit, part.attempt, part.performance))
        said, value = self.answers(step["id"], visit, part.attempt)
        if step["type"] == "llm":
            self.tokens += 3 if said in ("ok", "bad") or (said == "late" and "timeout_seconds" not in step) else 0
        part.phase = self.judged(part, said)
        part.value = value if part.phase == "success" else step.get("fallback") if part.phase == "fallback" else None
        part.error = None if part.phase in GOOD else said

    def judged(self, part: Part, said: str) -> str:
        step, facts = part.step, self.facts(part.step)
        if said == "ok" or (said == "late" and "timeout_seconds" not in step):
            return "success"
        may_have_happened = facts["effect"] == "write" and said in ("late", "lost", "bad")
        if may_have_happened and not facts.get("idempotent"):
            return "doubt"
        attempts = 3 if may_have_happened or step.get("on_error") == "retry" else 1
        if part.attempt - part.before < attempts:
            return "ready"
        if said == "late" and step.get("on_timeout") == "fallback":
            return "fallback"
        if may_have_happened:
            return "doubt"
        return "skipped" if step.get("on_error") == "skip" else "failed"

    def reconcile(self, part: Part) -> None:
        verdict, value = self.verdicts(part.step["id"], 0, part.attempt)
        if verdict == "abandon":
            raise Over("CANCELLED", "abandoned")
        part.phase, part.value = ("success", value) if verdict == "done" else ("ready", None)
        part.keeps = verdict == "not_done"

    # -- values ----------------------------------------------------------------------------------------------------

    def left_by(self, part: Part) -> list[tuple[str, Any]]:
        return with_value(part.step, part.value) if part.phase in GOOD else self.without(part.step, part.error)

    def without(self, step: dict[str, Any], error: Any) -> list[tuple[str, Any]]:
        if step["type"] in ("set", "condition"):
            return []
        names = [f"{step['id']}.output", *([step["output_key"]] if "output_key" in step else [])]
        return [*((name, GONE) for name in names), (f"{step['id']}.error", ("error", error))]

    def changed(self, changes: list[tuple[str, Any]]) -> None:
        """Bind what a step assigned, and count whether that changed anything."""
        held = {name: self.values.get(name, GONE) for name, _ in changes}
        self.idle = self.idle + 1 if all(held[name] == value for name, value in changes) else 0
        for name, value in changes:
            self.values[name] = value
            if value is GONE:
                del self.values[name]
        for guard in self.guards():
            is_read = self.rule.get("fresh", True) and "branch" in guard and self.reads(guard) & held.keys()
            if is_read and self.came.get(repr(guard)) == "fresh":
                self.came[repr(guard)] = "stale"

    # -- rules -----------------------------------------------------------------------------------------------------

    def guards(self) -> list[dict[str, Any]]:
        requirement = self.rule.get("requires", {})
        held = requirement.get("all_of") or requirement.get("any_of") or [requirement]
        return [guard for guard in held if guard]

    def reads(self, guard: dict[str, Any]) -> set[str]:
        step = self.by_id[guard["step"]]
        texts = [step.get("condition", ""), *(case["when"] for case in step.get("cases", []))]
        return {name for text in texts for name in REFERENCE.findall(text)}

    def selects(self, selector: dict[str, Any], step: dict[str, Any]) -> bool:
        if "step" in selector:
            return bool(selector["step"] == step["id"])
        if step["type"] != "tool":
            return False
        return selector in ({"tool": step["tool"]}, {"effect": self.facts(step)["effect"]})

    def object(self, step: dict[str, Any]) -> None:
        """End the run where a rule forbids a performance to start."""
        rule = self.rule
        is_broken = "never" in rule and self.selects(rule["never"], step)
        if "protects" in rule and self.selects(rule["protects"], step):
            came = [self.came.get(repr(guard)) == "fresh" for guard in self.guards()]
            is_broken = not (any(came) if "any_of" in rule["requires"] else all(came))
        if "at_most_once" in rule and self.selects(rule["at_most_once"], step):
            is_broken = "once" in self.performed
        if "exclusive" in rule:
            sides = {str(side) for side, one in enumerate(rule["exclusive"]) if self.selects(one, step)}
            is_broken = bool(sides) and {"0", "1"} <= {*self.performed, *sides}
        if is_broken:
            raise Over("FAILED", "guardrail")

    def performs(self, step: dict[str, Any]) -> None:
        rule = self.rule
        if "at_most_once" in rule and self.selects(rule["at_most_once"], step):
            self.performed.append("once")
        for side, one in enumerate(rule.get("exclusive", [])):
            if self.selects(one, step):
                self.performed.append(str(side))
        if "followed_by" in rule and self.selects(rule["followed_by"]["then"], step):
            self.owed = False

    def succeeded(self, steps: list[dict[str, Any]]) -> None:
        for step in steps:
            for guard in self.guards():
                if guard.get("step") == step["id"] and "branch" not in guard:
                    self.came[repr(guard)] = "fresh"
            pair = self.rule.get("followed_by")
            if pair and self.selects(pair["first"], step) and not self.selects(pair["then"], step):
                self.owed = True


GOOD = ("success", "fallback")
GONE: Any = object()


def with_value(step: dict[str, Any], value: Any) -> list[tuple[str, Any]]:
    names = [f"{step['id']}.output", *([step["output_key"]] if "output_key" in step else [])]
    return [*((name, value) for name in names), (f"{step['id']}.error", GONE)]


def targets(step: dict[str, Any]) -> list[str | None]:
    return [
        step.get("then"),
        step.get("otherwise"),
        step.get("error_step"),
        *(c["then"] for c in step.get("cases", [])),
    ]
