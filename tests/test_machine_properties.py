"""Differential: random programs on the machine, with random tools, held against a naive interpretation of the text."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from interpreter import Interpreter
from machines import unchecked
from programs import programs
from stepward.vm import InDoubt, MemoryJournal, ModelReply, Program, ProgramError, Run, ToolContext
from stepward.vm.language.automata import Bound, bound
from stepward.vm.machine import calls
from stepward.vm.machine.clock import ManualClock

COMMON = settings(
    deadline=None, suppress_health_check=list(HealthCheck), derandomize=True, database=None, phases=[Phase.generate]
)
FATES = 5
"""Runs of each program: making a program costs as much as running it that often."""

WEIGHTS = [(6, 1, 1, 1, 1), (2, 2, 2, 1, 1), (20, 1, 0, 0, 0), (3, 6, 1, 0, 0), (4, 0, 4, 0, 0), (2, 0, 0, 3, 1)]
"""How often a call succeeds, raises, is late, is lost, and answers what is ill-typed."""

VERDICTS = ["done", "done", "not_done", "not_done", "abandon"]


class Fate:
    """What happens to a run: the same for whoever asks, as it hangs on nothing but the names of things."""

    def __init__(self, seed: int, weights: tuple[int, ...]) -> None:
        self.seed = seed
        self.weights = weights

    def answers(self, step: str, visit: int, attempt: int) -> tuple[str, str]:
        chance = random.Random(f"{self.seed} {step} {visit} {attempt}")
        said = chance.choices(["ok", "raise", "late", "lost", "bad"], self.weights)[0]
        return said, chance.choice("kmn")

    def verdicts(self, step: str, visit: int, attempt: int) -> tuple[str, str]:
        chance = random.Random(f"{self.seed} {step} {attempt} verdict")
        return chance.choice(VERDICTS), chance.choice("kmn")


class Outside:
    """The tools and the model of a run, as fate has it; `calls` are all of them, with the key of each."""

    def __init__(self, fate: Fate, clock: ManualClock) -> None:
        self.fate = fate
        self.clock = clock
        self.calls: list[tuple[str, int, int, str]] = []

    def has(self, name: str) -> bool:
        return True

    async def call(self, name: str, args: Any, context: ToolContext) -> Any:
        self.calls.append((context.step, context.visit, context.attempt, context.idempotency_key))
        return self.said(context.step, context.visit, context.attempt)

    async def complete(self, request: Any) -> ModelReply:
        self.calls.append((request.step, request.visit, request.attempt, ""))
        return ModelReply(self.said(request.step, request.visit, request.attempt), 3)

    def said(self, step: str, visit: int, attempt: int) -> Any:
        said, value = self.fate.answers(step, visit, attempt)
        if said == "raise":
            raise ValueError("no")
        if said == "lost":
            raise InDoubt("lost")
        if said == "late":
            self.clock.time += 5_000_000
        return 5 if said == "bad" else value


async def driven(data: dict[str, Any], fate: Fate, x: str) -> tuple[Run, Outside]:
    """Run a program on the machine, and settle every doubt as fate has it."""
    clock = ManualClock()
    outside = Outside(fate, clock)
    machine = unchecked(outside, outside, MemoryJournal(), clock=clock)
    run = await machine.run(Program.from_dict(data), {"x": x}, run_id="run")
    while run.status == "IN_DOUBT":
        doubt = run.doubts[0]
        attempt = max(called[2] for called in outside.calls if called[3] == doubt.key)
        verdict, value = fate.verdicts(doubt.step, 0, attempt)
        run = await machine.reconcile("run", doubt.step, verdict, value)  # type: ignore[arg-type]
    again = await machine.get("run")
    assert (again.snapshot(), again.trace_hash) == (run.snapshot(), run.trace_hash)
    return run, outside


async def compared(data: dict[str, Any], fate: Fate, x: str) -> Interpreter:
    """Hold the machine against the interpretation, in everything that the language speaks of."""
    said = Interpreter(data, {"x": x}, fate.answers, fate.verdicts).go()
    run, outside = await driven(data, fate, x)
    assert (run.status, run.reason) == (said.status, said.reason), run.error
    assert (run.steps, run.tokens, run.step) == (said.steps, said.tokens, said.path[-1])
    assert bool(run.broken) == said.broken
    values = dict(run.view("tool"))
    assert set(values) == set(said.values)
    for name, value in values.items():
        assert name.endswith(".error") or value == said.values[name], name
    assert sorted(called[:3] for called in outside.calls) == sorted(called[:3] for called in said.calls)
    keys = {called[:3]: called[3] for called in outside.calls if called[3]}
    told = {called[:3]: (called[0], called[1], called[3]) for called in said.calls}
    pairs = {(key, told[called]) for called, key in keys.items()}
    assert len(pairs) == len({key for key, _ in pairs}) == len({performance for _, performance in pairs})
    return said


def search(case: tuple[dict[str, Any], list[tuple[Fate, str]]]) -> list[Interpreter]:
    """Run a program under every fate of a case."""

    async def all_of_them() -> list[Interpreter]:
        return [await compared(case[0], fate, x) for fate, x in case[1]]

    return asyncio.run(all_of_them())


STALE: list[dict[str, Any]] = [
    {"id": "s0", "type": "llm", "prompt": "say", "output_key": "a", "next_step": "s1"},
    {"id": "s1", "type": "condition", "condition": "$a == 'k'", "then": "s2", "otherwise": "s0"},
    {"id": "s2", "type": "tool", "tool": "read", "output_key": "a", "on_error": "skip", "next_step": "s3"},
    {"id": "s3", "type": "tool", "tool": "write", "is_terminal": True},
]
GATED = {"name": "rule", "protects": {"tool": "write"}, "requires": {"step": "s1", "branch": "then"}}
"""A trap that chance alone seldom builds: what the branch read is assigned again before what it guards."""


@st.composite
def cases(draw: st.DrawFn) -> tuple[dict[str, Any], list[tuple[Fate, str]]]:
    data = draw(programs())
    chance = random.Random(draw(st.integers(0, 1 << 40)))
    ids = [step["id"] for step in data["steps"]]
    for step in data["steps"]:  # else most runs end after two steps
        if step.get("is_terminal") and chance.random() < 0.7:
            del step["is_terminal"]
            step["next_step"] = chance.choice(ids)
    if chance.random() < 0.1:
        data |= {"steps": [dict(step) for step in STALE], "guardrails": [GATED]}
        ids = [step["id"] for step in data["steps"]]
    conditions = [step for step in data["steps"] if step["type"] == "condition"]
    kind = chance.randrange(4)
    if kind < 2 and conditions:
        guard = chance.choice(conditions)
        branch = chance.choice([name for name in ("then", "otherwise", "cases") if guard.get(name)])
        requires = {"step": guard["id"], "branch": 1 if branch == "cases" else branch}
        protected = chance.choice([{"tool": chance.choice(["read", "write", "again"])}, {"step": chance.choice(ids)}])
        data["guardrails"] = [{"name": "rule", "protects": protected, "requires": requires}]
    elif kind == 2:
        data["guardrails"] = [{"name": "rule", "at_most_once": {"tool": chance.choice(["read", "again"])}}]
    data["max_steps"] = chance.choice([3, 8, 20, 30])
    if chance.random() < 0.3:
        data["max_stalled_steps"] = chance.randint(1, 4)
    if chance.random() < 0.3:
        data["max_tokens"] = chance.randint(1, 12)
    fates = [Fate(chance.getrandbits(30), chance.choice(WEIGHTS)) for _ in range(FATES)]
    return data, [(fate, chance.choice("kmn")) for fate in fates]


@pytest.mark.slow
def test_the_machine_does_what_the_text_says() -> None:
    seen: set[tuple[str, str]] = set()

    @settings(COMMON, max_examples=300)
    @given(cases())
    def look(case: tuple[dict[str, Any], list[tuple[Fate, str]]]) -> None:
        seen.update((said.status, said.reason) for said in search(case))

    look()
    # What never happens in the search is not tested by it.
    assert seen >= {
        ("SUCCESS", "declared"),
        ("FAILED", "declared"),
        ("FAILED", "error"),
        ("FAILED", "uncovered"),
        ("FAILED", "guardrail"),
        ("STALLED", "visits"),
        ("STALLED", "no-progress"),
        ("BUDGET_EXCEEDED", "max_steps"),
        ("BUDGET_EXCEEDED", "max_tokens"),
        ("CANCELLED", "abandoned"),
    }


def no_doubt(call: Any, tried: int, result: Any) -> str:
    kind = REAL_OUTCOME(call, tried, result)
    return "failed" if kind == "doubt" else kind


def sloppy_budget(plan: Any, state: Any, cost: int) -> bool:
    return bool(state.steps + cost > plan.program.max_steps + 1)


def never_stale(*asked: Any) -> Bound:
    found = bound(*asked)
    return found._replace(stale_by=tuple(frozenset() for _ in found.stale_by))


REAL_OUTCOME = calls._outcome
BROKEN: dict[str, tuple[str, Any]] = {
    "a budget that is one too large": ("decide.out_of_steps", sloppy_budget),
    "a rule that is never asked": ("monitors.Watch.objection", lambda *_: None),
    "a branch that never goes stale": ("monitors.bound", never_stale),
    "a write that is never in doubt": ("calls._outcome", no_doubt),
    "an output that stays when a step fails": ("apply._unset", lambda step, error: [(step.error, error)]),
    "retries in place of repeats": ("calls._is_new", lambda *_: True),
}


@pytest.mark.parametrize("name", BROKEN)
def test_the_search_finds_a_broken_machine(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    where, instead = BROKEN[name]
    monkeypatch.setattr(f"stepward.vm.machine.{where}", instead)

    @settings(COMMON, max_examples=300)
    @given(cases())
    def look(case: tuple[dict[str, Any], list[tuple[Fate, str]]]) -> None:
        search(case)

    with pytest.raises(Exception) as found:  # noqa: PT011 - whatever comes first is how it shows
        look()
    assert not isinstance(found.value, ProgramError), "that is a mistake of the search"
