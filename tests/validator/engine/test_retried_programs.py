"""For_each steps that are tried again: what the checker says of all small programs of a kind is held against every run.

`STEPWARD_RETRIED=288` tries all of them.
"""

from __future__ import annotations

from typing import Any

import pytest

from brute_force import truth
from brute_items import ItemEnumeration
from retried_programs import often_retried_programs, retried_programs
from sizes import MANY, asked_for
from stepward.validator import Verdict
from stepward.validator.validator import ProgramValidator
from stepward.vm import Program

ALL = list(retried_programs())
CHUNK = 6
TRIED = asked_for("STEPWARD_RETRIED", 6, len(ALL))
SPREAD = [ALL[number * 89 % len(ALL)] for number in range(TRIED)]
"""Programs far from each other first: 89 and the number of all have no common factor."""


def broken_in(data: dict[str, Any]) -> set[str]:
    if data["steps"][0].get("max_concurrency", 1) > 1:
        return ItemEnumeration(data).run()
    return {rule for rule, places in truth(data).broken.items() if places}


def against_all_runs(data: dict[str, Any]) -> list[str]:
    """Return where the checker differs from the enumeration of all runs."""
    broken, wrong = broken_in(data), []
    for one in ProgramValidator(Program.from_dict(data)).validate().properties:
        if one.number is None or one.evidence.reason == "the rule is vacuous":
            continue
        due = Verdict.VIOLATED if one.rule in broken else Verdict.PROVED
        if one.verdict is not due:
            wrong.append(f"{one.rule} is {one.verdict.name}, not {due.name}: {one.evidence.reason}")
        elif due is Verdict.PROVED and not one.rechecked:
            wrong.append(f"{one.rule} is not rechecked")
    return wrong


@pytest.mark.parametrize("chunk", [pytest.param(n, marks=[pytest.mark.slow] * (n > 0)) for n in range(0, TRIED, CHUNK)])
def test_small_programs_that_are_tried_again_agree_with_every_run(chunk: int) -> None:
    said = {words: against_all_runs(data) for words, data in SPREAD[chunk : chunk + CHUNK]}
    assert not {words: wrong for words, wrong in said.items() if wrong}


OFTEN = list(often_retried_programs())
"""Four bodies are tried by day, one with each number of attempts and of items, and both ways out."""


@pytest.mark.parametrize("number", range(len(OFTEN)) if MANY else (0, 27, 36, 63))
def test_programs_that_are_tried_again_often_agree_with_every_run(number: int) -> None:
    words, data = OFTEN[number]
    assert not against_all_runs(data), words


def test_a_call_that_is_tried_again_often_fails_after_all_attempts() -> None:
    """A violation behind the failure needs a run that makes every attempt, and a proof counts none of them."""
    tools = {"ask": {"effect": "read"}, "look": {"effect": "read"}, "pay": {"effect": "write", "idempotent": True}}
    called = [{"id": "a", "type": "tool", "tool": "look"}, {"id": "b", "type": "tool", "tool": "ask"}]
    late = {"id": "late", "type": "tool", "tool": "pay", "is_terminal": True}
    for attempts, given in ((5, "look"), (60, "ask"), (100, "look")):
        again = {"on_error": "retry", "max_retries": attempts, "error_step": "late", "next_step": "done"}
        steps = [{"id": "m", "type": "call", "program": "sub", **again}, {"id": "done", "type": "end"}, late]
        rules = [
            {"name": "asked", "protects": {"tool": "pay"}, "requires": {"tool": given}},
            {"name": "failed", "never": {"tool": "pay"}, "when": "not defined($m.error)"},
        ]
        data = {"name": "t", "language": 2, "inputs": {}, "tools": tools, "guardrails": rules, "steps": steps}
        data["programs"] = {"sub": {"inputs": {}, "tools": {"ask": {}, "look": {}}, "steps": called}}
        found = {one.rule: one for one in ProgramValidator(Program.from_dict(data)).validate().properties}
        assert found["asked"].verdict is Verdict.VIOLATED, found["asked"].evidence.reason
        assert (found["failed"].verdict, found["failed"].rechecked) == (Verdict.PROVED, True)
