"""Runs of small programs on the machine, with every choice left to chance: what happens there must be in the truth.

`contradictions` holds proofs against such runs: the guardrails are taken out of the program that runs, so that the
machine does not keep them, and `trace_judge` reads what it wrote.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from random import Random
from typing import Any, Final

from brute_order import needs_of
from machines import unchecked
from named_errors import LISTED
from small_language import Items, domain, thawed
from stepward.validator import Verdict
from stepward.validator.findings import Property
from stepward.vm import MemoryJournal, ModelReply, Program, Run, ToolContext, ToolError
from stepward.vm.machine.clock import ManualClock
from stepward.vm.machine.models import ANY_NAME, ModelRequest
from trace_judge import Judge


class Chance:
    """Tools and a model that say anything that they may say, fail, and come late."""

    def __init__(self, data: dict[str, Any], seed: object, failing: float = 0.25) -> None:
        self.data = data
        self.random = Random(str(seed))
        self.failing = failing
        self.is_ordered = any(needs_of(step) for step in data["steps"])
        self.clock = ManualClock()

    def has(self, name: str) -> bool:
        return True

    async def call(self, name: str, args: Mapping[str, Any], context: ToolContext) -> Any:
        await self.dally()
        self.fail()
        return thawed(self.random.choice(domain(self.data["tools"][name].get("returns"))))

    names = ANY_NAME

    async def complete(self, request: ModelRequest) -> ModelReply:
        await self.dally()
        self.fail()
        if request.schema is not None:
            return ModelReply(thawed(self.random.choice(domain(dict(request.schema)))), *self.spent())
        return ModelReply(self.random.choice(request.allowed or ("any",)), *self.spent())

    def spent(self) -> tuple[int, Decimal]:
        """Return what a reply takes of `max_tokens` and of `max_cost`."""
        tokens = self.random.randint(0, 12) if "max_tokens" in self.data else 0
        return tokens, Decimal(tokens) / 10

    async def dally(self) -> None:
        """Let calls of a step with `depends_on` come back in any order."""
        if self.is_ordered:
            for _ in range(self.random.randrange(30)):
                await asyncio.sleep(0)

    def fail(self) -> None:
        """Fail now and then, or be too late."""
        roll = self.random.random()
        if roll < self.failing:
            name = self.random.choice(("", *LISTED)) if self.data.get("language") == 2 else ""
            raise ToolError(name, "it did not happen") if name else ValueError("it did not happen")
        if roll < self.failing * 1.6:
            self.clock.time += 2_000_000

    def run(self) -> Run:
        """Run the program once; one that waits for somebody to look is cancelled."""
        machine = unchecked(self, self, MemoryJournal(), clock=self.clock)
        return machine.run_sync(Program.from_dict(self.data), self.inputs(), run_id="run")

    def inputs(self) -> dict[str, Any]:
        """Return a value for each input."""
        return {name: thawed(self._any(spec)) for name, spec in self.data.get("inputs", {}).items()}

    def _any(self, spec: dict[str, Any]) -> Any:
        """Return any value of a type; of lists, also those that no question tells apart."""
        if spec.get("type") != "array" or spec["items"] == {"type": "string"}:
            return self.random.choice(domain(spec))
        size = self.random.randint(spec.get("minItems", 0), spec.get("maxItems", 2))
        return Items(self.random.choice(domain(spec["items"])) for _ in range(size))


FAILING: Final = (0.25, 0.0, 0.08)
"""How often calls fail, in turns: where all may fail, few runs come far."""


def contradictions(
    data: dict[str, Any], properties: Sequence[Property], dead: set[str], seed: object, runs: int = 50
) -> list[str]:
    """Return what random runs show of a program that is said to be proved, or never to happen."""
    program = Program.from_dict(_without_rules(data))
    proved = {
        f"{prop.name} {prop.rule}" if prop.name in ("coverage", "exclusive cases") else prop.rule
        for prop in properties
        if prop.verdict is Verdict.PROVED and prop.name != "allow"
    }
    if all(prop.verdict is Verdict.PROVED for prop in properties if prop.name == "allow"):
        proved.add("allow")
    found: dict[str, str] = {}
    for number, (run, records) in enumerate(asyncio.run(all_runs(program, data, seed, runs))):
        judge = _judge(data).judge(records, run.status, run.reason or "")
        for rule, step in judge.breaches:
            if rule in proved:
                found.setdefault(rule, f"run {number}: {rule} is proved, and broken at {step}")
        for step in judge.reached & dead:
            found.setdefault(f"step {step}", f"run {number}: no run gets to {step}, and one does")
    return sorted(found.values())


def _without_rules(data: dict[str, Any]) -> dict[str, Any]:
    """Return a program, or a step of one, without its guardrails and those of bodies."""
    inner = [_without_rules(step) for step in data["steps"]] if "steps" in data else None
    kept = {name: value for name, value in data.items() if name != "guardrails"}
    return kept if inner is None else {**kept, "steps": inner}


def _judge(data: dict[str, Any]) -> Judge:
    from bodies_judge import BodiesJudge

    return BodiesJudge(data) if any(step["type"] == "for_each" for step in data["steps"]) else Judge(data)


async def all_runs(
    program: Program, data: dict[str, Any], seed: object, runs: int
) -> list[tuple[Run, list[dict[str, Any]]]]:
    """Return that many runs on one machine, and what each wrote."""
    chance, journal = Chance(data, seed), MemoryJournal()
    machine = unchecked(chance, chance, journal, clock=chance.clock)
    found = []
    for number in range(runs):
        chance.random, chance.failing = Random(f"{seed}/{number}"), FAILING[number % len(FAILING)]
        run = await machine.run(program, chance.inputs(), run_id=str(number))
        found.append((run, [json.loads(entry.record) for entry in journal.read(str(number))]))
    return found
