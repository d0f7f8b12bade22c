"""Whole runs of the example programs and of random ones, with answers that hang on names and a seed alone.

Run as a program, it reads the runs of a journal and makes them again, and prints what it got: so that another process,
with another hash seed and in another time zone, can be compared.
"""

from __future__ import annotations

import json
import random
import runpy
import sys
from dataclasses import replace
from functools import cache
from hashlib import sha256
from re import _parser  # type: ignore[attr-defined]
from typing import Any

from machines import Bench
from paths import GOOD
from stepward.vm import MemoryJournal, ModelReply, Program, Run, Suspend, ToolContext
from stepward.vm.journal.store import Append
from stepward.vm.language.types import TypeSpec
from stepward.vm.machine.plan import CallPlan, Plan


@cache
def good_programs() -> dict[str, Program]:
    """Return the good example programs by name. Three files ask for them when they are collected."""
    found = {}
    for path in sorted(GOOD.iterdir()):
        if path.suffix == ".py":
            found[path.stem] = next(held for held in runpy.run_path(str(path)).values() if isinstance(held, Program))
        elif path.suffix in (".yaml", ".json"):
            found[path.stem] = Program.load(path)
    return found


def matching(pattern: str, chance: random.Random) -> str:
    """Return a text that a simple pattern finds."""
    return "".join(_piece(kind, held, chance) for kind, held in _parser.parse(pattern))


def _piece(kind: Any, held: Any, chance: random.Random) -> str:
    name = str(kind)
    if name == "LITERAL":
        return chr(held)
    if name == "IN":
        if str(held[0][0]) == "NEGATE":
            return chance.choice("xyz")
        word, inner = chance.choice(held)
        return chr(inner if str(word) == "LITERAL" else chance.randint(*inner))
    if name == "MAX_REPEAT":
        least, most, inner = held
        many = chance.randint(least, min(most, least + 3))
        return "".join(_piece(*piece, chance) for _ in range(many) for piece in inner)
    return ""


def sample(spec: TypeSpec | None, chance: random.Random) -> Any:
    """Return a value of a type."""
    if spec is None:
        return chance.choice(["x", 1, 2.5, True, None])
    if spec.enum is not None:
        return chance.choice(spec.enum)
    word = chance.choice(spec.type or ("string",))
    if word in ("integer", "number"):
        low = int(spec.minimum or 0)
        high = int(spec.maximum) if spec.maximum is not None else low + 100
        number = chance.randint(low, high)
        return number if word == "integer" or number == high else number + chance.choice([0, 0.25, 0.5])
    if word == "string":
        return matching(spec.pattern, chance) if spec.pattern else chance.choice(["ok", "yes", "refund", "e" * 12])
    if word == "array":
        return [sample(spec.items, chance) for _ in range(chance.randint(0, 3))]
    if word == "object":
        known = spec.properties or {}
        return {name: sample(known[name], chance) for name in known if name in spec.required or chance.random() < 0.5}
    return {"boolean": chance.random() < 0.5, "null": None}[word]


class Fate:
    """Tools and a model of which each answer hangs on the step, its visit, its attempt, and a seed."""

    def __init__(self, plan: Plan, seed: str) -> None:
        self.seed = seed
        self.calls: dict[str, CallPlan] = {call.id: call for step in plan.steps for call in step.calls}

    def has(self, name: str) -> bool:
        return True

    def chance(self, *names: Any) -> random.Random:
        return random.Random(" ".join(map(str, (self.seed, *names))))

    def value(self, step: str, chance: random.Random) -> Any:
        call = self.calls[step]
        return chance.choice(call.allowed) if call.allowed else sample(call.returns, chance)

    async def call(self, name: str, args: Any, context: ToolContext) -> Any:
        chance = self.chance(context.step, context.visit, context.attempt)
        if self.calls[context.step].may_suspend:
            return Suspend({"for": context.step})
        if chance.random() < 0.08:
            raise ValueError(f"no, says {context.step}")
        return self.value(context.step, chance)

    async def complete(self, request: Any) -> ModelReply:
        chance = self.chance(request.step, request.visit, request.attempt)
        if chance.random() < 0.08:
            raise RuntimeError("overloaded")
        value = self.value(request.step, chance)
        return ModelReply(value if isinstance(value, str) else json.dumps(value), chance.randint(1, 50), 0.25)

    def payload(self, run: Run, step: str) -> Any:
        return self.value(step, self.chance(step, run.steps, "payload"))


def cut(journal: Any, run: str, records: int) -> MemoryJournal:
    """Return a journal that ends after so many records, as a crash leaves it."""
    shorter, entries = MemoryJournal(), journal.read(run)[:records]
    body = json.loads(entries[0].record)["body"]
    for digest in (body["program"], *body["policies"]):
        shorter.put_document(digest, journal.document(digest))
    shorter.vault.put(run, journal.vault.get(run))
    assert shorter.create(Append(run, -1, entries[:1], "RUNNING", 0.0, True, None), "name", "nobody", 0.0)
    if records > 1:
        shorter.append(Append(run, 0, entries[1:], "RUNNING", 0.0, True, None), None)
    return shorter


def goes_on(bench: Bench, run: Run, fate: Fate) -> Run:
    """Resume whatever waits, or let its time pass, until the run ends."""
    while run.status == "SUSPENDED":
        if run.due is not None:
            bench.clock.time = max(bench.clock.time, int(run.due * 1e6) + 1)
            (run,) = bench.vm.recover_sync(run.id)
            continue
        held = run.suspensions[0]
        run = bench.vm.resume_sync(held.token, fate.payload(run, held.step))
    return run


def made(program: Program, seed: str, bench: Bench, run_id: str) -> tuple[Run, Fate]:
    """Run a program under a seed to its end."""
    plan = Plan(program)
    fate = Fate(plan, seed)
    bench.vm.tools, bench.vm.model = fate, fate
    bench.vm._setup = replace(bench.vm._setup, tools=fate, model=fate)
    inputs = {
        name: sample(spec, fate.chance("input", name))
        for name, spec in plan.input_types.items()
        if spec is None or not spec.has_default
    }
    return goes_on(bench, bench.vm.run_sync(program, inputs, run_id=run_id), fate), fate


def told(run: Run) -> str:
    """Return what must be the same wherever a run is read or made."""
    return f"{run.status} {run.reason} {run.step} {run.trace_hash} {sha256(run.snapshot()).hexdigest()}"


def main(path: str, seeds: list[str]) -> None:
    from stepward.vm import SQLiteJournal

    stored = Bench(journal=SQLiteJournal(path, create=False))
    print(json.dumps({row.run: told(stored.vm.get_sync(row.run)) for row in stored.journal.rows()}))
    again = {}
    for name, program in good_programs().items():
        # A sealed value has a key of its own in each run; a run with a time limit knows when it started.
        if not Plan(program).has_sensitive and program.timeout_seconds is None:
            again |= {f"{name}-{seed}": told(made(program, seed, Bench(), f"{name}-{seed}")[0]) for seed in seeds}
    print(json.dumps(again))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
