"""Small programs whose items run at once: what the checker says is held against every interleaving.

`STEPWARD_CONCURRENT=300` tries that many.
"""

from __future__ import annotations

import os
from collections import Counter
from typing import Any

import pytest

from brute_items import ItemEnumeration
from concurrent_programs import concurrent_program
from stepward.validator import Verdict
from stepward.validator.validator import ProgramValidator
from stepward.vm import Program, ProgramError
from stepward.vm.machine.plan import Plan

CHUNK = 10
CHUNKS = max(1, int(os.environ.get("STEPWARD_CONCURRENT", "20")) // CHUNK)


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
        if one.number is None or one.evidence.reason == "the rule is vacuous":
            continue
        due = Verdict.VIOLATED if one.rule in broken else Verdict.PROVED
        if one.verdict is not due:
            wrong.append(f"{one.rule} is {one.verdict.name}, not {due.name}: {one.evidence.reason}")
        elif due is Verdict.PROVED and not one.rechecked:
            wrong.append(f"{one.rule} is not rechecked")
    return wrong


def test_drawn_programs_have_kept_and_broken_rules_of_each_kind() -> None:
    counts: Counter[tuple[str, bool]] = Counter()
    for number in range(60):
        data = concurrent_program(number)
        if is_runnable(data):
            broken = ItemEnumeration(data).run()
            for rule in data["guardrails"]:
                kind = next(word for word in ("requires", "at_most_once", "exclusive", "never") if word in rule)
                counts[kind, rule["name"] in broken] += 1
    kinds = ("requires", "at_most_once", "exclusive", "never")
    assert all(counts[kind, said] for kind in kinds for said in (True, False))
