"""Differential: the reference interpreter in lockstep with the machine on good and random programs; planted mistakes of
the machine must be found.

`STEPWARD_LOCKSTEP=20000` tries that many wide programs.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from machines import never_stale
from programs import COMMON, longer, programs
from replays import good_programs
from sizes import MANY, asked_for, size
from small_programs import small_program
from stepward.sabotage.drawn.cases import drawn_case
from stepward.sabotage.drawn.lockstep import RunSummary, lockstep
from stepward.sabotage.drawn.machine import DrawnCase, Parted
from stepward.sabotage.drawn.secret import secret_program
from stepward.sabotage.drawn.wide import wide_program
from stepward.sabotage.reference.echoes import says
from stepward.vm import Policy, Program, ProgramError
from stepward.vm.language.meaning import Meaning
from stepward.vm.machine import calls
from stepward.vm.machine import data as machine_data
from stepward.vm.machine.redaction import Searched, Spellings
from stepward.vm.values import FrozenMap

ENDINGS = {
    ("SUCCESS", "declared"),
    ("FAILED", "declared"),
    ("FAILED", "error"),
    ("FAILED", "uncovered"),
    ("FAILED", "guardrail"),
    ("STALLED", "visits"),
    ("STALLED", "no-progress"),
    ("BUDGET_EXCEEDED", "max_steps"),
    ("BUDGET_EXCEEDED", "max_tokens"),
    ("BUDGET_EXCEEDED", "cost"),
    ("CANCELLED", "cancelled"),
    ("CANCELLED", "abandoned"),
}
MET = {"success", "failed", "skipped", "fallback", "joined", "blocked", "visits", "set", "end", "error", "uncovered"}
MET |= {"then", "otherwise", "1", "2", "Returned", "Replied", "Raised", "TimedOut", "Lost", "Waits"}
MET |= {"resumed True", "resumed False", "done True", "done False", "not_done True", "abandon True"}
MET |= {"cancelled", "cancelled at work"}


def wide_runs(first: int, last: int, fates: int = 1) -> Iterator[RunSummary]:
    """Run wide programs; those of which the types conflict (SW203) have no one meaning at the boundary."""
    for seed in range(first, last):
        data, *both = wide_program(str(seed))
        made, (now, later) = Program.from_dict(data), [list(map(Policy.from_dict, policies)) for policies in both]
        if not Meaning(made, [*now, *later]).typing.conflicts:
            for fate in range(fates):
                yield lockstep(DrawnCase(made, f"{seed} {fate}", now, later))


def small_runs(first: int, last: int) -> Iterator[RunSummary]:
    for seed in range(first, last):
        yield lockstep(DrawnCase(Program.from_dict(small_program(seed)), str(seed)))


def budget_runs(count: int) -> Iterator[RunSummary]:
    """Run programs with small budgets: few others use up their money."""
    cases = (drawn_case("budgets", str(seed)) for seed in range(count))
    return (lockstep(case) for case in cases if case is not None)


def secret_runs(first: int, last: int) -> Iterator[RunSummary]:
    for seed in range(first, last):
        made = Program.from_dict(secret_program(str(seed)))
        if not Meaning(made).typing.conflicts:
            yield lockstep(DrawnCase(made, f"secret {seed}"))


def good_runs(fates: int) -> Iterator[RunSummary]:
    for name, made in good_programs().items():
        for fate in range(fates):
            yield lockstep(DrawnCase(made, f"{name} {fate}"))


def test_in_lockstep_on_the_good_programs() -> None:
    assert len(list(good_runs(size(1, 2)))) > size(30, 50)


def test_in_lockstep_on_small_programs() -> None:
    assert len({one.ending for one in small_runs(0, size(25, 120))}) > size(4, 5)


def test_in_lockstep_on_programs_whose_outputs_repeat_what_is_sensitive() -> None:
    met = frozenset[str]().union(*(one.met for one in secret_runs(0, size(50, 100))))
    assert met >= {"blocked", "Waits", "resumed True"}


@pytest.mark.parametrize(("text", "repeats"), [("bad refu...", True), ("bad refu\u2026", True), ("bad ref.", False)])
def test_three_full_stops_are_a_mask_to_both(text: str, repeats: bool) -> None:
    searched, spellings = Searched(), Spellings.of("bad ref-und")
    assert spellings is not None
    searched.add(spellings)
    assert searched.repeats(text) == says(text, "bad ref-und") == repeats


@pytest.mark.parametrize("first", range(0, size(50, 200), 50))
def test_in_lockstep_on_wide_programs(first: int) -> None:
    runs = list(wide_runs(first, first + 50))
    assert len({one.ending for one in runs}) > 5
    assert len(runs) > 40


def body_runs(first: int, last: int) -> Iterator[RunSummary]:
    cases = (drawn_case("bodies", str(seed)) for seed in range(first, last))
    return (lockstep(case) for case in cases if case is not None)


def test_in_lockstep_on_programs_with_bodies() -> None:
    met = frozenset[str]().union(*(one.met for one in body_runs(0, size(36, 120))))
    assert met >= {"joined", "skipped", "died", "resumed True"}


def test_in_lockstep_on_programs_that_wait() -> None:
    cases = (drawn_case("time", str(seed)) for seed in range(size(18, 140)))
    met = frozenset[str]().union(*(lockstep(case).met for case in cases if case is not None))
    assert met >= {"time passed", "waited", "joined", "died"}


@pytest.mark.slow
@pytest.mark.skipif(not MANY and "STEPWARD_LOCKSTEP" not in os.environ, reason="the tests above play some by day")
def test_in_lockstep_on_all_of_them_often() -> None:
    count = asked_for("STEPWARD_LOCKSTEP", 75, 600)
    runs = [
        *good_runs(size(1, 12)),
        *small_runs(1000, 1000 + size(60, 300)),
        *secret_runs(1000, 1000 + count // 3),
        *wide_runs(1000, 1000 + count, 2),
        *budget_runs(size(20, 60)),
    ]

    @settings(COMMON, max_examples=size(20, 150))
    @given(programs(), st.integers(0, 1 << 30))
    def look(data: dict[str, Any], seed: int) -> None:
        made = Program.from_dict(longer(data, Random(seed)) | {"max_steps": 25})
        runs.extend(lockstep(DrawnCase(made, f"{seed} {fate}")) for fate in range(2))

    look()
    assert len(runs) > size(200, 1_500)
    # What never happens in the search is not tested by it.
    assert {one.ending for one in runs} >= ENDINGS
    assert frozenset[str]().union(*(one.met for one in runs)) >= MET


# -- mistakes of the machine are found ---------------------------------------------------------------------------------

REAL_OUTCOME, REAL_TEXT, REAL_BUDGETS = calls.outcome_of, machine_data._text, calls.used_up


def sloppy_budget(plan: Any, state: Any, cost: int) -> bool:
    return bool(state.steps + cost > plan.program.max_steps + 1)


def no_money(plan: Any, state: Any) -> str | None:
    return REAL_BUDGETS(plan, state._replace(cost=0))


def no_doubt(call: Any, tried: int, result: Any) -> str:
    kind = REAL_OUTCOME(call, tried, result)
    return "failed" if kind == "doubt" else kind


def two_passes(text: str, reader: Any) -> Any:
    once = REAL_TEXT(text, reader)
    return REAL_TEXT(once, reader) if isinstance(once, str) and "$" in once else once


MISTAKES: dict[str, tuple[str, Any]] = {
    "a budget that is one too large": ("decide.out_of_steps", sloppy_budget),
    "a budget of money that is never used up": ("calls.used_up", no_money),
    "a rule that is never asked": ("monitors.Watch.objection", lambda *_: None),
    "a branch that never goes stale": ("monitors.bound", never_stale),
    "a write that is never in doubt": ("calls.outcome_of", no_doubt),
    "an output that stays when a step fails": ("apply.failure_changes", lambda step, error, _: [(step.error, error)]),
    "retries in place of repeats": ("calls._is_new_performance", lambda *_: True),
    "a list of allowed tools that nobody asks": ("calls.forbidden", lambda *_: None),
    "arguments of a model call": ("calls._arguments", lambda attempt: FrozenMap(attempt.args or {})),
    "data that is read as references": ("data._text", two_passes),
}
ECHOES: dict[str, tuple[str, Any]] = {
    "outputs that are taken as they are": ("known.Known.veiled", lambda _, happened: happened.body["output"]),
    "keys that nobody looks at": ("known._repeats_in_keys", lambda *_: False),
    "one spelling that nobody knows": ("redaction._in_base64", lambda _: ()),
    "values that are forgotten with their name": ("known._sealed_numbers", lambda *_, **__: ()),
}


RARE = {
    "a budget of money that is never used up": 610,
    "retries in place of repeats": 600,
    "data that is read as references": 440,
    "one spelling that nobody knows": 585,
    "keys that nobody looks at": 95,
    "values that are forgotten with their name": 95,
    "a write that is never in doubt": 45,
}
"""Mistakes that few programs show, and a program not long before the first of these."""

OF_A_MODEL: dict[str, Any] = {
    "guardrails": [{"name": "r", "never": {"step": "ask"}, "when": "defined($args)"}],
    "steps": [{"id": "ask", "type": "llm", "prompt": "well?", "on_error": "skip"}],
}
"""A call of a model has no arguments, not even none: drawn programs hardly ever ask for them."""


def runs_that_show(name: str) -> Iterator[RunSummary]:
    if name == "arguments of a model call":
        return (lockstep(DrawnCase(Program.from_dict(OF_A_MODEL), str(seed))) for seed in range(10))
    return wide_runs(RARE.get(name, 0), RARE.get(name, 0) + 1500)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_of_the_machine_are_found(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    where, instead = MISTAKES[name]
    monkeypatch.setattr(f"stepward.vm.machine.{where}", instead)
    with pytest.raises(Exception) as found:  # noqa: PT011 - whatever comes first is how it shows
        list(runs_that_show(name))
    assert not isinstance(found.value, ProgramError), "that is a mistake of the search"


def test_the_whole_machine_agrees_about_the_arguments_of_a_model_call() -> None:
    assert list(runs_that_show("arguments of a model call"))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", ECHOES)
def test_mistakes_about_what_is_repeated_are_found(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    where, instead = ECHOES[name]
    monkeypatch.setattr(f"stepward.vm.machine.{where}", instead)
    with pytest.raises(Parted):
        list(secret_runs(RARE.get(name, 0), RARE.get(name, 0) + 1000))
