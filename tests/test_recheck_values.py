"""What the second checker knows of variables with two sources: right proofs are accepted, false ones are refused."""

from __future__ import annotations

from typing import Any

import pytest

from stepward.validator import ProgramValidator, Report, Verdict
from stepward.validator.recheck.checking import Checker
from stepward.validator.recheck.reading import Reading
from stepward.validator.recheck.rules import Property as Claim
from stepward.vm import Program


def check(text: str) -> Report:
    return ProgramValidator(Program.from_yaml(text)).validate()


def verdicts(text: str) -> dict[str, str]:
    """Return the verdict on each property by its rule; no proof is refused."""
    report = check(text)
    refused = [one.message for one in report.findings if one.code == "SW902"]
    assert not refused, refused
    return {one.rule: one.verdict.value for one in report.properties}


# -- an input that a call takes away -----------------------------------------------------------------------------------

TAKEN = """
name: taken
inputs: {{v: {{type: string}}}}
tools: {{get: {{effect: read, returns: {{type: string}}}}, pay: {{effect: write, idempotent: true}}}}
steps:
  - {{id: a, type: {call}}}
  - {{id: c, type: condition, condition: defined($v), then: y}}
  - {{id: y, type: tool, tool: pay}}
"""
CALLS = {
    "a call that is skipped": ("tool, tool: get, output_key: v, on_error: skip", Verdict.VIOLATED),
    "a call whose error goes on": ("tool, tool: get, output_key: v, error_step: c, next_step: c", Verdict.VIOLATED),
    "a sub-step that is skipped": (
        "parallel, parallel_steps: [{id: b, type: tool, tool: get, output_key: v, on_error: skip}]",
        Verdict.VIOLATED,
    ),
    "a call that must succeed": ("tool, tool: get, output_key: v", Verdict.PROVED),
    "a `set`": ("set, set: {v: '$v'}", Verdict.PROVED),
    "a call for another variable": ("tool, tool: get, output_key: w, on_error: skip", Verdict.PROVED),
}


@pytest.mark.parametrize(("call", "verdict"), CALLS.values(), ids=CALLS)
def test_an_input_that_a_call_takes_away_is_not_always_there(call: str, verdict: Verdict) -> None:
    text = TAKEN.format(call=call)
    (one,) = check(text).properties
    assert one.verdict is verdict
    accepts = accepted(text, Claim("coverage", "c", None, "c"), [{"kind": "cut", "counts_visits": False}])
    assert accepts is (verdict is Verdict.PROVED)


def accepted(text: str, claim: Claim, parts: list[Any]) -> bool:
    """Return whether the second checker accepts a proof, whatever the engine says."""
    return Checker(Reading(Program.from_yaml(text)), solves_all=False).verdict(claim, parts).is_accepted
