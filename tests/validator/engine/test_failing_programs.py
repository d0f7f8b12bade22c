"""Small programs that fail in further ways: calls beside others that are tried again, results of too many digits.

What the checker says is held against every run. `STEPWARD_FAILING=150` tries that many programs of each kind.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import test_branched_programs as branched
import test_called_programs as called
import test_concurrent_programs as concurrent

from bodied_programs import bodied_program
from branched_programs import branched_program
from brute_branches import FAILS, Enumeration, attempts_of, read
from called_programs import called_program
from comparing import checked_with_dead, compare
from concurrent_programs import concurrent_program
from failing_programs import OF_NUMBERS, too_long, tried_branches, tried_items
from language_features import features_of
from ordered_programs import ordered_program
from sizes import asked_for
from small_programs import small_program
from small_runs import contradictions
from stepward.validator import ProgramValidator, Verdict
from stepward.vm import Program

Data = dict[str, Any]

TRIED = asked_for("STEPWARD_FAILING", 4, 60)
CHUNK = 4
SEEDS = [pytest.param(n, marks=[pytest.mark.slow] * (n > 0)) for n in range(0, TRIED, CHUNK)]


@pytest.mark.parametrize("first", SEEDS)
def test_calls_of_branches_that_are_tried_again_agree_with_every_interleaving(first: int) -> None:
    assert not _wrong_of_branches(first, tried_branches)


@pytest.mark.parametrize("first", SEEDS)
def test_calls_of_items_that_are_tried_again_agree_with_every_interleaving(first: int) -> None:
    assert not _wrong_of_items(first, tried_items)


@pytest.mark.parametrize("first", SEEDS)
def test_too_many_digits_beside_others_agree_with_every_interleaving(first: int) -> None:
    assert not _wrong_of_branches(first, lambda seed: too_long(seed, branched_program))
    assert not _wrong_of_items(first, lambda seed: too_long(seed, concurrent_program))


@pytest.mark.parametrize("make", [small_program, bodied_program, ordered_program])
@pytest.mark.parametrize("first", SEEDS)
def test_too_many_digits_agree_with_every_run(first: int, make: Callable[[int], Data]) -> None:
    wrong: dict[int, list[str]] = {}
    for seed in range(first, first + CHUNK):
        data = too_long(seed, make)
        report, dead = checked_with_dead(data)
        found = compare(data, lambda _, report=report: report, is_rechecked=True, dead=dead)  # type: ignore[misc]
        said = found.wrong + contradictions(data, report.properties, dead, seed, runs=10)
        wrong |= {seed: said} if said else {}
    assert not wrong


@pytest.mark.parametrize("first", SEEDS)
def test_too_many_digits_in_programs_with_calls_agree_with_every_run(
    first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(called.validator, "in_called_programs", lambda findings, _: list(findings))
    wrong: dict[int, Any] = {}
    for seed in range(first, first + CHUNK):
        data = too_long(seed, called_program)
        report, dead = called.report_of(data)
        said: list[Any] = called.wrong_of(data, report, dead)
        proved = {one.rule for one in report.properties if one.verdict is Verdict.PROVED}
        said += sorted(proved & called.broken_on_runs(data, seed, 10))
        wrong |= {seed: said} if said else {}
    assert not wrong


def _wrong_of_branches(first: int, make: Callable[[int], Data]) -> dict[int, list[str]]:
    made = {seed: make(seed) for seed in range(first, first + CHUNK)}
    said = {seed: branched.against_all_runs(data, seed) for seed, data in made.items() if branched.is_runnable(data)}
    return {seed: wrong for seed, wrong in said.items() if wrong}


def _wrong_of_items(first: int, make: Callable[[int], Data]) -> dict[int, list[str]]:
    made = {seed: make(seed) for seed in range(first, first + CHUNK)}
    said = {seed: concurrent.against_all_runs(data) for seed, data in made.items() if concurrent.is_runnable(data)}
    return {seed: wrong for seed, wrong in said.items() if wrong}


# -- what a body that always fails shows -------------------------------------------------------------------------------

PAY: Data = {"id": "p", "type": "tool", "tool": "pay"}
ASK: Data = {"id": "a", "type": "tool", "tool": "ask"}
AGAIN: Data = {"id": "r", "type": "tool", "tool": "ask", "on_error": "retry", "max_retries": 2}
BAD: Data = {"id": "e", "type": "end", "outcome": "failure"}
LOOP: Data = {"id": "p", "type": "tool", "tool": "pay", "next_step": "p", "max_visits": 2}
BODIES: dict[str, list[Data]] = {
    "pays": [PAY],
    "pays and fails": [PAY, BAD],
    "asks, pays and fails": [ASK, PAY, BAD],
    "asks again and fails": [AGAIN, BAD],
    "asks, asks again and fails": [ASK, AGAIN, BAD],
    "pays too often": [LOOP],
}
LISTS: dict[str, Any] = {"an input": "$l", "written": [True, False]}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("items", LISTS)
@pytest.mark.parametrize("on_item_error", ["fail", "skip"])
@pytest.mark.parametrize("at_once", [1, 2])
@pytest.mark.parametrize("body", BODIES)
def test_items_that_all_fail_show_what_they_did_twice(body: str, at_once: int, on_item_error: str, items: str) -> None:
    """Behind a failed item that another one goes on is no item more of the list."""
    steps = BODIES[body]
    step = next(one["id"] for one in steps if one in (PAY, AGAIN, LOOP))
    each: Data = {"id": "each", "type": "for_each", "items": LISTS[items], "as": "i", "max_items": 2, "steps": steps}
    each |= {"max_concurrency": at_once, "on_item_error": on_item_error}
    tools = {"pay": {"effect": "write", "idempotent": True}, "ask": {"effect": "read"}}
    inputs = {"l": {"type": "array", "maxItems": 2, "items": {"type": "boolean"}}}
    rules = [{"name": "once", "at_most_once": {"step": step}}]
    data = {"name": "t", "language": 2, "inputs": inputs, "tools": tools, "guardrails": rules, "steps": [each]}
    found = next(one for one in ProgramValidator(Program.from_dict(data)).validate().properties if one.rule == "once")
    is_twice = body == "pays" or at_once == 2 or on_item_error == "skip" or AGAIN in steps or LOOP in steps
    assert found.verdict is (Verdict.VIOLATED if is_twice else Verdict.PROVED), found.evidence.reason


# -- what is drawn, and how it is enumerated ---------------------------------------------------------------------------


def test_drawn_programs_try_calls_again_in_branches_and_in_items() -> None:
    for make in (tried_branches, tried_items):
        found = set().union(*(features_of(make(seed)) for seed in range(8)))
        assert {"ToolStep.on_error=retry", "ToolStep.retry", "Retry.max_attempts"} <= found
        assert "mixed: a call beside others is tried again" in found


def test_a_second_attempt_is_seen_by_the_enumeration() -> None:
    """One of what only reads is a further performance, one of an idempotent write is not."""
    for tool, is_broken in (("look", True), ("pay", False)):
        data = tried_branches(0)
        call = {"id": "x", "type": "tool", "tool": tool, "on_error": "retry", "max_retries": 2}
        fork = {"id": "both", "type": "parallel", "branches": {"m": {"steps": [call]}}, "is_terminal": True}
        data |= {"guardrails": [{"name": "once", "at_most_once": {"step": "x"}}], "steps": [fork]}
        assert Enumeration(data).run() == ({"once"} if is_broken else set())


def test_how_often_a_call_is_tried_hangs_on_its_errors() -> None:
    tool = {"effect": "read", "errors": ["Busy"]}
    assert attempts_of({"on_error": "retry", "max_retries": 3}, tool) == (3, 3)
    assert attempts_of({"retry": [{"errors": ["Busy"], "max_attempts": 3}]}, tool) == (1, 3)
    both = [{"errors": ["Busy"], "max_attempts": 3}, {"errors": ["any"], "max_attempts": 2}]
    assert attempts_of({"retry": both}, tool) == (2, 3)
    assert attempts_of({}, tool) == (1, 1)


def test_questions_have_too_many_digits_for_some_numbers_and_not_for_all() -> None:
    said = [[read(text, {"n": number}) for number in range(4)] for text in OF_NUMBERS]
    counts = Counter(answer for answers in said for answer in answers)
    assert min(counts[answer] for answer in (True, False, FAILS)) >= 9
    assert sum(0 < answers.count(FAILS) < 4 for answers in said) >= 6


def test_drawn_programs_have_too_many_digits() -> None:
    made = (small_program, bodied_program, ordered_program, branched_program, concurrent_program, called_program)
    for make in made:
        found = set().union(*(features_of(too_long(seed, make)) for seed in range(3)))
        assert "mixed: a result of too many digits" in found, make.__name__
