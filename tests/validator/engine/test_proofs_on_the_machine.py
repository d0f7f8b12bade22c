"""Seasoned programs: what the checker says is held against every run, and what it proves against runs of the machine.

Of each program every run is enumerated, as in `test_differential.py`. Then the machine runs it 50 times, without its
guardrails, and a judge that shares no code with either reads the traces: no run may break what is proved.
`STEPWARD_ON_THE_MACHINE=20000` tries that many programs; one in four is a small program as it comes.
"""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from functools import cache
from typing import Any

import pytest
import yaml

from brute_force import truth
from comparing import compare, dead_steps, illegal
from seasoned_programs import Seasoned, seasoned_program
from shrinking import shrink
from sizes import asked_for, size
from small_language import NotSmallError
from small_programs import small_program
from small_runs import all_runs, contradictions
from stepward.validator import ProgramValidator, Report, Verdict
from stepward.vm import Policy, Program
from trace_judge import Judge

CHUNK = 12
CHUNKS = max(1, asked_for("STEPWARD_ON_THE_MACHINE", 12, 48) // CHUNK)
FIRST = int(os.environ.get("STEPWARD_ON_THE_MACHINE_FROM", "0")) // CHUNK
MAX_SKIPPED = 0.05
"""The share of programs that may contradict themselves: of 18 blocks of 400 none had over 13, and 7 had over 8."""

MAX_UNKNOWN = 0.12
"""The share of properties that may be left open; half of them are about patterns, lists and texts without bound."""


def program_of(number: int) -> Seasoned:
    if number % 4:
        return seasoned_program(number)
    data = small_program(number)
    return Seasoned(data, [], data)


def checked(one: Seasoned) -> Report:
    return ProgramValidator(
        Program.from_dict(one.program), [Policy.from_dict(data) for data in one.policies]
    ).validate()


def wrong_with(one: Seasoned, seed: object) -> tuple[list[str], Counter[str]]:
    """Return what the enumeration and the machine have against the report, in words, and what was counted."""
    try:
        report = checked(one)
    except Exception as error:  # whatever it is, it is one more thing to report
        return [f"the checker breaks: {type(error).__name__}: {error}"], Counter()
    if illegal(report):
        # Chance asks for what a type rules out: nobody would ask about such a program. While a program is shrunk, it
        # may also lose the bound of a loop. Then a run of it never ends, and its truth is too large to be known.
        return [], Counter({"skipped": 1, "all skipped": 1})
    dead = dead_steps(one.whole)
    found = compare(one.whole, lambda _: report, is_rechecked=True, dead=dead)
    return found.wrong + contradictions(one.whole, report.properties, dead, seed), found.counts


@cache
def counted(chunk: int) -> tuple[Counter[str], dict[int, list[str]]]:
    counts: Counter[str] = Counter()
    wrong = {}
    for number in range(chunk * CHUNK, (chunk + 1) * CHUNK):
        said, more = wrong_with(program_of(number), number)
        counts.update(more)
        if said:
            wrong[number] = said
    return counts, wrong


@pytest.mark.parametrize(
    "chunk",
    [
        pytest.param(
            chunk, id=f"{chunk * CHUNK}-{chunk * CHUNK + CHUNK - 1}", marks=[pytest.mark.slow] * (chunk > FIRST)
        )
        for chunk in range(FIRST, FIRST + CHUNKS)
    ],
)
def test_nothing_that_is_proved_happens(chunk: int) -> None:
    _, wrong = counted(chunk)
    if wrong:
        number = next(iter(wrong))
        whole = program_of(number).whole
        kinds = {text.split(" of ")[0].split(" at ")[0] for text in wrong[number]}
        # Without its budget of steps a program may run for ever.
        smallest = shrink(
            whole, lambda data: data.get("max_steps") == whole.get("max_steps") and bool(kinds & _kinds(data, number))
        )
        words = [f"program {one}: {text}" for one, said in wrong.items() for text in said]
        words += ["", yaml.safe_dump(smallest, sort_keys=False, default_flow_style=None, width=120)]
        pytest.fail("\n".join(words), pytrace=False)


def _kinds(data: dict[str, Any], seed: int) -> set[str]:
    said, _ = wrong_with(Seasoned(data, [], data), seed)
    return {text.split(" of ")[0].split(" at ")[0] for text in said}


@pytest.mark.slow
def test_few_are_too_large_and_few_are_left_open() -> None:
    counts: Counter[str] = Counter()
    for chunk in range(FIRST, FIRST + min(CHUNKS, 20)):
        counts.update(counted(chunk)[0])
    total = sum(count for name, count in counts.items() if name.startswith("all unknown"))
    unknown = {name: count for name, count in counts.items() if name.startswith("unknown") and count}
    print(f"left open {sum(unknown.values())} of {total}: {unknown}; skipped {counts['skipped']}")
    assert counts["skipped"] <= MAX_SKIPPED * counts["all skipped"]
    assert sum(unknown.values()) <= MAX_UNKNOWN * total


# -- the judge itself --------------------------------------------------------------------------------------------------


FOLLOWS_A_CONDITION = 18152
"""A program with a rule on what follows a condition that takes no branch."""


def test_what_the_judge_calls_broken_is_in_the_truth() -> None:
    for number in (*range(1, 24), FOLLOWS_A_CONDITION):
        whole = program_of(number).whole
        found = truth(whole)
        program = Program.from_dict({**whole, "guardrails": []})
        for run, records in asyncio.run(all_runs(program, whole, number, 20)):
            judge = Judge(whole).judge(records, run.status, run.reason or "")
            assert judge.reached <= found.reached, number
            for rule, step in judge.breaches:
                if rule.startswith("coverage "):
                    assert step in found.uncovered, number
                elif rule.startswith("exclusive cases "):
                    cases = next(one for one in whole["steps"] if one["id"] == step)
                    assert step in found.overlapping or not cases.get("exclusive"), number
                else:
                    places = {place for _, place in found.broken[rule] | found.debatable[rule]}
                    ends = next(one.get("ends") for one in whole["guardrails"] if one["name"] == rule)
                    assert step in places or (ends == "any" and places), (number, rule, step, places)


def test_a_checker_that_proves_all_is_contradicted_by_the_machine() -> None:
    """Of the rules that some run breaks, 50 runs by chance show most; so a false proof has not far to go."""
    broken = shown = 0
    for number in range(1, size(12, 40)):
        whole = program_of(number).whole
        try:
            rules = {rule for rule, places in truth(whole).broken.items() if places}
        except NotSmallError:
            continue
        report = checked(Seasoned(whole, [], whole))
        lies = [prop._replace(verdict=Verdict.PROVED) for prop in report.properties]
        said = contradictions(whole, lies, set(), number)
        broken += len(rules)
        shown += sum(any(f": {rule} is proved" in text for text in said) for rule in rules)
    assert shown >= 0.75 * broken > size(6, 20), (shown, broken)


def test_a_program_without_a_bound_is_not_run() -> None:
    """Its truth is not known, and its run never ends: the checker says that it is no program to ask about."""
    data = {
        "name": "endless",
        "inputs": {"number": {"type": "integer", "maximum": 4}},
        "guardrails": [],
        "steps": [
            {"id": "round", "type": "set", "set": {}, "next_step": "ask"},
            {"id": "ask", "type": "condition", "condition": "$number > 3", "then": "round", "otherwise": "done"},
            {"id": "done", "type": "end"},
        ],
    }
    with pytest.raises(NotSmallError):
        truth(data)
    assert wrong_with(Seasoned(data, [], data), 1) == ([], Counter({"skipped": 1, "all skipped": 1}))
