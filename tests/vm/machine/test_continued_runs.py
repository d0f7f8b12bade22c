"""Random: runs that are interrupted and continued, held against the joined trace, the enumeration and their budgets.

By day there are few of them, and 2,000 with `STEPWARD_MANY`.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any, Final

import pytest

from brute_force import truth
from comparing import Comparison, compare_proofs, compare_rules, refused
from continued_rules import any_past, assigned, candidates
from machines import unchecked
from sizes import size
from small_language import NotSmallError, domain, frozen
from small_programs import small_program
from small_runs import Chance
from small_tools import TOOLS
from stepward.sabotage.drawn.lockstep import lockstep
from stepward.sabotage.drawn.machine import DrawnCase, Parted
from stepward.validator import ProgramValidator, Verdict
from stepward.vm import ExecutionVM, MemoryJournal, Policy, Program, Run
from stepward.vm.journal.verify import verify
from stepward.vm.language.meaning import Meaning
from stepward.vm.machine import calls, replay
from stepward.vm.machine.effects import digest_of_arguments
from stepward.vm.machine.handing import readable
from stepward.vm.machine.history import History, load, stored_plan
from stepward.vm.machine.refusals import RunRefused
from stepward.vm.machine.replay import replayer
from trace_judge import Judge

CASES: Final = size(12, 2_000)
PROVED_EVERY: Final = 3
"""The gate is asked about every third continuation: its proofs take most of the time."""

SHARE_OF_TIMED: Final = 0.25
"""The share of the runs that have a time limit."""

BOUNDS: Final = {"steps": "max_steps", "tokens": "max_tokens"}


@dataclass
class Seen:
    """What was found wrong, and what was looked at."""

    wrong: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)


SHARE_ABOUT_STEPS = 0.15
"""The share of programs whose rules may name steps: most programs are refused that call the same in other steps."""


@dataclass
class Case:
    """A program that is interrupted, and what continues it."""

    seed: int
    data: dict[str, Any]
    chance: Random
    journal: MemoryJournal
    machine: ExecutionVM

    def history(self, run: str) -> History:
        found = load(self.journal, run, partial(stored_plan, self.journal))
        assert found is not None
        return found


def renamed(data: dict[str, Any], number: int) -> dict[str, Any]:
    """Return a program with other ids of its steps."""
    text = json.dumps(data)
    for name in ("gate", "stop", "between"):
        text = re.sub(rf'"{name}(\w*)"', rf'"{name}\1_{number}"', text)
    text = re.sub(r"(?<![\w.])s(\d+)(?![\w])", rf"t{number}s\1", text)
    found: dict[str, Any] = json.loads(re.sub(r"(?<![\w.])s(\d+_\d+)(?![\w])", rf"t{number}s\1", text))
    return found


def interrupted(seed: int) -> tuple[Case, Run] | None:
    """Return a run that has used up its steps, of a drawn program with rules of its own and of a policy."""
    chance, data = Random(f"interrupted {seed}"), small_program(seed)
    data["max_steps"] = chance.randint(2, len(data["steps"]) + 1)
    data["tools"] = dict(TOOLS)
    if Random(f"timed {seed}").random() < SHARE_OF_TIMED:
        data |= {"language": 2, "timeout_seconds": 1_000}
    few = Random(f"about steps {seed}").random() < SHARE_ABOUT_STEPS
    rules = [*(rule for rule in data["guardrails"] if few or '"step"' not in json.dumps(rule)), *more_rules(chance)]
    own = [rule for rule in rules if chance.random() < 0.5]
    of_policy = [rule for rule in rules if rule not in own]
    play, journal = Chance(data, seed, 0.05), MemoryJournal()
    policy = Policy.from_dict({"policy": "desk", "guardrails": of_policy})
    machine = unchecked(play, play, journal, clock=play.clock, policy=policy)
    program = Program.from_dict({**data, "guardrails": own})
    run = machine.run_sync(program, play.inputs(), run_id="run")
    if run.status not in ("BUDGET_EXCEEDED", "STALLED"):
        return None
    return Case(seed, {**data, "guardrails": rules}, chance, journal, machine), run


def more_rules(chance: Random) -> list[dict[str, Any]]:
    """Return rules about tools, whichever of the two programs calls them."""
    one, two, three = ({"tool": name} for name in chance.sample(["pay", "book", "mail", "ask", "count"], 3))
    return [
        {"name": "once", "at_most_once": one},
        {"name": "asked", "protects": two, "requires": chance.choice([three, {"any_of": [one, three]}])},
        {"name": "either", "exclusive": [two, three]},
        {"name": "after", "followed_by": {"first": one, "then": three}, **chance.choice([{}, {"ends": "any"}])},
    ]


def following(case: Case, number: int, last: History) -> tuple[dict[str, Any], dict[str, str]]:
    """Return a drawn program that goes on, and what it reads: of each input a value of its type, or its default."""
    chance = case.chance
    while True:
        data = renamed(small_program(chance.randrange(100_000)), number)
        if "timeout_seconds" in case.data:
            data |= {"language": 2, **chance.choice([{}, {"timeout_seconds": chance.choice([60, 5_000])}])}
        if data.get("language") == case.data.get("language"):
            break
    reads: dict[str, str] = {}
    known = readable(last)
    for name, spec in data["inputs"].items():
        values = domain(spec)
        kinds = {type(value) for value in values}
        fitting = [one for one, held in known.items() if type(held) in kinds and held in values and "." not in one]
        if name in fitting and chance.random() < 0.7:
            reads[name] = name
        elif fitting and chance.random() < 0.7:
            reads[name] = chance.choice(fitting)
        else:
            data["inputs"][name] = {**spec, "default": chance.choice(values)}
    data["tools"] = dict(TOOLS)
    del data["guardrails"]
    if chance.random() < 0.6:
        repeat_one(data, sorted(_done(case, last)), chance)
    return data, reads


def repeat_one(data: dict[str, Any], done: list[tuple[str, str]], chance: Random) -> None:
    """Let a call whose output nothing reads be one that a run before has made, mostly with the same arguments."""
    text = json.dumps(data)
    calls = [
        part
        for step in data["steps"]
        for part in (step, *step.get("parallel_steps", ()))
        if part["type"] == "tool" and "output_key" not in part and f"${part['id']}." not in text
    ]
    if calls and done:
        part, (tool, args) = chance.choice(calls), chance.choice(done)
        if part["tool"] != tool or chance.random() < 0.7:
            part.update(tool=tool, args=json.loads(args))


def _done(case: Case, last: History) -> set[tuple[str, str]]:
    """Return the writes of a run and of those before it."""
    link = last.records[0].body.get("continues")
    before = set() if link is None else _done(case, case.history(link["run"]))
    return before | set(_effects(last))


def _ids(data: dict[str, Any]) -> list[str]:
    return [part["id"] for step in data["steps"] for part in (step, *step.get("parallel_steps", ()))]


def play(seed: int, seen: Seen) -> None:
    """Interrupt a run, continue it up to three times, and look at all of it."""
    begun = interrupted(seed)
    if begun is None:
        seen.counts["not interrupted"] += 1
        return
    case, run = begun
    parts, granted, runs = [case.data], Counter[str](), [run]
    for number in range(1, case.chance.choice([2, 2, 3, 4])):
        last = case.history(runs[-1].id)
        data, reads = following(case, number, last)
        grant = {"steps": case.chance.choice([3, 6, 12, 30])}
        if "timeout_seconds" in case.data:
            grant |= case.chance.choice([{}, {"time": 10}])
        try:
            run = case.machine.continue_run_sync(
                runs[-1].id, Program.from_dict(data), reads, grant=grant, after_failure=case.chance.random() < 0.3
            )
        except RunRefused as refusal:
            seen.counts["refused: " + re.sub(r"`[^`]*`|\d+", "…", str(refusal))[:60]] += 1
            break
        if not run.is_over:
            case.machine.cancel_sync(run.id)
            break
        granted.update(grant)
        runs.append(run)
        parts.append(data)
        seen.counts["continuations"] += 1
        _look_at(case, parts, runs, granted, seen)


def _look_at(case: Case, parts: list[dict[str, Any]], runs: list[Run], granted: Counter[str], seen: Seen) -> None:
    def wrong(what: str) -> None:
        seen.wrong.append(f"{case.seed}, {runs[-1].id}: {what}")

    faults = verify(case.journal, runs[-1].id, replay=replayer(case.journal, runs[-1].id)).faults
    if faults:
        wrong(f"it is not verified: {faults[0].what}")
    histories = [case.history(run.id) for run in runs]
    for what in _exceeded(case, histories, granted):
        wrong(what)
    done = [_effects(history) for history in histories]
    earlier = set().union(*map(set, done[:-1]))
    repeated = [effect for effect in done[-1] if effect in earlier]
    if repeated:
        wrong(f"it has repeated {repeated[0]}")
    seen.counts["writes of continuations"] += len(done[-1])
    judge = judged(parts, histories)
    owed = {rule["name"] for rule in case.data["guardrails"] if "followed_by" in rule}
    for rule, step in judge.breaches:
        if rule in owed:
            seen.counts["owed"] += 1
            if rule not in dict(runs[-1].broken):
                wrong(f"the machine does not say that {rule} is broken at {step}")
        elif not rule.startswith(("coverage", "exclusive cases")):
            wrong(f"{rule} is broken at {step}, and one run would have kept it")
    for rule in dict(runs[-1].broken):
        if (rule, rule) not in judge.breaches and rule not in {one for one, _ in judge.breaches}:
            wrong(f"the machine says that {rule} is broken, and it is not")
    seen.counts["blocked by a rule"] += runs[-1].reason == "guardrail"
    if seen.counts["continuations"] % PROVED_EVERY == 0:
        _hold_against_enumeration(case, parts[-1], histories[-1], earlier, judge, seen)


def _exceeded(case: Case, histories: list[History], granted: Counter[str]) -> Iterator[str]:
    """Yield what a chain spends too much of: its steps, and the time that its last run may take."""
    spent = sum(history.state.steps for history in histories)
    if spent > case.data["max_steps"] + granted["steps"]:
        yield f"the chain has spent {spent} steps"
    if "timeout_seconds" in case.data:
        *earlier, (first, *_) = (history.records for history in histories)
        most = (case.data["timeout_seconds"] + granted["time"]) * 1_000_000
        left = most - sum(records[-1].at - records[0].at for records in earlier)
        if "due" not in first.note or first.note["due"] - first.at > left:
            yield "the chain may go on beyond its time"


def _effects(history: History) -> list[tuple[str, str]]:
    """Return the writes that a run has started."""
    return [
        (record.body["tool"], json.dumps(record.body["args"], sort_keys=True))
        for record in history.records
        if record.kind == "intent" and TOOLS[record.body["tool"]]["effect"] == "write"
    ]


def judged(parts: list[dict[str, Any]], histories: list[History]) -> Judge:
    """Judge the joined trace of a chain as that of one run of the joined program: what its last run has broken."""
    whole = {**parts[0], "steps": [step for part in parts for step in part["steps"]]}
    judge = Judge(whole)
    for number, history in enumerate(histories):
        judge.breaches.clear()
        judge.begun.clear()
        judge.fates.clear()
        judge.begun_now.clear()
        for record in history.records:
            if record.kind == "started":
                inputs = {name: frozen(value) for name, value in record.body["inputs"].items()}
                same = record.body.get("continues", {}).get("reads", {})
                for rule in judge.rules if number else ():
                    rule.assigned([name for name in inputs if same.get(name) != name])
                judge.values |= inputs
            elif "step" in record.body:
                judge._seen(record.kind, dict(record.body))
    status, reason = histories[-1].state.status, histories[-1].state.reason
    return judge.judge([], status, reason or "")


def _hold_against_enumeration(
    case: Case, data: dict[str, Any], history: History, done: set[tuple[str, str]], judge: Judge, seen: Seen
) -> None:
    """Hold the verdicts of the gate on a continuation against every run that it can have from its state.

    `done` are the writes of the runs before, each with its tool and its arguments as JSON.
    """
    policies = history.plan.policies
    rules = [rule.to_data() for policy in policies for rule in policy.guardrails]
    program = history.plan.program
    report = ProgramValidator(program, policies=policies).validate()
    proved = {one.rule for one in report.properties if one.verdict is Verdict.PROVED}
    if history.state.reason == "guardrail":  # what follows is proved as if no other rule stopped a run
        proved -= {one["name"] for one in rules if "followed_by" in one}
    broken = {rule for rule, _ in judge.breaches if rule in proved and rule in {one["name"] for one in rules}}
    seen.wrong += [f"{case.seed}: {rule} is proved, and broken" for rule in broken]
    whole = {**data, "max_steps": program.max_steps, "guardrails": json.loads(json.dumps(rules))}
    if program.timeout_seconds is not None:
        whole["timeout_seconds"] = 60
        seen.counts["held with a time limit"] += 1
    try:
        # The gate knows the digests of writes and not their arguments: any call of their tools may be a repeated one.
        found = truth({**whole, "performed": [(tool, None) for tool in {tool for tool, _ in done}]})
        exact = truth({**whole, "performed": [(tool, json.loads(args)) for tool, args in done]}) if done else found
    except (NotSmallError, KeyError):
        return
    for one in report.properties:
        if one.verdict is Verdict.UNKNOWN:  # it may read what the continuation does not have
            found.broken.pop(one.rule, None)
    result = Comparison()
    missed = {rule for rule, places in exact.broken.items() if places} & proved
    seen.wrong += [f"{case.seed}: {rule} is proved, and a run that repeats no write breaks it" for rule in missed]
    compare_rules({**data, "guardrails": rules}, report, found, result)
    compare_proofs(data, report, found, result)
    seen.wrong += [f"{case.seed}: {one}" for one in (*result.wrong, *refused(report, is_rechecked=True))]
    seen.counts["held against the enumeration"] += 1
    if done:
        seen.counts["held after writes"] += 1
        seen.counts["may repeat a write"] += any(
            call.tool in dict(done) for step in history.plan.steps for call in step.calls
        )
        judgements = [one for one in report.properties if one.rule in found.broken]
        seen.counts["verdicts after writes"] += len(judgements)
        seen.counts["open after writes"] += sum(one.verdict is Verdict.UNKNOWN for one in judgements)
        seen.counts["violated only if a call is not a repeated one"] += sum(
            one.verdict is Verdict.VIOLATED and not exact.broken.get(one.rule) for one in judgements
        )


def test_continued_runs_break_no_rule_repeat_no_write_and_stay_within_their_budgets() -> None:
    seen = Seen()
    for seed in range(CASES * 4):
        if seen.counts["interrupted"] == CASES:
            break
        play(seed, seen)
        seen.counts["interrupted"] = seed + 1 - seen.counts["not interrupted"]
    assert seen.wrong == []
    assert seen.counts["continuations"] > CASES / 2, seen.counts
    assert seen.counts["blocked by a rule"] > CASES / 60, seen.counts
    assert seen.counts["held against the enumeration"] > CASES / 60, seen.counts
    assert seen.counts["held after writes"] >= CASES / 60, seen.counts
    assert seen.counts["writes of continuations"] > CASES / 10, seen.counts


def test_a_gate_that_forgets_that_repeated_writes_are_refused_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Meaning, "performed", property(lambda self: frozenset()))
    monkeypatch.setitem(globals(), "PROVED_EVERY", 1)
    seen = Seen()
    play(15, seen)
    assert any("the second checker does not accept the proof" in one for one in seen.wrong), seen.wrong


# -- the reference -----------------------------------------------------------------------------------------------------


def drawn(seed: int) -> DrawnCase:
    """Return a program under a policy that a continuation may have: rules with a past, and writes that were done."""
    chance, data = Random(f"drawn {seed}"), small_program(seed)
    rules = candidates(data, chance)
    for rule in rules:
        past = any_past(rule, assigned(data), chance)
        if past is not None:
            rule["already"] = past
    done = [
        {"tool": part["tool"], "args": digest_of_arguments(part.get("args", {}))}
        for step in data["steps"]
        for part in (step, *step.get("parallel_steps", ()))
        if part["type"] == "tool" and chance.random() < 0.3
    ]
    policy = {"policy": "before", "continues": "run", "guardrails": rules, "performed": done}
    del data["guardrails"]
    return DrawnCase(Program.from_dict(data), str(seed), [Policy.from_dict(policy)])


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a run stand alone under the policies of a chain: it is about the rules, and there are no runs before it."""
    monkeypatch.setattr(replay, "stray", lambda found: None)


@pytest.mark.usefixtures("alone")
def test_the_reference_plays_continuations_as_the_machine_does() -> None:
    endings = Counter[str]()
    for seed in range(size(12, 1_000)):
        found = lockstep(drawn(seed))
        endings[found.ending[1]] += 1
    assert endings["guardrail"] > 5, endings


@pytest.mark.usefixtures("alone")
def test_a_machine_that_repeats_writes_parts_from_the_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "repeated", lambda policies, tool, args: None)
    with pytest.raises(Parted):
        list(map(lockstep, map(drawn, range(40))))
