"""Small programs with branches: what the checker says is held against every interleaving, and runs of the machine.

`STEPWARD_BRANCHED=300` tries that many, `STEPWARD_MANY=1` tries 400.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from random import Random
from typing import Any

import pytest

from branched_programs import branched_program
from brute_branches import Enumeration, Event, Judge
from machines import Bench, program
from sizes import asked_for
from small_language import domain
from stepward.validator import Verdict
from stepward.validator.engine.witnesses.observed import moves_of, records_of
from stepward.validator.validator import ProgramValidator
from stepward.vm import ExecutionVM, MemoryJournal, Program, ProgramError, ToolContext
from stepward.vm.machine.clock import ManualClock
from stepward.vm.machine.plan import Plan
from stepward.vm.machine.tools import ToolError

CHUNK = 10
CHUNKS = max(1, asked_for("STEPWARD_BRANCHED", 10, 400) // CHUNK)
RUNS = 8
KINDS = ("requires", "at_most_once", "exclusive", "never", "followed_by")


def is_runnable(data: dict[str, Any]) -> bool:
    try:
        Plan(Program.from_dict(data))
    except ProgramError:
        return False
    return True


@pytest.mark.parametrize("chunk", [pytest.param(n, marks=[pytest.mark.slow] * (n > 1)) for n in range(CHUNKS)])
def test_small_programs_with_branches_agree_with_every_interleaving(chunk: int) -> None:
    wrong: dict[int, list[str]] = {}
    for number in range(chunk * CHUNK, (chunk + 1) * CHUNK):
        data = branched_program(number)
        if is_runnable(data):
            said = against_all_runs(data, number)
            if said:
                wrong[number] = said
    assert not wrong


def test_a_branch_that_has_succeeded_may_have_left_no_output() -> None:
    assert not against_all_runs(branched_program(329), 329)


@pytest.mark.parametrize("seed", [84, 135, 142, 143])
def test_a_follow_up_that_pays_too_much_or_too_little_is_seen_here(seed: int) -> None:
    """Programs in which a Q stands in a sibling of a P, or behind it: they give wrong payments away."""
    data = branched_program(seed)
    data["guardrails"] = [rule for rule in data["guardrails"] if "followed_by" in rule]
    assert not against_all_runs(data, seed)


def against_all_runs(data: dict[str, Any], seed: int) -> list[str]:
    """Return where the checker differs from the enumeration of all interleavings, or from runs of the machine."""
    broken = Enumeration(data).run()
    report = ProgramValidator(Program.from_dict(data)).validate()
    verdicts = {one.rule: one for one in report.properties if one.number is not None}
    wrong = [
        f"{name} is {one.verdict.name}, {'broken' if name in broken else 'kept'}"
        for name, one in verdicts.items()
        if not is_left_open(one.evidence.reason) and one.verdict is not due(name, broken)
    ]
    wrong += [
        f"{name} is not rechecked"
        for name, one in verdicts.items()
        if one.verdict is Verdict.PROVED and not one.rechecked
    ]
    proved = {name for name, one in verdicts.items() if one.verdict is Verdict.PROVED}
    return wrong + [f"{name} is proved, and a run breaks it" for name in proved & broken_by_runs(data, seed)]


def is_left_open(reason: str) -> bool:
    return reason == "the rule is vacuous" or reason.endswith("and that is not proved yet")


def test_nearly_every_rule_of_what_follows_is_decided() -> None:
    """Only an ending that comes at any time is left open, where P is in a branch beside which another one may run."""
    left: Counter[bool] = Counter()
    for number in range(60):
        data = branched_program(number)
        data["guardrails"] = [rule for rule in data["guardrails"] if "followed_by" in rule]
        if not is_runnable(data):
            continue
        properties = ProgramValidator(Program.from_dict(data)).validate().properties
        (found,) = [one for one in properties if one.rule == "follows"]
        if found.evidence.reason != "the rule is vacuous":
            is_open = is_left_open(found.evidence.reason)
            assert not is_open or is_beside(data), number
            left[is_open] += 1
    assert left[True] <= 1
    assert left[False] >= 33


def is_beside(data: dict[str, Any]) -> bool:
    """Return whether a rule counts any ending, and some branch of a program comes neither before nor after another."""
    branches = next(step["branches"] for step in data["steps"] if "branches" in step)
    needs = {name: set(one.get("depends_on", ())) for name, one in branches.items()}
    for known in needs.values():
        known |= {further for one in known for further in needs[one]}
    pairs = [(one, other) for one in needs for other in needs if one < other]
    is_free = any(one not in needs[other] and other not in needs[one] for one, other in pairs)
    return data["guardrails"][0].get("ends") == "any" and is_free


def due(name: str, broken: set[str]) -> Verdict:
    return Verdict.VIOLATED if name in broken else Verdict.PROVED


class Watched:
    """Tools that answer by chance after some turns of the loop, and note what starts and ends when."""

    def __init__(self) -> None:
        self.chance = Random(0)
        self.events: list[Event] = []
        self.keys: set[str] = set()

    def begin(self, seed: str) -> Random:
        """Forget what other runs have done, and return the chance of the next one."""
        self.chance, self.events, self.keys = Random(seed), [], set()
        return self.chance

    def has(self, name: str) -> bool:
        return bool(name)

    async def call(self, name: str, args: Mapping[str, Any], context: ToolContext) -> Any:
        del args
        if context.idempotency_key not in self.keys:  # else it is the same performance
            self.events.append(Event("starts", context.step, ()))
        self.keys.add(context.idempotency_key)
        for _ in range(self.chance.choice((0, 0, 1, 3, 9))):
            await asyncio.sleep(0)
        if self.chance.random() < 0.25:
            raise ToolError("Broken", "it broke")
        self.events.append(Event("succeeds", context.step))
        return self.chance.random() < 0.5 if name == "ask" else 0


def broken_by_runs(data: dict[str, Any], seed: int) -> set[str]:
    """Return the rules that runs of the machine broke, by what tools saw; the machine itself is told of no rule."""
    steps = [
        step | {"branches": {name: {**one, "guardrails": []} for name, one in step["branches"].items()}}
        if "branches" in step
        else step
        for step in data["steps"]
    ]
    bare = Program.from_dict({**data, "guardrails": [], "steps": steps})
    parts = {step.id: step.to_data() for step in bare.layout.steps if step.type != "stage"}
    rules = [rule for rule in data["guardrails"] if "when" not in rule and "branch" not in rule.get("requires", {})]
    rules = [rule for rule in rules if "'both'" not in str(rule)]  # no tool tells of the step
    judges = [Judge(rule, parts) for rule in rules]
    found: set[str] = set()
    tools = Watched()
    vm = ExecutionVM(tools, None, MemoryJournal(), checker=None, clock=ManualClock())
    for number in range(RUNS):
        chance = tools.begin(f"{seed} {number}")
        inputs = {"f": chance.random() < 0.5, "g": chance.choice("ab")}
        inputs |= {name: chance.choice(domain(data["inputs"][name])) for name in ("h", "n") if name in data["inputs"]}
        run = vm.run_sync(bare, inputs, run_id=f"run {number}")
        for judge in judges:
            memory: Any = judge.first
            for event in tools.events:
                memory, is_broken = judge.sees(memory, event)
                found |= {judge.rule["name"]} if is_broken else set()
            ending = "good" if run.status == "SUCCESS" else "failed"
            found |= {judge.rule["name"]} if judge.is_broken_at_end(memory, ending) else set()
    return found


def test_drawn_programs_have_kept_and_broken_rules_of_each_kind() -> None:
    missing = {(kind, is_broken) for kind in KINDS for is_broken in (True, False)}
    for data in filter(is_runnable, map(branched_program, range(60))):
        broken = Enumeration(data).run()
        missing -= {
            (next(word for word in KINDS if word in rule), rule["name"] in broken) for rule in data["guardrails"]
        }
        if not missing:
            return
    raise AssertionError(missing)


def test_the_path_of_a_run_has_the_starts_of_branches_and_their_join() -> None:
    look = {"type": "tool", "tool": "read"}
    each = {"id": "each", "type": "for_each", "items": [1], "as": "x", "do": {"id": "seen", **look}}
    branches = {
        "a": {"steps": [{"id": "t", **look}]},
        "b": {"depends_on": ["a"], "steps": [each, {"id": "e", "type": "end"}]},
    }
    both = {"id": "both", "type": "parallel", "branches": branches}
    bench = Bench({})
    bench.run(program(both, {"id": "z", "type": "end"}, language=2))
    records = tuple(records_of(bench.journal, "run"))
    assert [f"{move.step} {move.words}" for move in moves_of(records, {}, {"a", "b", "each"})] == [
        "both starts",
        "a starts",
        "t succeeds",
        "b starts",
        "each starts",
        "each next goes on to an item",
        "seen succeeds",
        "each next succeeds",
        "e ends its body",
        "both joined succeeds",
        "z ends the run",
    ]
