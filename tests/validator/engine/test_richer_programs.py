"""Small programs that ask for errors of items, join texts, or have a step behind a follow-up: held against every run.

`STEPWARD_RICHER=100` tries that many of each kind.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import test_branched_programs as branched
import test_called_programs as called
import test_concurrent_programs as concurrent

from brute_bodies import flat
from brute_branches import read
from brute_force import truth
from comparing import checked_with_dead, compare
from richer_programs import (
    lazy_bodied,
    richer_bodied,
    richer_branched,
    richer_called,
    richer_concurrent,
    richer_ordered,
    sized_bodied,
    sized_concurrent,
)
from sizes import asked_for, size
from small_language import Items
from small_runs import contradictions
from stepward.validator import Verdict

TRIED = asked_for("STEPWARD_RICHER", 2, 60)
CHUNK = 2
SEEDS = [pytest.param(n, marks=pytest.mark.slow) for n in range(0, TRIED, CHUNK)]
OPEN = "UNKNOWN, not VIOLATED: no run was found"
OPEN_TOO = "UNKNOWN, not PROVED: no run was found"
"""How rules are left open that ask for errors of items: a list that no witness makes, or that no run has."""


@pytest.mark.parametrize("make", [richer_bodied, richer_ordered, lazy_bodied, sized_bodied])
@pytest.mark.parametrize("first", SEEDS)
def test_programs_with_bodies_or_an_order_agree_with_every_run(first: int, make: Any) -> None:
    wrong: dict[int, list[str]] = {}
    for seed in range(first, first + CHUNK):
        data = make(seed)
        report, dead = checked_with_dead(data)
        found = compare(data, lambda _, report=report: report, is_rechecked=True, dead=dead)  # type: ignore[misc]
        said = found.wrong + contradictions(data, report.properties, dead, seed, runs=20)
        wrong |= {seed: said} if said else {}
    assert not wrong


@pytest.mark.parametrize("first", SEEDS)
def test_programs_with_branches_agree_with_every_interleaving(first: int) -> None:
    made = {seed: richer_branched(seed) for seed in range(first, first + CHUNK)}
    said = {seed: branched.against_all_runs(data, seed) for seed, data in made.items() if branched.is_runnable(data)}
    assert not {seed: wrong for seed, wrong in said.items() if wrong}


@pytest.mark.parametrize("make", [richer_concurrent, sized_concurrent])
@pytest.mark.parametrize("first", SEEDS)
def test_programs_with_items_at_once_agree_with_every_interleaving(first: int, make: Any) -> None:
    made = {seed: make(seed) for seed in range(first, first + CHUNK)}
    said = {seed: concurrent.against_all_runs(data) for seed, data in made.items() if concurrent.is_runnable(data)}
    wrong = {
        seed: [text for text in found if OPEN not in text and OPEN_TOO not in text] for seed, found in said.items()
    }
    assert not {seed: found for seed, found in wrong.items() if found}


@pytest.mark.parametrize("first", SEEDS)
def test_programs_with_calls_agree_with_every_run(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(called.validator, "in_called_programs", lambda findings, _: list(findings))
    wrong: dict[int, Any] = {}
    for seed in range(first, first + CHUNK):
        data = richer_called(seed)
        report, dead = called.report_of(data)
        said: list[Any] = called.wrong_of(data, report, dead)
        proved = {one.rule for one in report.properties if one.verdict is Verdict.PROVED}
        said += sorted(proved & called.broken_on_runs(data, seed, 15))
        wrong |= {seed: said} if said else {}
    assert not wrong


# -- what is drawn, and how it is enumerated ---------------------------------------------------------------------------


@pytest.mark.slow
def test_drawn_programs_ask_for_errors_of_items_and_both_answers_come() -> None:
    """Also of inner steps, in rules, and of names."""
    answers: set[bool] = set()
    texts: list[str] = []
    for seed in range(size(9, 60)):
        data = richer_bodied(seed)
        steps = list(flat(data["steps"]))
        texts += [str(step.get("condition", "")) for step in steps] + [
            rule.get("when", "") for rule in data["guardrails"]
        ]
        if len(answers) < 2 and any(step["id"] == "asks" for step in steps):
            answers |= truth(data).values.get("asks", set())
    assert answers == {True, False}
    whole = "\n".join(texts)
    assert all(
        word in whole for word in ("each.errors[0].error_name", "each.errors[0].index", "bin.errors", "len($each")
    )


def test_drawn_programs_ask_how_many_items_there_were() -> None:
    """Also for names of errors and numbers of items; some answers are always no, and some come both ways."""
    whole = "\n".join(str(sized_bodied(seed)) for seed in range(40)) + str(sized_concurrent(2))
    words = (
        "len($each.output)",
        "$each.output[",
        "len($each.errors)",
        ".index > 1",
        "error_name ==",
        "not in",
        "$i > 1",
    )
    assert all(word in whole for word in (*words, "len($both.output)"))
    answers = [truth(sized_bodied(seed)).values.get("asks", set()) for seed in range(12)]
    assert {False} in answers
    assert {True, False} in answers


def test_drawn_programs_join_texts_and_both_answers_come() -> None:
    counts: Counter[str] = Counter()
    for seed in range(12):
        for make in (richer_bodied, richer_called, richer_ordered, richer_branched, richer_concurrent):
            counts[make.__name__] += " + " in str(make(seed))
    assert min(counts.values()) >= 3
    assert {read("$g + $h == 'ab'", {"g": "a", "h": one}) for one in ("a", "b")} == {True, False}


def test_the_enumeration_knows_what_failed_of_items() -> None:
    """Two items, of which the second fails, in the words of a condition."""
    each: dict[str, Any] = {"id": "each", "type": "for_each", "items": ["a", "b"], "as": "x", "max_items": 2}
    body = [
        {"id": "c", "type": "condition", "condition": "$x == 'a'", "then": "good", "otherwise": "bad"},
        {"id": "good", "type": "end"},
        {"id": "bad", "type": "end", "outcome": "failure"},
    ]
    first = "$each.errors[0]"
    asked = f"len($each.errors) == 1 and {first}.index == 1 and {first}.error_name == 'Declared'"
    ask = {"id": "ask", "type": "condition", "condition": asked, "then": "z", "otherwise": "z"}
    steps = [{**each, "steps": body, "on_item_error": "skip"}, ask, {"id": "z", "type": "end"}]
    data = {"name": "t", "language": 2, "inputs": {}, "guardrails": [], "steps": steps}
    assert truth(data).values["ask"] == {True}
    env = {"both.errors": Items([(("error", "any"), ("error_name", "Declared"), ("index", 1))])}
    assert read("defined($both.errors[0]) and $both.errors[0].index == 1", env) is True
    assert read("defined($both.errors[1])", env) is False
