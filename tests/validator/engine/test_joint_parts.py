"""Parallel steps with two sub-steps of each kind: which of them started and succeeded, given the transition."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, product
from typing import Any, Final

import pytest

from comparing import checked_with_dead, compare
from sizes import by_day
from stepward.validator import ProgramValidator, Verdict
from stepward.validator.analysis.joint_parts import are_many
from stepward.vm import Program
from stepward.vm.language.order import order_of

_LATE: Final[dict[str, Any]] = {"timeout_seconds": 1, "on_timeout": "fallback", "fallback": 1}

SUBS: Final[dict[str, dict[str, Any]]] = {
    "plain": {},
    "skipped": {"on_error": "skip"},
    "falls back": _LATE,
    "skipped, falls back": {**_LATE, "on_error": "skip"},
    "named errors": {"tool": "charge"},
    "named errors, skipped": {"tool": "charge", "on_error": "skip"},
}

WHOLES: Final[dict[str, dict[str, Any]]] = {
    "nothing": {},
    "skip": {"on_error": "skip"},
    "error_step": {"error_step": "x"},
    "retry": {"on_error": "retry", "max_retries": 2},
    "catch Dependency": {"catch": [{"errors": ["Dependency"], "then": "x"}]},
    "catch Declined": {"catch": [{"errors": ["Declined"], "then": "x"}, {"errors": ["any"], "then": "y"}]},
    "catch Timeout": {"catch": [{"errors": ["Timeout"], "then": "x"}]},
}

CASES: Final = list(product(SUBS, SUBS, (False, True), WHOLES))


def program(first: str, second: str, is_ordered: bool, whole: str) -> dict[str, Any]:
    """Return a program with one parallel step, and rules between all its parts and all steps behind it."""
    calls: list[dict[str, Any]] = [
        {"id": name, "type": "tool", "tool": "write", **SUBS[kind]} for name, kind in (("a", first), ("b", second))
    ]
    if is_ordered:
        calls[1]["depends_on"] = ["a"]
    behind = [name for name in "xy" if f"'{name}'" in str(WHOLES[whole])]
    arms = [{"id": name, "type": "tool", "tool": "write", "next_step": "q"} for name in behind]
    steps = [
        {"id": "p", "type": "parallel", "parallel_steps": calls, **WHOLES[whole]},
        {"id": "q", "type": "tool", "tool": "write"},
        {"id": "e", "type": "end"},
        *arms,
    ]
    tools = {
        "write": {"effect": "write", "idempotent": True, "returns": {"enum": [0, 1]}},
        "charge": {"effect": "write", "idempotent": True, "errors": ["Declined"]},
    }
    rules = [{"name": f"r{number}", **rule} for number, rule in enumerate(_rules(["q", *behind]))]
    return {"name": "small", "language": 2, "tools": tools, "guardrails": rules, "steps": steps}


def _rules(behind: list[str]) -> Iterator[dict[str, Any]]:
    for first, then in product("abp", ("a", "b", "p", *behind)):
        if first != then:
            yield {"followed_by": {"first": {"step": first}, "then": {"step": then}}}
    for one, other in (*product("abp", behind), *combinations("ab", 2)):
        yield {"requires": {"step": one}, "protects": {"step": other}}
        yield {"exclusive": [{"step": one}, {"step": other}]}


@pytest.mark.parametrize("case", by_day(CASES, 16), ids=lambda case: ", ".join(map(str, case)))
def test_the_parts_of_a_step_end_as_in_every_run(case: tuple[str, str, bool, str]) -> None:
    data = program(*case)
    report, dead = checked_with_dead(data)
    wrong = compare(data, lambda _: report, is_rechecked=True, dead=dead).wrong
    assert [text for text in wrong if "not legal" not in text] == []  # some steps of these programs are never reached


def _pairs(many: int, *, is_sorted: bool) -> dict[str, Any]:
    """Return a program with a step of many pairs of sub-steps, of which one depends on the other."""
    calls: list[dict[str, Any]] = []
    for number in range(many):
        calls.append({"id": f"a{number}", "type": "tool", "tool": "write", "on_error": "skip"})
        calls.append({"id": f"b{number}", "type": "tool", "tool": "write", "depends_on": [f"a{number}"]})
    if is_sorted:
        calls.sort(key=lambda call: call["id"][0])
    rules = [
        {"name": "within", "requires": {"step": "a0"}, "protects": {"step": "b0"}},
        {"name": "follows", "followed_by": {"first": {"step": "a0"}, "then": {"step": "b0"}}},
        {"name": "broken", "requires": {"step": "a0"}, "protects": {"step": "x"}},
        {"name": "exclusive", "exclusive": [{"step": "b0"}, {"step": "x"}]},
    ]
    steps = [
        {"id": "p", "type": "parallel", "parallel_steps": calls, "error_step": "x"},
        {"id": "e", "type": "end"},
        {"id": "x", "type": "tool", "tool": "write"},
    ]
    return {**program("plain", "plain", True, "nothing"), "guardrails": rules, "steps": steps}


HOLDS: Final = {"within", "follows"}


@pytest.mark.parametrize(("many", "is_sorted"), [(3, True), (3, False), (11, True), (16, False)])
def test_a_step_with_many_sub_steps_that_depend_on_others(many: int, is_sorted: bool) -> None:
    """Where joint outcomes are too many to be listed, less is decided, and nothing wrong is reported."""
    found = Program.from_dict(_pairs(many, is_sorted=is_sorted))
    assert are_many(order_of(found.steps[0])) is (is_sorted and many > 9)
    for one in ProgramValidator(found).validate().properties:
        if one.rule and not (many == 11 and one.verdict is Verdict.UNKNOWN):
            assert one.verdict is (Verdict.PROVED if one.rule in HOLDS else Verdict.VIOLATED), one.rule


def test_chains_and_stars_of_sub_steps_are_never_too_many() -> None:
    calls = [{"id": f"a{number}", "type": "tool", "tool": "write"} for number in range(30)]
    chain = calls[:1] + [{**call, "depends_on": [f"a{number}"]} for number, call in enumerate(calls[1:])]
    star = [*calls, {"id": "z", "type": "tool", "tool": "write", "depends_on": [call["id"] for call in calls]}]
    for parts in (chain, star):
        steps = [{"id": "p", "type": "parallel", "parallel_steps": parts}, {"id": "e", "type": "end"}]
        data = {**program("plain", "plain", True, "nothing"), "guardrails": [], "steps": steps}
        assert not are_many(order_of(Program.from_dict(data).steps[0]))
