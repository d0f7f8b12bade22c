"""Fast: `stepward coverage`: what runs have taken of a program, in text and JSON, and what it exits with."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from machines import TOOLS, Bench
from shops import as_json, shop, stepward
from stepward.validator.coverage import CoverageItem, coverage_of
from stepward.validator.report.coverage import render
from stepward.vm import Program, Run

pytestmark = pytest.mark.usefixtures("in_shop")


def measured(*options: str) -> Any:
    return stepward("coverage", "shop.yaml", *options)


def test_what_no_run_has_taken_is_listed_with_its_place() -> None:
    shop("--run-id", "small")
    result = measured()
    assert result.exit_code == 0
    assert result.stdout == (
        "coverage of `shop` by 1 run: 8 of 15 (53.3 %)\n"
        "  steps            6 of 9\n"
        "  branches         2 of 6\n"
        "\n"
        "no run has taken:\n"
        "  shop.yaml:15:86  `good` takes `otherwise`, to `refuse`\n"
        "  shop.yaml:16:67  `large` takes `then`, to `ask`\n"
        "  shop.yaml:17:10  step `ask`\n"
        "  shop.yaml:18:10  step `agreed`\n"
        "  shop.yaml:18:64  `agreed` takes `then`, to `pay`\n"
        "  shop.yaml:18:80  `agreed` takes `otherwise`, to `refuse`\n"
        "  shop.yaml:22:10  step `refuse`\n"
    )


def test_a_further_run_adds_its_ways_and_a_run_of_another_version_none() -> None:
    shop("--run-id", "small")
    shop("--run-id", "large", amount=60)
    data = as_json(measured("--output-format", "json"))
    assert (data["version"], data["runs"], data["other_runs"]) == (1, 2, 0)
    assert data["summary"] == {
        "steps": {"taken": 7, "total": 9},
        "branches": {"taken": 3, "total": 6},
        "error_routes": {"taken": 0, "total": 0},
    }
    missing = [(goal["step"], goal["how"], goal["to"]) for goal in data["goals"] if not goal["taken"]]
    assert ("large", "then", "ask") not in missing
    assert ("agreed", "then", "pay") in missing
    file = Path("shop.yaml")
    file.write_text(file.read_text(encoding="utf-8").replace("is $order good?", "is $order fine?"), encoding="utf-8")
    result = measured()
    assert result.exit_code == 3
    assert "`runs.db` has no run of `shop`; 2 are of other programs, or of other versions of it" in result.stderr


def test_fail_under_shuts_the_gate() -> None:
    shop("--run-id", "small")
    assert measured("--fail-under", "53").exit_code == 0
    result = measured("--fail-under", "53.5", "--output-file", "out.txt")
    assert result.exit_code == 1
    assert result.stderr == "error: the coverage is below 53.5 %\n"
    assert Path("out.txt").read_text(encoding="utf-8").startswith("coverage of `shop`")
    assert measured("--fail-under", "101").exit_code == 2


def test_a_program_or_a_journal_that_is_not_there_is_said() -> None:
    assert "there is no journal" in measured("--journal", "none.db").stderr
    assert stepward("coverage", "none.yaml").exit_code == 2


FALLBACK = {"on_timeout": "fallback", "fallback": 1}
SIBLINGS = [
    {"id": "a", "type": "tool", "tool": "read", "on_error": "skip"},
    {"id": "b", "type": "tool", "tool": "read"},
]
CASES = [{"when": "$n == 1", "then": "bad"}, {"when": "$n == 2", "then": "end"}]
ERRORS = Program.from_dict(
    {
        "name": "errors",
        "tools": TOOLS,
        "inputs": {"n": {"type": "integer"}},
        "steps": [
            {"id": "skip", "type": "tool", "tool": "read", "on_error": "skip"},
            {"id": "late", "type": "tool", "tool": "read", "timeout_seconds": 1, **FALLBACK},
            {"id": "bad", "type": "tool", "tool": "read", "error_step": "lost", "max_visits": 1, "next_step": "side"},
            {"id": "side", "type": "parallel", "parallel_steps": SIBLINGS},
            {"id": "many", "type": "condition", "cases": CASES},
            {"id": "end", "type": "end"},
            {"id": "lost", "type": "end", "outcome": "failure"},
        ],
    }
)


def ran(n: int, **answers: Any) -> Run:
    return Bench({"late": "ok", **answers}).run(ERRORS, n=n)


def missing(*runs: Run) -> set[CoverageItem]:
    return {goal.way for goal in coverage_of(ERRORS, [run.trace for run in runs]).missing}


def test_error_routes_are_taken_by_the_runs_that_take_them() -> None:
    from machines import Late

    plain = missing(ran(2))
    ways = {("skip", "skipped"), ("late", "fallback"), ("bad", "failed"), ("bad", "visits"), ("a", "skipped")}
    assert {CoverageItem(*way) for way in ways} | {
        CoverageItem("many", "no branch"),
        CoverageItem("many", "case 1"),
        CoverageItem("lost"),
    } == plain
    assert plain - missing(ran(2, skip=ValueError())) == {CoverageItem("skip", "skipped")}
    assert plain - missing(ran(2, late=Late(2))) == {CoverageItem("late", "fallback")}
    assert plain - missing(ran(2, bad=ValueError()), ran(2)) == {CoverageItem("bad", "failed"), CoverageItem("lost")}
    assert plain - missing(ran(2, a=ValueError())) == {CoverageItem("a", "skipped")}
    assert plain - missing(ran(1), ran(2)) == {
        CoverageItem("many", "case 1"),
        CoverageItem("bad", "visits"),
        CoverageItem("lost"),
    }
    assert plain - missing(ran(3), ran(2)) == {CoverageItem("many", "no branch")}


CATCH = {
    "id": "catching",
    "type": "tool",
    "tool": "read",
    "catch": [{"errors": ["RateLimited"], "then": "lost"}, {"errors": ["any"], "then": "end"}],
    "next_step": "end",
}


def test_every_way_that_no_run_has_taken_has_words() -> None:
    data = ERRORS.to_dict()
    tools = {**data["tools"], "read": {**data["tools"]["read"], "errors": ["RateLimited"]}}
    program = Program.from_dict({**data, "language": 2, "tools": tools, "steps": [CATCH, *data["steps"]]})
    result = coverage_of(program, [])
    told = render(result)
    assert {goal.way.how for goal in result.goals} == {
        "", "skipped", "fallback", "failed", "visits", "case 1", "case 2", "no branch", "catch 1", "catch 2"
    }  # fmt: skip
    lines = told.partition("no run has taken:\n")[2].splitlines()
    assert len(lines) == len(result.goals)
    assert lines[1].endswith("`catching` takes `catch 1`, to `lost`")


def test_a_percentage_is_never_rounded_up_to_all() -> None:
    from stepward.validator.report.coverage import to_data

    whole = coverage_of(ERRORS, [])
    goals = whole.goals * 400
    almost = dataclasses.replace(
        whole, goals=goals, taken=frozenset(goal.way for goal in goals[1:]) - {CoverageItem("lost")}
    )
    assert to_data(almost)["percent"] < 100
    assert to_data(dataclasses.replace(almost, taken=almost.taken | {CoverageItem("lost")}))["percent"] == 100


def test_the_steps_of_a_body_are_goals_and_what_is_between_its_items_is_none() -> None:
    call = {"id": "read_one", "type": "tool", "tool": "read"}
    each = {
        "id": "each",
        "type": "for_each",
        "items": "$l",
        "as": "x",
        "max_items": 2,
        "do": call,
        "error_step": "lost",
    }
    ends = [{"id": "end", "type": "end"}, {"id": "lost", "type": "end", "outcome": "failure"}]
    made = Program.from_dict({"language": 2, "inputs": {"l": {"type": "array", "maxItems": 2}}, "steps": [each, *ends]})
    none, both, failed = (
        {goal.way for goal in coverage_of(made, [run.trace]).missing}
        for run in (
            Bench({}).run(made, l=[]),
            Bench({}).run(made, l=[1, 2]),
            Bench({"read": ValueError()}).run(made, l=[1]),
        )
    )
    assert none == {CoverageItem("read_one"), CoverageItem("each", "failed"), CoverageItem("lost")}
    assert both == {CoverageItem("each", "failed"), CoverageItem("lost")}
    assert failed == {CoverageItem("end")}
