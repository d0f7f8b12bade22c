"""Differential: rules that begin where an earlier run left them, against the enumeration and against joined programs.

A rule with `already` has to have the verdict on a program that it has without it on a longer program, which first puts
it into that state.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from random import Random
from typing import Any

import pytest

from brute_force import truth
from comparing import Comparison, compare_proofs, compare_rules, refused
from continued_rules import any_past, assigned, candidates, single
from machines import unchecked
from sizes import size
from small_language import NotSmallError
from small_programs import small_program
from small_tools import TOOLS
from stepward.validator import ProgramValidator, Report, Verdict
from stepward.validator.analysis import monitors as possible
from stepward.validator.engine import guardrails as engine
from stepward.validator.recheck import rules as second
from stepward.vm import MemoryJournal, Policy, Program
from stepward.vm.language import automata
from stepward.vm.language.past import continued
from stepward.vm.machine.history import load, stored_plan

SEEDS = range(size(14, 90))

# What a rule may be about that the program itself does not have: only the run before it can have come there.
BEFORE: dict[str, Any] = {**TOOLS, "sign": {"effect": "read"}, "open": {"effect": "write"}}
ARGS = {"pay": {"x": 1}, "mail": {"x": "a"}}


def without_rules(data: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in data.items() if name != "guardrails"}


def judged(data: dict[str, Any], rules: list[dict[str, Any]]) -> Report:
    """Return what the checker says of a program under rules that a policy for a continuation has."""
    policy = Policy.from_dict({"policy": "before", "continues": "run", "guardrails": rules})
    return ProgramValidator(Program.from_dict(without_rules(data)), policies=[policy]).validate()


def against_enumeration(seeds: range) -> tuple[list[str], Counter[str]]:
    """Hold the verdicts on rules with `already` against every run of the program; count the verdicts by kind."""
    wrong, counts = [], Counter[str]()
    for seed in seeds:
        chance, data = Random(f"past {seed}"), small_program(seed)
        rules = candidates(data, chance)
        for rule in rules:
            past = any_past(rule, assigned(data), chance)
            if past is not None:
                rule["already"] = past
        try:
            found = truth({**data, "guardrails": rules})
        except NotSmallError:
            continue
        report, result = judged(data, rules), Comparison()
        compare_rules({**data, "guardrails": rules}, report, found, result)
        compare_proofs(data, report, found, result)
        wrong += [f"{seed}: {one}" for one in (*result.wrong, *refused(report, is_rechecked=True))]
        counts.update(f"{prop.name} {prop.verdict.value}" for prop in report.properties if prop.rule in found.broken)
    return wrong, counts


def test_rules_that_begin_in_a_state_have_the_verdict_of_the_enumeration() -> None:
    wrong, counts = against_enumeration(SEEDS)
    assert wrong == []
    for kind in ("requires", "at_most_once", "exclusive", "followed_by"):
        assert counts[f"{kind} proved"] > 5, counts
        assert counts[f"{kind} violated"] > 5, counts


def forgets_in_the_automata(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(possible.RuleMonitor, "start", lambda self: type(self.automaton.first)() and 0
                  if isinstance(self.automaton.first, int) else (0,) * len(self.automaton.comes))  # fmt: skip


def knows_no_earlier_reads(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(automata, "_stale_by_past", lambda rule, meaning, count: [frozenset()] * count)


def takes_the_short_cut(patch: pytest.MonkeyPatch) -> None:
    def applies(self: Any) -> bool:
        needed = engine.protected(self.rule)
        needed = needed if isinstance(self.rule, engine.Exclusive) else needed[:1]
        reachable = self.facts.graph.reachable
        return all(any(hit.step in reachable for hit in self._hits(one)) for one in needed)

    patch.setattr(engine._Judge, "_applies", applies)


def forgets_in_the_second_checker(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(second.RequiresWatcher, "start", lambda self: (0,) * len(self.guards))


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "mistake",
    [forgets_in_the_automata, knows_no_earlier_reads, takes_the_short_cut, forgets_in_the_second_checker],
)
def test_a_part_that_forgets_the_past_is_seen(monkeypatch: pytest.MonkeyPatch, mistake: Any) -> None:
    mistake(monkeypatch)
    assert any(against_enumeration(range(number, number + 10))[0] for number in range(0, 60, 10))


# -- joined programs ---------------------------------------------------------------------------------------------------


def prefix(rule: dict[str, Any], names: list[str], chance: Random) -> list[dict[str, Any]]:
    """Return the steps of a run before: calls of what a rule speaks of, and a gate that always lets through."""
    wanted = [guard["tool"] for guard in single(rule.get("requires", {})) if "tool" in guard]
    wanted += [one["tool"] for one in rule.get("exclusive", ()) if "tool" in one]
    pair = rule.get("followed_by", {})
    wanted += [one["tool"] for one in (rule.get("at_most_once"), pair.get("first")) if one and "tool" in one]
    calls = [name for name in dict.fromkeys(wanted) if chance.random() < 0.75]
    steps = [
        {"id": f"before{number}", "type": "tool", "tool": name, **({"args": ARGS[name]} if name in ARGS else {})}
        for number, name in enumerate(calls)
    ]
    read = chance.choice([name for name in names if "." not in name] or ["unread"])
    if chance.random() < 0.8:
        asked = f"defined(${read}) or true" if read != "unread" else "true"
        steps.append({"id": "gate0", "type": "condition", "condition": asked, "then": "through0"})
        steps.append({"id": "through0", "type": "set", "set": {"passed0": True}})
    return steps or [{"id": "through0", "type": "set", "set": {"passed0": True}}]


def left_by(steps: list[dict[str, Any]], rule: dict[str, Any], names: list[str]) -> dict[str, Any] | None:
    """Run the steps before; return the rule as its continuation has it, or None if the run broke it already."""
    given = {"id": "given0", "type": "set", "set": dict.fromkeys([name for name in names if "." not in name], 0)}
    last = {"id": "last0", "type": "condition", "condition": "false", "then": "given0", "otherwise": "end0"}
    whole = {"name": "before", "inputs": {}, "tools": BEFORE, "guardrails": [rule]}
    whole["steps"] = [*steps, last, given, {"id": "end0", "type": "end"}]
    journal = MemoryJournal()
    tools = {name: _any_tool(name) for name in BEFORE}
    run = unchecked(tools, None, journal).run_sync(Program.from_dict(whole), {}, run_id="before")
    if run.status != "SUCCESS":
        return None
    found = load(journal, "before", partial(stored_plan, journal))
    assert found is not None
    derived = continued(found.plan.program.guardrails[0], found.state.monitors[0], found.plan.meaning, ())
    return (
        Policy.from_dict({"policy": "p", "continues": "run", "guardrails": [derived.to_data()]}).guardrails[0].to_data()
    )


def _any_tool(name: str) -> Any:
    returned = {"boolean": True, "string": "a", "integer": 1, "object": {"kind": "a"}}
    value = returned.get(TOOLS.get(name, {}).get("returns", {}).get("type"))
    return lambda **_: value


def joined(data: dict[str, Any], steps: list[dict[str, Any]], rule: dict[str, Any]) -> dict[str, Any]:
    """Return the program that first does the steps before, and then goes on as the other."""
    steps = [{**step, "next_step": data["steps"][0]["id"]} if step is steps[-1] else step for step in steps]
    used = {step["tool"] for step in (*steps, *_parts(data)) if step["type"] == "tool"}
    whole = {**data, "guardrails": [rule], "tools": {name: BEFORE[name] for name in sorted(used)}}
    if "max_steps" in data:
        whole["max_steps"] = data["max_steps"] + len(steps)
    return {**whole, "steps": [*steps, *data["steps"]]}


def debatable(data: dict[str, Any]) -> set[tuple[str, str | None]]:
    """Return the places at which both sides of an exclusion were performed before."""
    try:
        return {(code, step) for places in truth(data).debatable.values() for code, step in places}
    except NotSmallError:
        return set()


def _parts(data: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for step in data["steps"]:
        yield from (step, *step.get("parallel_steps", ()))


def test_a_continuation_has_the_verdict_of_the_joined_program() -> None:
    compared, verdicts = Counter[str](), Counter[str]()
    for seed in SEEDS:
        chance, data = Random(f"joined {seed}"), small_program(seed)
        own = {step["id"] for step in data["steps"]}
        for rule in chance.sample(rules := candidates(data, chance), min(len(rules), 3)):
            steps = prefix(rule, assigned(data), chance)
            derived = left_by(steps, rule, assigned(data))
            if derived is None:
                continue
            alone = judged(data, [derived])
            whole = ProgramValidator(Program.from_dict(joined(data, steps, rule))).validate()
            if any(one.code == "SW407" for one in whole.findings):
                continue  # a rule of the program names what it does not have; a policy may
            said = [
                {(one.code, one.step) for one in report.findings if one.code[:3] == "SW4" and one.step in own}
                for report in (alone, whole)
            ]
            is_open = any(code == "SW408" for codes in said for code, _ in codes)
            free = debatable(joined(data, steps, rule)) if said[0] != said[1] else set()
            assert is_open or said[0] - free == said[1] - free, (seed, rule, derived, said)
            compared["already" if "already" in derived else "fresh start"] += 1
            verdicts.update(f"{one.name} {one.verdict.value}" for one in alone.properties if one.rule == rule["name"])
    assert compared["already"] > len(SEEDS) / 2, compared
    assert verdicts[f"requires {Verdict.PROVED.value}"] > 5, verdicts
