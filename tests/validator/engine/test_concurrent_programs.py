"""Small programs whose items run at once: what the checker says is held against every interleaving.

`STEPWARD_CONCURRENT=300` tries that many, `STEPWARD_MANY=1` tries 250.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from brute_items import ItemEnumeration
from concurrent_programs import concurrent_program
from sizes import asked_for, size
from stepward.validator import Verdict
from stepward.validator.validator import ProgramValidator
from stepward.vm import Program, ProgramError
from stepward.vm.machine.plan import Plan

CHUNK = 10
CHUNKS = max(1, asked_for("STEPWARD_CONCURRENT", 10, 250) // CHUNK)
KINDS = ("requires", "at_most_once", "exclusive", "never", "followed_by")


def is_runnable(data: dict[str, Any]) -> bool:
    try:
        Plan(Program.from_dict(data))
    except ProgramError:
        return False
    return True


@pytest.mark.parametrize("chunk", [pytest.param(n, marks=[pytest.mark.slow] * (n > 1)) for n in range(CHUNKS)])
def test_small_programs_with_items_at_once_agree_with_every_interleaving(chunk: int) -> None:
    wrong: dict[int, list[str]] = {}
    for number in range(chunk * CHUNK, (chunk + 1) * CHUNK):
        data = concurrent_program(number)
        said = against_all_runs(data) if is_runnable(data) else []
        wrong |= {number: said} if said else {}
    assert not wrong


def against_all_runs(data: dict[str, Any]) -> list[str]:
    """Return where the checker differs from the enumeration of all interleavings."""
    broken = ItemEnumeration(data).run()
    report = ProgramValidator(Program.from_dict(data)).validate()
    wrong: list[str] = []
    for one in report.properties:
        reason = one.evidence.reason
        is_any = any(rule["name"] == one.rule and rule.get("ends") == "any" for rule in data["guardrails"])
        if is_any and reason.endswith("and that is not proved yet"):
            continue
        if one.number is None or reason == "the rule is vacuous":
            continue
        due = Verdict.VIOLATED if one.rule in broken else Verdict.PROVED
        if one.verdict is not due:
            wrong.append(f"{one.rule} is {one.verdict.name}, not {due.name}: {one.evidence.reason}")
        elif due is Verdict.PROVED and not one.rechecked:
            wrong.append(f"{one.rule} is not rechecked")
    return wrong


def test_drawn_programs_have_kept_and_broken_rules_of_each_kind() -> None:
    counts: Counter[tuple[str, bool]] = Counter()
    for number in range(size(12, 60)):
        data = concurrent_program(number)
        if is_runnable(data):
            broken = ItemEnumeration(data).run()
            for rule in data["guardrails"]:
                counts[next(word for word in KINDS if word in rule), rule["name"] in broken] += 1
    assert all(counts[kind, said] for kind in KINDS for said in (True, False))
