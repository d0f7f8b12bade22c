"""The clock ends what hangs, and only that: what it stops is unknown, and what is decided before says the same."""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Callable
from functools import cache
from math import inf
from pathlib import Path
from typing import Any
from weakref import ReferenceType, ref

import pytest
import z3
from click.testing import CliRunner

from layers import impatient
from paths import PROGRAMS
from sizes import MANY, size
from small_programs import small_program
from stepward.validator import Finding, ProgramValidator, Property, Report, Verdict
from stepward.validator.cli import main
from stepward.validator.engine.clock import UNLIMITED, Clock, OutOfTime
from stepward.validator.engine.search.explicit import Search
from stepward.validator.engine.search.finite import Table
from stepward.validator.engine.smt import blocks
from stepward.validator.engine.systems.system import BAD, System
from stepward.validator.engine.watch import Watch
from stepward.vm import Policy, Program
from systems import DOMAINS, edge, holds, system, to

AT_ONCE = 1e-9
UNITS = 20_000_000

ASSUMED = ("SW202",)
"""What is said until it is proved away."""


def cubes() -> dict[str, Any]:
    """A payment past two conditions of which nobody knows whether they can hold: Z3 does not keep to its units there.

    No number of this size is known to solve `x³ + y³ + z³ == 114`, nor that none does.
    """
    total = "$x * $x * $x + $y * $y * $y + $z * $z * $z"
    inputs = {name: {"type": "integer", "minimum": -(10**18), "maximum": 10**18} for name in "xyz"}
    guardrail = {"name": "asked", "protects": {"tool": "pay"}, "requires": {"step": "ask", "branch": "then"}}
    return {
        "name": "cubes",
        "inputs": {"approval": {"type": "boolean"}, **inputs},
        "tools": {"pay": {"effect": "write", "idempotent": True}},
        "guardrails": [guardrail],
        "steps": [
            {"id": "one", "type": "condition", "condition": f"{total} == 114", "then": "pay", "otherwise": "other"},
            {"id": "other", "type": "condition", "condition": f"{total} == 390", "then": "pay", "otherwise": "ask"},
            {"id": "ask", "type": "condition", "condition": "$approval", "then": "pay", "otherwise": "stop"},
            {"id": "pay", "type": "tool", "tool": "pay", "next_step": "stop"},
            {"id": "stop", "type": "end"},
        ],
    }


def said(report: Report) -> tuple[list[Finding], list[Property]]:
    """Return all that a report says but how long it took."""
    return list(report.findings), [one._replace(seconds=0) for one in report.properties]


# -- what hangs ----------------------------------------------------------------------------------------------------


def test_a_check_that_hangs_is_stopped_near_its_limit() -> None:
    started = time.monotonic()
    found = ProgramValidator(Program.from_dict(cubes()), time_limit=1.5).validate()
    assert 1.5 <= time.monotonic() - started < 8
    assert [one.code for one in found.findings] == ["SW408", "SW408"]
    whole, pay = (one.message for one in found.findings)
    assert whole == "this program was not checked completely: stopped by the clock after 1.5 s"
    assert "`pay` can start without branch `then` of step `ask`: tried: " in pay
    assert "block formula (stopped by the clock after 1.5 s)" in pay
    (asked,) = [one for one in found.properties if one.rule == "asked"]
    assert asked.verdict is Verdict.UNKNOWN


def test_the_command_has_the_option_and_the_configuration_the_key(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    Path("p.json").write_text(json.dumps(cubes()))

    def seconds(*options: str) -> tuple[float, str]:
        started = time.monotonic()
        result = CliRunner().invoke(main, ["check", "p.json", "--output-format=concise", *options])
        assert result.exit_code == 1
        return time.monotonic() - started, result.stdout

    took, text = seconds("--time-limit=1")
    assert took < 8
    assert "(stopped by the clock after 1 s)" in text
    Path("stepward.toml").write_text("time-limit = 0.5\n")
    took, text = seconds()
    assert took < 8
    assert "(stopped by the clock after 0.5 s)" in text


def test_a_limit_that_is_none_is_refused() -> None:
    for text in ("0", "-1", "soon", "nan", "inf"):
        result = CliRunner().invoke(main, ["check", f"--time-limit={text}"])
        assert result.exit_code == 2
        assert "--time-limit" in result.stderr


# -- every layer ---------------------------------------------------------------------------------------------------


def counter() -> System:
    loop = [edge(1, holds("$m < $whole"), to("m", "=$m + 2")), edge(BAD, holds("$m == 7"))]
    return system([edge(1, to("m", 0))], loop, inputs=["whole"])


def test_the_layer_of_the_solver_says_that_it_was_stopped() -> None:
    clock = Clock(AT_ONCE)
    answer = blocks.search(counter(), DOMAINS, units=UNITS, clock=clock)
    assert answer.verdict is Verdict.UNKNOWN
    assert answer.reason.endswith("stopped by the clock after 1e-09 s")
    assert clock.has_struck


@pytest.mark.parametrize("search", [lambda *asked: Table(*asked).reachable, lambda *asked: Search(*asked).cheapest()])
def test_a_search_stops(search: Callable[..., Any]) -> None:
    few = system([edge(1, to("m", 0))], [edge(BAD, holds("$m == 7"))])
    search(few, DOMAINS, UNLIMITED)
    with pytest.raises(OutOfTime):
        search(few, DOMAINS, Clock(AT_ONCE))


def test_a_clock_hands_on_what_is_left() -> None:
    clock = Clock(100)
    assert 99 < clock.left() <= 100
    assert 99_000 < clock.milliseconds() <= 100_001
    assert not clock.has_struck
    assert 10**9 < UNLIMITED.milliseconds() < 2**31
    with pytest.raises(OutOfTime, match="stopped by the clock after 1e-09 s"):
        Clock(AT_ONCE).milliseconds()


# -- nothing else --------------------------------------------------------------------------------------------------


NEEDED = {"discount_bands.yaml", "failed_payment_recovery.yaml", "team_budget.yaml"}
"""Examples that not every layer decides."""


@cache
def examples() -> dict[str, tuple[Program, tuple[Policy, ...]]]:
    """Return programs with their policies; by day some of each kind, and those that are `NEEDED`."""
    found = {}
    codes = ("SW103", "SW202", "SW302", "SW303", "SW304", "SW305", "SW401", "SW403", "SW405", "SW406")
    for folder in ("good", *(f"bad/{code}" for code in codes)):
        paths = [path for path in (PROGRAMS / folder).glob("*.yaml") if not path.name.endswith(".policy.yaml")]
        for path in [one for number, one in enumerate(sorted(paths)) if MANY or number % 12 == 0 or one.name in NEEDED]:
            policy = path.with_suffix(".policy.yaml")
            policies = (Policy.load(policy),) if policy.exists() else ()
            found[f"{folder}/{path.name}"] = Program.load(path), policies
    for seed in range(size(4, 20)):
        found[f"random {seed}"] = Program.from_dict(small_program(seed)), ()
    return found


@cache
def unlimited(name: str) -> Report:
    """Return what is said of an example without a limit."""
    program, policies = examples()[name]
    return ProgramValidator(program, policies, time_limit=inf).validate()


def test_a_limit_that_is_not_reached_changes_nothing() -> None:
    for name, (program, policies) in examples().items():
        limited = ProgramValidator(program, policies, time_limit=60).validate()
        assert said(limited) == said(unlimited(name)), name
    layers = {one.evidence.layer for name in examples() for one in unlimited(name).properties}
    assert layers >= {"graph", "cases", "finite abstraction", "explicit search", "block formula"}


def test_every_property_is_there_when_it_is_too_late_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {name: [one[:2] for one in unlimited(name).properties] for name in examples()}
    monkeypatch.setattr(Watch, "is_overdue", True)
    for name, (program, policies) in examples().items():
        late = ProgramValidator(program, policies, time_limit=AT_ONCE).validate()
        assert [one[:2] for one in late.properties] == known[name], name
        assert all(one.verdict is Verdict.UNKNOWN for one in late.properties), name


def test_without_any_time_no_finding_is_wrong() -> None:
    stopped = 0
    for name, (program, policies) in examples().items():
        whole, cut = unlimited(name), ProgramValidator(program, policies, time_limit=AT_ONCE).validate()
        for true, left in zip(whole.properties, cut.properties, strict=True):
            assert left.verdict in (true.verdict, Verdict.UNKNOWN), (name, left)
        told = {(one.code, one.message) for one in whole.findings}
        for one in cut.findings:
            assert (one.code, one.message) in told or one.code in ("SW408", *ASSUMED), (name, one)
        missing = {one.code for one in whole.findings} - {one.code for one in cut.findings}
        stops = (
            "this program was not checked completely",
            "the second checker can't check the proof: stopped by the clock",
        )
        is_stopped = any(words in one.message for one in cut.findings for words in stops)
        assert is_stopped or said(whole)[0] == said(cut)[0], name
        stopped += bool(missing) or is_stopped
    assert stopped > size(3, 40)


@pytest.mark.parametrize("seconds", [0, -1, float("nan")])
def test_a_limit_that_is_no_time_is_refused_in_words(seconds: float) -> None:
    with pytest.raises(ValueError, match="seconds above 0"):
        ProgramValidator(Program.from_dict(cubes()), time_limit=seconds)


ASKING = ("good/loan_decision", "good/price_update", "bad/SW403/team-budget", "bad/SW408/cubes")
"""Programs about which Z3 is asked: with a witness, variables that a loop forgets, and proofs."""


def test_what_the_solver_takes_is_given_back_with_the_check(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the collector, and while the report lives: a context takes megabytes, of which Python knows nothing."""
    contexts: list[ReferenceType[Any]] = []

    class Noted(z3.Context):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            contexts.append(ref(self))

    monkeypatch.setattr(z3, "Context", Noted)
    impatient(monkeypatch)
    programs = [Program.load(PROGRAMS / f"{name}.yaml") for name in ASKING]
    gc.disable()
    try:
        reports = [ProgramValidator(program).validate() for program in programs]
    finally:
        gc.enable()
    assert len(contexts) >= len(reports)
    assert not [one for one in contexts if one() is not None]
