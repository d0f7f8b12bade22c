"""What the second checker knows to be defined is found in few looks at each step, and by few operations on sets."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from stepward.validator import ProgramValidator, Report
from stepward.validator.recheck import walking
from stepward.validator.recheck.definite import Definite
from stepward.validator.recheck.flow import Transition
from stepward.validator.recheck.reading import Reading
from stepward.vm import Program

RUNGS = 60


def _diamond(number: int) -> list[dict[str, Any]]:
    """Return a condition round two calls; the one that it takes when `$flag` holds gives `n` a value."""
    name, following = f"r{number}", f"r{number + 1}"
    return [
        {"id": name, "type": "condition", "condition": "$flag", "then": f"a{number}", "otherwise": f"b{number}"},
        {"id": f"a{number}", "type": "tool", "tool": "note", "output_key": f"n{number}", "next_step": following},
        {"id": f"b{number}", "type": "tool", "tool": "note", "output_key": f"m{number}", "next_step": following},
    ]


def _loop(number: int) -> list[dict[str, Any]]:
    """Return a loop that gives its variable a value before it is asked."""
    name, following = f"r{number}", f"r{number + 1}"
    return [
        {
            "id": name,
            "type": "tool",
            "tool": "note",
            "output_key": f"n{number}",
            "max_visits": 3,
            "next_step": f"c{number}",
        },
        {"id": f"c{number}", "type": "condition", "condition": "$flag", "then": following, "otherwise": name},
    ]


def _reading(rung: Any) -> Reading:
    steps = [step for number in range(RUNGS) for step in rung(number)]
    steps.append({"id": f"r{RUNGS}", "type": "end"})
    inputs = {"flag": {"type": "boolean"}}
    return Reading(Program.from_dict({"name": "long", "inputs": inputs, "steps": steps}))


@pytest.mark.parametrize(("rung", "looks"), [(_diamond, 1), (_loop, 2)])
def test_a_step_is_looked_at_as_often_as_loops_go_through_it(
    rung: Any, looks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading = _reading(rung)
    seen: Counter[tuple[int, Transition]] = Counter()
    after = Definite._after

    def counted(self: Definite, number: int, way: Transition, before: int, takes: Any) -> int | None:
        seen[number, way] += 1
        return after(self, number, way, before, takes)

    monkeypatch.setattr(Definite, "_after", counted)
    assert all(reading.definite.may_get_to(step) for step in range(len(reading.steps)))
    assert max(seen.values()) <= looks


def test_what_one_branch_alone_gives_a_value_is_not_sure_behind_both() -> None:
    definite = _reading(_diamond).definite
    inside, behind = 1, 3
    assert not definite.is_sure(("n0",), inside), "the step has not run yet"
    assert not definite.is_sure(("n0",), behind)
    assert not definite.is_sure(("m0",), behind)
    looped = _reading(_loop).definite
    assert not looped.is_sure(("n0",), 0)
    assert looped.is_sure(("n0",), 1)


@pytest.mark.parametrize("rungs", [10, 40])
def test_a_search_evaluates_only_the_steps_that_the_rule_has_to_do_with(
    rungs: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule = {"protects": {"tool": "pay"}, "requires": {"tool": "approve"}}
    report, steps = _searched(rungs, rule, monkeypatch)
    assert [(one.verdict, one.rechecked) for one in report.properties if one.rule == "rule"] == [("proved", True)]
    assert 0 < len(steps) <= EVALUATED, "all others are passed"


@pytest.mark.parametrize("bodies", [2, 12])
def test_a_rule_of_a_body_is_searched_in_its_body(bodies: int, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    region = walking._region

    def noted(*of: Any) -> Any:
        starts, inside = region(*of)
        seen.append(len(inside))
        return starts, inside

    monkeypatch.setattr(walking, "_region", noted)
    rule = {"name": "once", "at_most_once": {"tool": "pay"}}
    steps = [
        {
            "id": f"each{number}",
            "type": "for_each",
            "items": [1, 2],
            "as": f"item{number}",
            "guardrails": [rule],
            "steps": [{"id": f"pay{number}", "type": "tool", "tool": "pay"}],
        }
        for number in range(bodies)
    ]
    program = {"name": "bodies", "language": 2, "inputs": {}, "tools": TOOLS, "steps": steps}
    report = ProgramValidator(Program.from_dict(program)).validate()
    assert [(one.verdict, one.rechecked) for one in report.properties] == [("proved", True)] * bodies
    assert seen == [3] * bodies, "the call and the two stages behind it"


TOOLS = {"note": {"effect": "read"}, "approve": {"effect": "none"}, "pay": {"effect": "write", "idempotent": True}}
EVALUATED = 8
"""The condition at the start, the one at the end, and what comes directly behind them, in the states that they have."""


def _searched(
    rungs: int, rule: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> tuple[Report, Counter[tuple[int, object]]]:
    """Return the report of a long program under a rule about its end, and the pairs that the search evaluated."""
    seen: Counter[tuple[int, object]] = Counter()
    targets = walking.Walk.targets

    def counted(self: Any, steps: Any, pair: Any, state: Any, cost: int) -> Any:
        if not steps.is_blind:
            seen[pair.step, state] += 1
        return targets(self, steps, pair, state, cost)

    monkeypatch.setattr(walking.Walk, "targets", counted)
    steps: list[dict[str, Any]] = [
        {"id": "begin", "type": "condition", "condition": "$flag", "then": "ask", "otherwise": "r0"},
        {"id": "ask", "type": "tool", "tool": "approve", "next_step": "r0"},
    ]
    for number in range(rungs):
        asked = {"condition": f"$level > {number}", "then": f"a{number}", "otherwise": f"r{number + 1}"}
        steps += [
            {"id": f"r{number}", "type": "condition", **asked},
            {"id": f"a{number}", "type": "tool", "tool": "note", "next_step": f"r{number + 1}"},
        ]
    steps += [
        {"id": f"r{rungs}", "type": "condition", "condition": "$flag", "then": "pay", "otherwise": "no"},
        {"id": "pay", "type": "tool", "tool": "pay", "is_terminal": True},
        {"id": "no", "type": "end"},
    ]
    inputs = {"flag": {"type": "boolean"}, "level": {"type": "integer"}}
    program = {"name": "long", "inputs": inputs, "tools": TOOLS, "guardrails": [{"name": "rule", **rule}]}
    return ProgramValidator(Program.from_dict({**program, "steps": steps})).validate(), seen
