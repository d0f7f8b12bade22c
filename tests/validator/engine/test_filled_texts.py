"""A text with references as an argument: whether the call can fail before its start, against enumerated values."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from filled_programs import TEXT, filled_program, misfits
from sizes import asked_for
from stepward.validator import ProgramValidator, Report
from stepward.validator.analysis.given_types import GivenTypes
from stepward.validator.recheck import arguments
from stepward.vm import Program

COUNT = asked_for("STEPWARD_FILLED", 40, 400)


def report_of(data: dict[str, Any]) -> Report:
    return ProgramValidator(Program.from_dict(data)).validate()


def verdict_of(report: Report) -> str:
    (found,) = [one.verdict.value for one in report.properties if one.rule == "paid"]
    return found


def program(taken: dict[str, Any], given: dict[str, Any], text: str, condition: str | None) -> dict[str, Any]:
    data = filled_program(0)
    call = {"id": "pay_out", "type": "tool", "tool": "pay", "args": {"t": text}, "next_step": "done"}
    asked = {"id": "asked", "type": "condition", "condition": condition, "then": "first", "otherwise": "done"}
    steps = [
        {"id": "first", "type": "tool", "tool": "check", "next_step": "pay_out"},
        call,
        {"id": "done", "type": "end"},
    ]
    tools = {name: {"effect": "write", "idempotent": True} for name in ("check", "pay")}
    tools["pay"]["args"] = {"t": taken}
    return {**data, "inputs": {"s": given}, "tools": tools, "steps": [asked, *steps] if condition else steps}


WHOLE = {"type": "integer", "minimum": 0}


@pytest.mark.parametrize(
    ("taken", "given", "text", "condition", "verdict"),
    [
        ({"maxLength": 6}, {**TEXT, "maxLength": 4}, "x $s", None, "proved"),
        ({"maxLength": 5}, {**TEXT, "maxLength": 4}, "x $s", None, "violated"),
        ({"maxLength": 100}, TEXT, "x $s", None, "violated"),
        ({"minLength": 1}, TEXT, "x $s", None, "proved"),
        ({"minLength": 3}, TEXT, "x $s", None, "violated"),
        ({"minLength": 3}, {**TEXT, "pattern": "^[a-z]{3}$"}, "$s", None, "proved"),
        ({"minLength": 4}, {**TEXT, "pattern": "^[a-z]{3}$"}, "$s", None, "violated"),
        ({"pattern": "^REF-"}, TEXT, "REF-$s", None, "proved"),
        ({"pattern": "^REF-[0-9]+$"}, WHOLE, "REF-$s", None, "proved"),
        ({"pattern": "^REF-[a-z]+$"}, {**TEXT, "pattern": "^[a-f]{2}$"}, "REF-$s", None, "proved"),
        ({"pattern": "^REF-[a-z]+$"}, {**TEXT, "pattern": "[a-f]{2}"}, "REF-$s", None, "unknown"),
        ({"pattern": "^.ab"}, {**TEXT, "pattern": "^ab"}, "x$s", None, "proved"),
        ({"pattern": "ab$"}, {**TEXT, "pattern": "ab$"}, "x$s", None, "proved"),
        ({"pattern": "^ab"}, {**TEXT, "pattern": "^\\Qab"}, "$s-", None, "unknown"),
        ({"maxLength": 6}, {"type": "integer", "minimum": -9, "maximum": 99}, "REF-$s", None, "proved"),
        ({"maxLength": 5}, {"type": "integer", "minimum": -9, "maximum": 99}, "REF-$s", None, "unknown"),
        ({"enum": ["a-true", "a-false"]}, {"type": "boolean"}, "a-$s", None, "proved"),
        ({"enum": ["a-x", "a-y"]}, {**TEXT, "enum": ["x", "y"]}, "a-$s", None, "proved"),
        ({"enum": ["a-x", "a-y"]}, {**TEXT, "enum": ["x", "z"]}, "a-$s", None, "violated"),
        ({"enum": ["a-x", "a-y"]}, TEXT, "a-$s", "$s in ['x', 'y']", "proved"),
        ({"maxLength": 4}, TEXT, "a-$s", "len($s) <= 2", "proved"),
        ({"maxLength": 4}, TEXT, "a-$s", "len($s) <= 3", "violated"),
        ({"maxLength": 4}, TEXT, "$s$s", "len($s) <= 2", "proved"),
        ({"maxLength": 4}, TEXT, "$s", "len($s) <= 4", "proved"),
        ({"minLength": 1}, TEXT, "$s", "$s != ''", "proved"),
        ({"pattern": "^a"}, TEXT, "$s", "$s starts_with 'ab'", "proved"),
        ({"pattern": "^ab"}, TEXT, "$s", "$s starts_with 'a'", "violated"),
        ({"pattern": "^[a-z]"}, TEXT, "$s", "matches($s, '^[a-f]+$')", "proved"),
    ],
)
def test_a_call_starts_for_certain_where_its_text_fits(
    taken: dict[str, Any], given: dict[str, Any], text: str, condition: str | None, verdict: str
) -> None:
    data = program({**TEXT, **taken}, given, text, condition)
    report = report_of(data)
    assert verdict_of(report) == verdict
    codes = {"proved": [], "violated": ["SW405"], "unknown": ["SW408"]}[verdict]
    assert [one.code for one in report.findings if one.code.startswith("SW4")] == codes
    assert not any(one.code in ("SW901", "SW902") for one in report.findings)


def contradictions(count: int) -> tuple[list[int], Counter[tuple[str, bool]]]:
    """Return the programs on which the checker and enumeration part, and what the others come to."""
    wrong, seen = [], Counter[tuple[str, bool]]()
    for seed in range(count):
        data = filled_program(seed)
        report, is_broken = report_of(data), misfits(data)
        verdict = verdict_of(report)
        seen[verdict, is_broken] += 1
        is_refused = any(one.code in ("SW901", "SW902") for one in report.findings)
        if is_refused or (verdict, is_broken) in (("proved", True), ("violated", False)):
            wrong.append(seed)
    return wrong, seen


def test_random_programs_are_proved_exactly_where_no_text_is_refused() -> None:
    wrong, seen = contradictions(COUNT)
    assert wrong == []
    assert seen["unknown", False] <= COUNT / 50
    assert min(seen["proved", False], seen["violated", True]) > COUNT / 8


def test_the_second_checker_refuses_what_only_the_first_one_takes_for_fitting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GivenTypes, "is_filled_of", lambda self, text, spec: True)
    for seed in range(40):
        data = filled_program(seed)
        if misfits(data):
            assert verdict_of(report_of(data)) != "proved"


def test_a_mistake_of_both_checkers_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GivenTypes, "is_filled_of", lambda self, text, spec: True)
    monkeypatch.setattr(arguments, "is_filled_of", lambda places, spec: True)
    assert contradictions(40)[0]
