"""Differential: what is said of small programs with waits and deadlines, against the enumeration of every run; a wait
without a value that it reads changes no verdict, in bodies either; witnesses find times to wait for."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

from bodied_programs import bodied_program
from branched_programs import branched_program
from comparing import compare
from machines import check, end, program, tool
from sizes import size
from small_programs import small_program
from stepward.validator import check_program
from stepward.vm import Program
from waiting_programs import with_deadlines, with_waits, with_waits_in_bodies


def test_the_checker_says_what_happens_in_programs_that_wait() -> None:
    counts: Counter[str] = Counter()
    for seed in range(size(15, 300)):
        found = compare(with_waits(small_program(1_000 + seed), Random(seed)))
        counts.update(found.counts)
        assert not found.wrong or all("not legal" in text for text in found.wrong), (seed, found.wrong)
    properties = sum(count for name, count in counts.items() if name.startswith("all unknown"))
    left_open = sum(count for name, count in counts.items() if name.startswith("unknown"))
    assert properties > size(30, 600)
    assert left_open <= properties / 100


def test_the_time_of_a_run_may_be_over_before_any_step() -> None:
    counts: Counter[str] = Counter()
    for seed in range(size(7, 120)):
        data = small_program(7_000 + seed)
        ids = [step["id"] for step in data["steps"] if step["type"] != "end"]
        owing = {"first": {"step": ids[0]}, "then": {"step": Random(seed).choice(ids)}}
        rules = [*data.get("guardrails", ()), {"name": "owing", "followed_by": owing, "ends": "any"}]
        found = compare({**data, "language": 2, "timeout_seconds": 60, "guardrails": rules})
        counts.update(found.counts)
        assert not found.wrong or all("not legal" in text for text in found.wrong), (seed, found.wrong)
    assert counts["truly broken followed_by"] > size(3, 30)


def test_the_checker_says_what_happens_in_programs_with_deadlines() -> None:
    counts: Counter[str] = Counter()
    dated = 0
    for seed in range(size(12, 150)):
        data = with_deadlines(small_program(3_000 + seed), Random(seed))
        dated += "deadline_seconds" in str(data)
        found = compare(data)
        counts.update(found.counts)
        assert not found.wrong or all("not legal" in text for text in found.wrong), (seed, found.wrong)
    assert dated > size(4, 60)
    assert sum(count for name, count in counts.items() if name.startswith("all unknown")) > size(20, 300)


def test_a_witness_lets_a_deadline_pass_and_no_proof_counts_on_an_answer() -> None:
    rule = {"name": "asked", "protects": {"step": "pay"}, "requires": {"step": "ask"}}
    tools = {"ask": {"effect": "none", "suspends": True}, "write": {"effect": "write"}}
    ask = tool("ask", "ask", deadline_seconds=60, catch=[{"errors": ["Deadline"], "then": "pay"}], next_step="pay")
    data = {"language": 2, "tools": tools, "guardrails": [rule]}
    (found,) = [one for one in check_program(program(ask, tool("pay", "write"), end(), **data)) if one.code == "SW401"]
    assert found.evidence is not None
    assert [(one.step, one.does) for one in found.evidence.witness.script] == [("ask", "misses its deadline")]
    ask["catch"] = [{"errors": ["Deadline"], "then": "late"}]
    fine = program(ask, tool("pay", "write", is_terminal=True), end("late", outcome="failure"), **data)
    assert not [one for one in check_program(fine) if one.code == "SW401"]


def said(data: dict[str, Any]) -> set[tuple[str, str | None]]:
    """Return what is found in a program, but for budgets, which waits use up."""
    return {(one.code, one.step) for one in check_program(Program.from_dict(data)) if not one.code.startswith("SW6")}


def without_ends_any(data: Any) -> Any:
    """Return a program without the rules that a run breaks which is cancelled while it waits."""
    if isinstance(data, dict):
        return {name: without_ends_any(value) for name, value in data.items()}
    if isinstance(data, list | tuple):
        return [without_ends_any(one) for one in data if not (isinstance(one, dict) and one.get("ends") == "any")]
    return data


@pytest.mark.parametrize("make", [bodied_program, branched_program])
def test_waits_in_bodies_change_no_verdict(make: Any) -> None:
    compared = 0
    for seed in range(size(6, 60)):
        data = without_ends_any(make(seed))
        if "max_steps" not in data and "max_stalled_steps" not in data:
            assert said({**data, "language": 2}) == said(with_waits_in_bodies(data, Random(seed))), seed
            compared += 1
    assert compared > 3


@pytest.mark.parametrize(("field", "kind"), [("until", "string"), ("seconds", "number"), ("seconds", "integer")])
def test_a_witness_waits_for_a_value_that_is_a_time(field: str, kind: str) -> None:
    rule = {"name": "asked", "protects": {"step": "pay"}, "requires": {"step": "ask"}}
    wait = {"id": "w", "type": "wait", field: "$when"}
    made = program(
        wait, check("c", "$ok", "ask", "pay"), tool("ask", next_step="pay"), tool("pay", "write"), end(),
        language=2, inputs={"when": {"type": kind}, "ok": {"type": "boolean"}}, guardrails=[rule],
    )  # fmt: skip
    (found,) = [one for one in check_program(made) if one.code == "SW401"]
    assert (found.severity, found.step) == ("error", "pay")


@pytest.mark.parametrize(
    ("spec", "field", "message"),
    [
        ({"type": "number"}, "until", "`$when` is never a text, so `w` can't wait for it"),
        ({"type": "string"}, "seconds", "`$when` is never a number, so `w` can't wait for it"),
        (
            {"type": "string", "sensitive": True},
            "until",
            "`$when` is sensitive, and the journal would show how long `w` waits",
        ),
    ],
)
def test_a_value_that_a_step_can_t_wait_for_is_reported(spec: dict[str, Any], field: str, message: str) -> None:
    wait = {"id": "w", "type": "wait", field: "$when"}
    made = program(wait, end(), language=2, tools={}, inputs={"when": spec})
    assert [(one.code, one.message) for one in check_program(made)] == [("SW203", message)]


def test_a_wait_for_an_undefined_value_is_reported() -> None:
    made = program({"id": "w", "type": "wait", "until": "$someday"}, end(), language=2, tools={})
    assert [one.code for one in check_program(made)] == ["SW201"]
