"""A naive walk through a program, written from the language's text alone and sharing no code with the checker.

It takes every choice at random: what a model says, whether a call fails or times out, in which order things come. It
reports what it met: references that were read while undefined, and guardrails that were broken. It is slow and plain
on purpose: it is the judge.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from random import Random
from typing import Any

REFERENCE = re.compile(r"\$([a-z_0-9]+(?:\.[a-z]+)*)")
MAX_MOVES = 60


class Stop(Exception):  # noqa: N818 - it is no error, the walk is over
    def __init__(self, status: str, reason: str) -> None:
        self.status, self.reason = status, reason


@dataclass
class Walk:
    """One run; after `go`, `undefined` and `broken` say what went wrong in it."""

    program: dict[str, Any]
    chance: Random
    values: dict[str, str] = field(default_factory=dict)
    visits: dict[str, int] = field(default_factory=dict)
    gave_up: set[str] = field(default_factory=set)
    undefined: set[tuple[str, str]] = field(default_factory=set)
    broken: set[tuple[str, str]] = field(default_factory=set)
    succeeded: dict[str, bool] = field(default_factory=dict)
    stale: set[str] = field(default_factory=set)
    performed: list[str] = field(default_factory=list)
    owed: bool = False
    last: str = ""

    def __post_init__(self) -> None:
        self.values["x"] = self.chance.choice(["k", "m", "n"])
        self.steps = {step["id"]: step for step in self.program["steps"]}
        self.order = list(self.steps)
        self.rule = self.program["guardrails"][0]

    # -- the run ---------------------------------------------------------------------------------------------------

    def go(self) -> Walk:
        at: str | None = self.order[0]
        try:
            for _ in range(MAX_MOVES):
                assert at is not None
                self.last = at
                at = self.move(self.steps[at])
        except Stop as stop:
            self.ended(stop)
        return self

    def move(self, step: dict[str, Any]) -> str:
        name = step["id"]
        self.visits[name] = self.visits.get(name, 0) + 1
        if "max_visits" in step and self.visits[name] > step["max_visits"]:
            self.without_output(step)
            if "error_step" in step and name not in self.gave_up:
                self.gave_up.add(name)
                return str(step["error_step"])
            raise Stop("STALLED", "visits")
        kind = step["type"]
        if kind in ("end", "condition", "set"):
            self.started(step)
        if kind == "end":
            raise Stop("SUCCESS" if step["outcome"] == "success" else "FAILED", "declared")
        if kind == "condition":
            return self.choose(step)
        if kind == "set":
            self.assign(step)
            self.count_success(step, "success")
            return self.successor(step)
        return self.perform(step)

    def successor(self, step: dict[str, Any]) -> str:
        if "next_step" in step:
            return str(step["next_step"])
        position = self.order.index(step["id"])
        if step.get("is_terminal") or self.is_arm(step["id"]) or position + 1 == len(self.order):
            raise Stop("FAILED" if step.get("outcome") == "failure" else "SUCCESS", "declared")
        return self.order[position + 1]

    def is_arm(self, name: str) -> bool:
        for step in self.steps.values():
            named = [step.get("then"), step.get("otherwise"), step.get("error_step")]
            named += [case["then"] for case in step.get("cases", ())]
            if name in named:
                return True
        return False

    # -- data ------------------------------------------------------------------------------------------------------

    def read(self, reference: str, step: str) -> str:
        if reference not in self.values:
            self.undefined.add((step, reference))
            raise LookupError(reference)
        return self.values[reference]

    def bind(self, name: str, value: str | None) -> None:
        if value is None:
            self.values.pop(name, None)
        else:
            self.values[name] = value
        self.stale.update(guard for guard, reads in self.branch_reads().items() if name in reads)

    def branch_reads(self) -> dict[str, set[str]]:
        found: dict[str, set[str]] = {}
        for guard in self.guards(self.rule.get("requires", {})):
            if "branch" in guard and self.rule.get("fresh", True):
                step = self.steps[guard["step"]]
                texts = [step.get("condition", ""), *(case["when"] for case in step.get("cases", ()))]
                found[repr(guard)] = {name for text in texts for name in REFERENCE.findall(text)}
        return found

    def assign(self, step: dict[str, Any]) -> None:
        new = {}
        for name, text in step["set"].items():
            try:
                new[name] = self.read(text[1:], step["id"]) if text.startswith("$") else text[1:-1]
            except LookupError:
                raise Stop("FAILED", "undefined") from None
        for name, value in new.items():
            self.bind(name, value)

    def holds(self, text: str, step: str) -> bool:
        if text == "1 == 1":
            return True
        for part in text.split(" and "):
            name = REFERENCE.findall(part)[0]
            if part.startswith("defined"):
                if name not in self.values:
                    return False
            elif self.read(name, step) != part.split("'")[1]:
                return False
        return True

    def choose(self, step: dict[str, Any]) -> str:
        try:
            if "condition" in step:
                branch: Any = "then" if self.holds(step["condition"], step["id"]) else "otherwise"
                target = step.get(branch)
                labels = [branch]
            else:
                branch, target, labels = "otherwise", step.get("otherwise"), ["otherwise"]
                for number, case in enumerate(step["cases"], start=1):
                    if self.holds(case["when"], step["id"]):
                        target, labels = case["then"], [number, case.get("name")]
                        break
        except LookupError:
            raise Stop("FAILED", "undefined") from None
        if target is None:
            raise Stop("FAILED", "uncovered")
        for guard in self.guards(self.rule.get("requires", {})):
            if guard.get("step") == step["id"] and guard.get("branch") in labels:
                self.succeeded[repr(guard)] = True
                self.stale.discard(repr(guard))
        self.count_success(step, "success")
        return str(target)

    # -- calls -----------------------------------------------------------------------------------------------------

    def perform(self, step: dict[str, Any]) -> str:
        parts = step.get("parallel_steps", [step])
        outcome = self.parallel(step) if step["type"] == "parallel" else self.call(step)
        if outcome == "failed" and step.get("on_error") == "skip":
            outcome = "skipped"
        if outcome in ("failed", "skipped"):
            self.without_output(step)
        else:
            self.with_output(step)
        if step["type"] != "parallel":
            self.count_success(parts[0], outcome)
        elif outcome == "success":
            self.count_success(step, outcome)
        if outcome != "failed":
            return self.successor(step)
        if "error_step" in step:
            return str(step["error_step"])
        raise Stop("FAILED", "error")

    def parallel(self, step: dict[str, Any]) -> str:
        self.started(step)
        parts = list(step["parallel_steps"])
        before = dict(self.values)
        outcomes: dict[str, str] = {}
        for attempt in range(self.attempts(step)):
            waiting = [part for part in parts if outcomes.get(part["id"]) in (None, "failed")]
            for part in waiting:
                saved, self.values = self.values, dict(before)
                outcomes[part["id"]] = self.call(part, again=attempt > 0)
                self.values = saved
            if "failed" not in outcomes.values():
                break
        for part in parts:
            outcome = outcomes[part["id"]]
            (self.with_output if outcome in ("success", "fallback") else self.without_output)(part)
            self.count_success(part, outcome)
        return "failed" if "failed" in outcomes.values() else "success"

    def attempts(self, step: dict[str, Any]) -> int:
        return 3 if step.get("on_error") == "retry" else 1

    def call(self, step: dict[str, Any], *, again: bool = False) -> str:
        if not self.can_start(step):
            return "skipped" if step.get("on_error") == "skip" and "parallel_steps" not in step else "failed"
        self.started(step, again=again)
        fails = timed_out = True
        for attempt in range(self.attempts(step)):
            if attempt:
                self.performs(step, again=True)
            fails = self.chance.random() < 0.4
            if not fails:
                return "success"
            timed_out = self.chance.random() < 0.5
        if timed_out and step.get("on_timeout") == "fallback" and not self.would_be_in_doubt(step):
            return "fallback"
        return "skipped" if step.get("on_error") == "skip" else "failed"

    def can_start(self, step: dict[str, Any]) -> bool:
        """Whether everything can be read that the call is given; notes what can't."""
        text = step.get("prompt", "") + "".join(step.get("args", {}).values())
        try:
            for name in REFERENCE.findall(text):
                self.read(name, step["id"])
        except LookupError:
            return False
        return True

    def would_be_in_doubt(self, step: dict[str, Any]) -> bool:
        """A write that can't be repeated and timed out has not failed: it waits for somebody to look."""
        tool = self.program["tools"][step["tool"]] if step["type"] == "tool" else {}
        return tool.get("effect") == "write" and not tool.get("idempotent")

    def with_output(self, step: dict[str, Any]) -> None:
        value = self.chance.choice(["k", "m", "n"])
        for name in [f"{step['id']}.output", *([step["output_key"]] if "output_key" in step else [])]:
            self.bind(name, value)
        self.bind(f"{step['id']}.error", None)

    def without_output(self, step: dict[str, Any]) -> None:
        for name in [f"{step['id']}.output", *([step["output_key"]] if "output_key" in step else [])]:
            self.bind(name, None)
        self.bind(f"{step['id']}.error", "it failed")
        if step["id"] in self.steps and self.visits.get(step["id"], 0) > step.get("max_visits", MAX_MOVES):
            for part in step.get("parallel_steps", ()):
                self.without_output(part)

    # -- guardrails ------------------------------------------------------------------------------------------------

    def guards(self, requirement: dict[str, Any]) -> list[dict[str, Any]]:
        for key in ("all_of", "any_of"):
            if key in requirement:
                return [guard for part in requirement[key] for guard in self.guards(part)]
        return [requirement] if requirement else []

    def selects(self, selector: dict[str, Any], step: dict[str, Any]) -> bool:
        if "step" in selector:
            return bool(step["id"] == selector["step"])
        if step["type"] != "tool":
            return False
        tool = self.program["tools"][step["tool"]]
        return bool(selector.get("tool") == step["tool"] or selector.get("effect") == tool["effect"])

    def started(self, step: dict[str, Any], *, again: bool = False) -> None:
        rule = self.rule
        protects = "protects" in rule and self.selects(rule["protects"], step)
        if protects and not self.satisfied(rule["requires"], stale_counts=False):
            stale = self.satisfied(rule["requires"], stale_counts=True)
            self.broken.add(("SW402" if stale else "SW401", self.last))
        if "never" in rule and self.selects(rule["never"], step):
            self.broken.add(("SW403", self.last))
        if "followed_by" in rule and self.selects(rule["followed_by"]["then"], step):
            self.owed = False
        self.performs(step, again=again)

    def performs(self, step: dict[str, Any], *, again: bool) -> None:
        idempotent = step["type"] == "tool" and self.program["tools"][step["tool"]].get("idempotent", False)
        if again and idempotent:
            return
        rule = self.rule
        if "at_most_once" in rule and self.selects(rule["at_most_once"], step):
            self.performed.append(step["id"])
            if len(self.performed) > 1:
                self.broken.add(("SW404", self.last))
        before = set(self.performed)
        for side, selector in enumerate(rule.get("exclusive", ())):
            if self.selects(selector, step):
                self.performed.append(str(side))
        # Of a run that has performed both, what comes after is no second violation.
        if "exclusive" in rule and before != {"0", "1"} == set(self.performed):
            self.broken.add(("SW406", self.last))

    def satisfied(self, requirement: dict[str, Any], *, stale_counts: bool) -> bool:
        if "all_of" in requirement:
            return all(self.satisfied(part, stale_counts=stale_counts) for part in requirement["all_of"])
        if "any_of" in requirement:
            return any(self.satisfied(part, stale_counts=stale_counts) for part in requirement["any_of"])
        key = repr(requirement)
        return self.succeeded.get(key, False) and (stale_counts or key not in self.stale)

    def count_success(self, step: dict[str, Any], outcome: str) -> None:
        if outcome != "success":
            return
        for guard in self.guards(self.rule.get("requires", {})):
            if guard.get("step") == step["id"] and "branch" not in guard:
                self.succeeded[repr(guard)] = True
        pair = self.rule.get("followed_by")
        if pair and self.selects(pair["first"], step) and not self.selects(pair["then"], step):
            self.owed = True

    def ended(self, stop: Stop) -> None:
        ends = self.rule.get("ends")
        if self.owed and "followed_by" in self.rule and (ends != "success" or stop.status == "SUCCESS"):
            self.broken.add(("SW405", self.last))
