"""Every check is bounded: by its time, also where nobody looks at the clock, and by its memory."""

from __future__ import annotations

import random
import sys
import threading
import time
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

from paths import ROOT

sys.path.insert(0, str(ROOT / "benchmarks"))

from hostile import measure
from hostile_programs import HOSTILE, NAMED, Hostile

from stepward.validator import Finding, ProgramValidator, Report, Verdict
from stepward.validator.engine import watch
from stepward.validator.engine.clock import Clock, OutOfTime
from stepward.validator.engine.values.cuts import Cuts, TooMany, class_values
from stepward.validator.engine.values.domains import Domain, Range
from stepward.validator.engine.values.numbers import between, simplicity
from stepward.validator.rules.names import UndefinedVariable
from stepward.validator.validator import validate_document
from stepward.vm import Program
from stepward.vm.errors import ProgramError
from stepward.vm.language.types import TypeSpec, key_of, same
from stepward.vm.reading.files import read_text

FINE: dict[str, Any] = {
    "inputs": {"n": {"type": "integer"}},
    "tools": {"pay": {"effect": "write", "idempotent": True}},
    "guardrails": [{"name": "never", "never": {"tool": "pay"}}],
    "steps": [{"id": "p", "type": "tool", "tool": "pay"}, {"id": "d", "type": "end", "output": "$gone"}],
}


def checked(limit: float = 60) -> Report:
    return ProgramValidator(Program.from_dict(FINE), time_limit=limit).validate()


def codes(report: Report) -> set[str]:
    return {finding.code for finding in report.findings}


# -- hostile programs --------------------------------------------------------------------------------------------------


@pytest.mark.one_in(3)
@pytest.mark.parametrize("one", HOSTILE, ids=lambda one: one.name)
def test_a_small_hostile_program_is_a_program_like_others(one: Hostile) -> None:
    try:
        program = Program.from_dict(one.program(one.small))
    except ProgramError:
        assert one.name == "enum of which none is of its type"
        return
    report = ProgramValidator(program, time_limit=1).validate()
    assert not report.failures
    assert not {"SW006", "SW106"} & codes(report), "it is not judged at all"


@pytest.mark.one_in(3)
@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "enum that nobody reads",
        "cases of an integer",
        "guardrails times steps",
        "a variable of many sources",
        "copies of copies",
        "a long text is forbidden",
    ],
)
def test_a_hostile_program_keeps_its_bounds_in_a_process_of_its_own(name: str) -> None:
    found = measure(NAMED[name].program(), limit=1, patience=60)
    assert found.ended.startswith("report")
    assert found.cpu < 6
    assert found.mebibytes < 1_100  # at 4 bytes or less, a text of the length that is asked for takes one gigabyte


@pytest.mark.parametrize("name", ["copies of copies", "copies from two places"])
def test_copies_of_copies_are_followed_however_many_there_are(name: str) -> None:
    program = NAMED[name].program(500 if name == "copies of copies" else 40)
    report = ProgramValidator(Program.from_dict(program), time_limit=20).validate()
    assert not report.failures
    assert not {"SW203", "SW202"} & codes(report)


# -- the watch ---------------------------------------------------------------------------------------------------------


def never_looks(*_: Any) -> Iterator[Finding]:
    while True:
        pass


def test_a_part_that_never_looks_at_the_clock_is_stopped_and_the_others_are_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = checked()
    monkeypatch.setattr(UndefinedVariable, "check", never_looks)
    started = time.monotonic()
    report = checked(0.5)
    assert time.monotonic() - started < 6
    assert not report.failures, "what is stopped is no internal error"
    stopped = [one for one in report.findings if one.code == "SW408"]
    assert stopped[-1].message.endswith("stopped by the clock after 0.5 s") or stopped
    rest = [one for one in report.findings if one.code not in ("SW201", "SW408", "SW403")]
    assert rest == [one for one in whole.findings if one.code not in ("SW201", "SW403")]
    assert threading.active_count() == len([one for one in threading.enumerate() if one.name != "stepward-watch"])


def test_memory_is_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def grows(*_: Any) -> Iterator[Finding]:
        kept = []
        while True:
            kept.append(bytearray(1 << 20))

    monkeypatch.setattr(watch, "MAX_MEGABYTES", 60)
    monkeypatch.setattr(UndefinedVariable, "check", grows)
    report = checked(20)
    assert not report.failures
    (whole,) = [one for one in report.findings if one.message.startswith("this program was not checked completely")]
    assert whole.message.endswith("stopped at 60 MB of memory")
    assert whole.help.startswith("split the program")


def test_a_check_that_stops_before_there_is_a_program_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Program, "from_document", classmethod(never_looks_at))
    document = read_text("p.yaml", "steps: [{id: a, type: end}]\n", is_json=False)[0]
    report = validate_document(document, time_limit=0.3)
    (finding,) = report.findings
    assert (finding.code, finding.message) == (
        "SW408",
        "this program was not checked: stopped by the clock after 0.3 s",
    )
    assert not report.ok


def never_looks_at(*_: Any) -> Program:
    while True:
        pass


def test_a_property_that_is_stopped_is_unknown_and_names_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stepward.validator.engine.guardrails._Judge.judge_rule", never_looks_at)
    report = checked(0.4)
    (one,) = [one for one in report.properties if one.rule == "never"]
    assert (one.verdict, one.evidence.reason) == (Verdict.UNKNOWN, "stopped by the clock after 0.4 s")
    assert [two for two in report.findings if two.message.startswith("guardrail `never` is not proved: stopped by")]


def test_a_solver_is_interrupted_when_the_clock_strikes() -> None:
    clock, stopped = Clock(60), []
    with clock.stopping(lambda: stopped.append(1)):
        clock.strike()
    clock.strike()
    assert stopped == [1]
    with pytest.raises(OutOfTime):
        clock.check()


# -- what takes time by its size ---------------------------------------------------------------------------------------

VALUES: list[Any] = [
    None,
    True,
    False,
    0,
    1,
    Decimal("1.0"),
    Decimal("0.5"),
    "",
    "1",
    "a",
    (),
    (1,),
    (True,),
    ("a", None),
]
VALUES += [{}, {"a": 1}, {"a": Decimal("1.0")}, {"a": True}, {"b": (1, {"c": None})}, (({"a": 1},),), ("tuple",)]


def test_the_key_of_a_value_is_that_of_the_same_values_and_of_no_others() -> None:
    for one in VALUES:
        for other in VALUES:
            assert (key_of(one) == key_of(other)) is same(one, other), (one, other)


def test_a_type_knows_the_members_of_its_enum() -> None:
    spec = TypeSpec(enum=(1, "a", True, None, (1, 2)), type=("integer", "array"))
    assert spec.members() == (1, (1, 2))
    assert [spec.lists(value) for value in (1, Decimal("1.0"), "a", False, None, (1,), [1, 2])] == [
        True,
        True,
        True,
        False,
        True,
        False,
        True,
    ]
    assert TypeSpec(enum=(1, "a")).kinds == {"integer", "number", "string"}
    assert spec == TypeSpec(enum=(1, "a", True, None, (1, 2)), type=("integer", "array")), "what is cached counts not"


def naive_classes(domain: Domain, cuts: Cuts) -> Iterator[Any]:
    """Yield a number for each class by looking at every range for every point and every gap."""
    bounds = {bound for one in domain.ranges for bound in (one.low, one.high) if bound is not None}
    points = sorted(bounds | cuts.numbers)
    for low, high in zip([None, *points], [*points, None], strict=True):
        inside = [
            one
            for one in domain.ranges
            if (one.low is None or (low is not None and one.low <= low))
            and (one.high is None or (high is not None and one.high >= high))
        ]
        found = [between(low, high, integral=one.integral) for one in inside]
        numbers = [number for number in found if number is not None]
        if numbers:
            yield min(numbers, key=simplicity)
        elif any(not one.integral for one in inside):
            raise TooMany
        if high is not None and any(one.holds(high) for one in domain.ranges):
            yield high


def test_the_classes_of_numbers_are_those_of_a_look_at_every_range() -> None:
    chance = random.Random(1)

    def number() -> Any:
        return chance.choice([None, chance.randint(-5, 5), Decimal(chance.randint(-50, 50)) / 10])

    def outcome(classes: Any, *asked: Any) -> Any:
        try:
            return list(classes(*asked))
        except TooMany:
            return "too many"

    for _ in range(800):
        domain = Domain(
            ranges=tuple(Range(number(), number(), chance.random() < 0.5) for _ in range(chance.randint(1, 4)))
        )
        cuts = Cuts(numbers={one for one in (number() for _ in range(chance.randint(0, 4))) if one is not None})
        expected = outcome(naive_classes, domain, cuts)
        if expected:
            assert outcome(class_values, domain, cuts) == expected
