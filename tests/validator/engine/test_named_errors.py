"""Errors by name in proofs: where each error leads, what a witness raises, and which catches are never taken."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from brute_force import truth
from comparing import compare
from named_errors import with_named_errors
from ordered_programs import ordered_program
from small_language import NotSmallError
from small_programs import small_program
from stepward.validator import ProgramValidator, Report, Verdict
from stepward.vm import Program

TOOLS: dict[str, Any] = {
    "pay": {"effect": "write", "idempotent": False, "errors": ["Declined", "Limit"]},
    "look": {"effect": "read", "errors": ["Busy"]},
    "ship": {"effect": "write", "idempotent": True},
}


def checked(rule: dict[str, Any], *steps: dict[str, Any], **more: Any) -> Report:
    made = {"language": 2, "tools": TOOLS, "guardrails": [{"name": "rule", **rule}], "steps": list(steps), **more}
    return ProgramValidator(Program.from_dict(made)).validate()


def verdict(report: Report) -> tuple[Verdict, bool]:
    (found,) = [one for one in report.properties if one.rule == "rule"]
    return found.verdict, found.rechecked


def pay(*catch: dict[str, Any]) -> dict[str, Any]:
    return {"id": "pay", "type": "tool", "tool": "pay", "catch": list(catch), "next_step": "end"}


SHIP = {"id": "ship", "type": "tool", "tool": "ship", "is_terminal": True}
END = {"id": "end", "type": "end"}
NEVER_SHIP = {"never": {"tool": "ship"}}


def to(target: str, *errors: str) -> dict[str, Any]:
    return {"errors": list(errors), "then": target}


def test_an_entry_is_taken_by_its_errors_alone() -> None:
    report = checked(NEVER_SHIP, pay(to("end", "Declined"), to("end", "any")), END, SHIP)
    assert verdict(report) == (Verdict.PROVED, True)
    report = checked(NEVER_SHIP, pay(to("end", "Declined"), to("ship", "any")), END, SHIP)
    assert verdict(report) == (Verdict.VIOLATED, False)


def test_a_catch_that_nothing_takes_leads_nowhere() -> None:
    """A write that is late can't be caught, so that its entry ships nothing."""
    late = pay(to("ship", "Timeout"), to("end", "any")) | {"timeout_seconds": 5}
    report = checked(NEVER_SHIP, late, END, SHIP)
    assert verdict(report) == (Verdict.PROVED, True)
    assert "SW112" in {finding.code for finding in report.findings}


@pytest.mark.parametrize(
    ("catch", "name", "does"),
    [
        ([to("ship", "Limit"), to("end", "any")], "Limit", "fails"),
        ([to("end", "Declined", "Limit"), to("ship", "any")], "", "fails"),
    ],
)
def test_a_witness_names_the_error_that_a_tool_raises(catch: list[dict[str, Any]], name: str, does: str) -> None:
    report = checked(NEVER_SHIP, pay(*catch), END, SHIP)
    (finding,) = [one for one in report.findings if one.code == "SW403"]
    assert finding.evidence is not None
    assert finding.evidence.witness is not None
    first = finding.evidence.witness.script[0]
    assert (first.does, first.error) == (does, name)
    assert finding.evidence.path[0].words == f"fails with {name or 'Unexpected'}"


def test_a_bad_output_is_shown_by_one() -> None:
    look = {"id": "look", "type": "tool", "tool": "look", "catch": [to("ship", "BadOutput"), to("end", "any")]}
    report = checked(NEVER_SHIP, look | {"next_step": "end"}, END, SHIP)
    (finding,) = [one for one in report.findings if one.code == "SW403"]
    assert finding.evidence is not None
    assert finding.evidence.witness is not None
    assert finding.evidence.witness.script[0].does == "returns no value"


def test_a_condition_that_asks_for_the_name_decides() -> None:
    ask = {
        "id": "ask",
        "type": "condition",
        "condition": "$pay.error_name == 'Limit'",
        "then": "ship",
        "otherwise": "end",
    }
    steps = (pay(to("ask", "Declined"), to("end", "any")), END, ask, SHIP)
    assert verdict(checked(NEVER_SHIP, *steps)) == (Verdict.PROVED, True)
    steps = (pay(to("ask", "Declined", "Limit"), to("end", "any")), END, ask, SHIP)
    assert verdict(checked(NEVER_SHIP, *steps)) == (Verdict.VIOLATED, False)


def test_a_retry_performs_a_read_again_and_a_write_that_is_not_idempotent_never() -> None:
    retry = [{"errors": ["any"], "max_attempts": 2}]
    look = {"id": "look", "type": "tool", "tool": "look", "retry": retry, "error_step": "end", "next_step": "end"}
    assert verdict(checked({"at_most_once": {"tool": "look"}}, look, END))[0] is Verdict.VIOLATED
    paying = pay(to("end", "any")) | {"retry": retry}
    assert verdict(checked({"at_most_once": {"tool": "pay"}}, paying, END)) == (Verdict.PROVED, True)


def test_a_parallel_step_leads_where_its_first_failed_sub_step_says() -> None:
    parts = [{"id": "a", "type": "tool", "tool": "look"}, {"id": "b", "type": "tool", "tool": "pay"}]
    step = {"id": "both", "type": "parallel", "parallel_steps": parts, "next_step": "end"}
    only = {"never": {"tool": "ship"}, "when": "defined($a.error)"}
    catch = [to("ship", "Declined"), to("end", "any")]
    assert verdict(checked(only, step | {"catch": catch}, END, SHIP)) == (Verdict.PROVED, True)
    catch = [to("ship", "Busy"), to("end", "any")]
    assert verdict(checked(only, step | {"catch": catch}, END, SHIP))[0] is Verdict.VIOLATED


@pytest.mark.parametrize(("on_error", "found"), [("fail", Verdict.PROVED), ("skip", Verdict.VIOLATED)])
def test_a_step_fails_for_a_missing_output_only_if_what_is_missing_was_skipped(on_error: str, found: Verdict) -> None:
    parts = [
        {"id": "late", "type": "tool", "tool": "look", "depends_on": ["early"]},
        {"id": "early", "type": "tool", "tool": "look", "on_error": on_error},
    ]
    catch = [to("ship", "Dependency"), to("end", "any")]
    step = {"id": "both", "type": "parallel", "parallel_steps": parts, "next_step": "end", "catch": catch}
    report = checked({"never": {"tool": "ship"}}, step, END, SHIP)
    assert verdict(report)[0] is found
    assert (found is Verdict.PROVED) == verdict(report)[1]
    assert ("SW112" in {one.code for one in report.findings}) is (found is Verdict.PROVED)


def _program(seed: int) -> dict[str, Any]:
    return with_named_errors(small_program(seed), Random(f"{seed}/all"), 1.0)


def test_programs_with_catches_do_what_the_enumeration_says() -> None:
    wrong = {seed: found for seed in range(14) if (found := compare(_program(seed)).wrong)}
    assert not wrong


def test_programs_with_an_order_and_catches_do_what_the_enumeration_says() -> None:
    programs = {seed: with_named_errors(ordered_program(seed), Random(f"{seed}/all"), 1.0) for seed in range(12)}
    wrong = {seed: found for seed, data in programs.items() if (found := compare(data).wrong)}
    assert not wrong


def test_what_is_called_an_unused_catch_is_never_taken() -> None:
    unused = 0
    for seed in range(60):
        data = _program(seed)
        try:
            caught = truth(data, blind=True).caught
        except NotSmallError:
            continue
        found = ProgramValidator(Program.from_dict(data), recheck=False).validate().findings
        for finding in found:
            path = finding.place.path
            if finding.code == "SW112" and path[2] == "catch":
                step, entry = data["steps"][path[1]], data["steps"][path[1]]["catch"][path[3]]
                is_whole = len(entry["errors"]) == 1
                assert not is_whole or (step["id"], path[3]) not in caught, (seed, finding.message)
                unused += is_whole
    assert unused > 10
