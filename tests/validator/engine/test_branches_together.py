"""What a step with branches gives, an object of their outputs, is decided like what they give: by type and by place."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from test_item_fields import QUESTIONS, TYPES

from sizes import MANY
from stepward.validator import ProgramValidator, Verdict
from stepward.validator.engine.systems.ends import Ends
from stepward.validator.engine.systems.system import Literal
from stepward.validator.findings import Property, Report
from stepward.vm import Program
from stepward.vm.values import FrozenMap

ACT: dict[str, Any] = {"id": "act", "type": "tool", "tool": "act"}
LAST: dict[str, Any] = {"id": "z", "type": "end"}
PLACES = (
    "variable",
    "output",
    "copy",
    "field of a copy",
    "field of a branch",
    "from calls",
    "in a branch",
    "in an item",
    "in a call",
    "of a branch inside",
    "read by a branch behind it",
    "in a loop",
)


def fork(one: Any, two: Any, *, may_lack: bool = False, **others: Any) -> dict[str, Any]:
    """Return a step with two branches that give something; with `may_lack`, they may end without it."""

    def branch(name: str, output: Any) -> dict[str, Any]:
        steps: list[dict[str, Any]] = [{"id": f"{name}_end", "type": "end", "output": output}]
        if may_lack:
            ways = {"then": f"{name}_end", "otherwise": f"{name}_not"}
            steps.insert(0, {"id": f"{name}_asks", "type": "condition", "condition": "$more", **ways})
            steps.append({"id": f"{name}_not", "type": "set", "set": {"nothing": 0}, "is_terminal": True})
        return {"steps": steps}

    branches = {"one": branch("one", one), "two": branch("two", two)}
    return {"id": "par", "type": "parallel", "branches": branches, "output_key": "both", **others}


def load(name: str) -> dict[str, Any]:
    """Return a call that gives a value of the type."""
    return {"id": f"load_{name}", "type": "tool", "tool": "load", "output_key": name}


def at_place(place: str, *, may_lack: bool) -> tuple[str, str, list[dict[str, Any]]]:
    """Return the names of two values of branches at a place, and the steps of a program that reads them there."""
    made = fork("$x", "$y", may_lack=may_lack)
    names = ("$both.one", "$both.two")
    match place:
        case "variable" | "in a call":
            return *names, [made, ACT]
        case "output":
            return "$par.output.one", "$par.output.two", [made, ACT]
        case "copy":
            return "$c.one", "$c.two", [made, {"id": "copy", "type": "set", "set": {"c": "$both"}}, ACT]
        case "field of a copy":
            return "$c.b.one", "$c.b.two", [made, {"id": "copy", "type": "set", "set": {"c": {"b": "$both"}}}, ACT]
        case "field of a branch":
            return "$both.one.f", "$both.two.f", [fork({"f": "$x"}, {"f": "$y"}, may_lack=may_lack), ACT]
        case "from calls":
            return *names, [load("v"), load("w"), fork("$v", "$w", may_lack=may_lack), ACT]
        case "in a branch":
            return *names, [{"id": "outer", "type": "parallel", "branches": {"only": {"steps": [made, ACT]}}}]
        case "in an item":
            items = {"items": [1, 2], "as": "i", "max_items": 2}
            return *names, [{"id": "each", "type": "for_each", **items, "steps": [made, ACT]}]
        case "of a branch inside":
            body = [made, {"id": "all", "type": "end", "output": "$both"}]
            outer = {"id": "outer", "type": "parallel", "branches": {"in": {"steps": body}}, "output_key": "whole"}
            return "$whole.in.one", "$whole.in.two", [outer, ACT]
        case "read by a branch behind it":
            made["branches"]["three"] = {"steps": [{"id": "three_end", "type": "end", "output": 3}]}
            return *names, [made, {"id": "later", "type": "parallel", "branches": {"l": {"steps": [ACT]}}}]
        case _:
            assert place == "in a loop"
            first = {"id": "first", "type": "wait", "seconds": 1, "next_step": "par"}
            again = {"id": "again", "type": "condition", "condition": "$more", "then": "par", "otherwise": "z"}
            return *names, [first, {**made, "max_visits": 2, "next_step": "act"}, ACT, again]


CASES = list(
    product(PLACES, ((kind, question) for kind, asked in QUESTIONS.items() for question in asked), (False, True))
)
BY_DAY = 17
"""Of so many cases one is tried by day; the number is prime to those of places and questions, so that each is met."""


def judged(place: str, kind: str, question: str, *, may_lack: bool) -> tuple[Property, Report]:
    one, two, steps = at_place(place, may_lack=may_lack)
    when = question if not may_lack else f"defined(F) and defined(G) and ({question})"
    when = when.replace("F", one).replace("G", two)
    rules = [{"name": "rule", "never": {"tool": "act"}, "when": when}]
    tools = {"act": {"effect": "write", "idempotent": True}, "load": {"effect": "read", "returns": TYPES[kind]}}
    inputs = {"x": TYPES[kind], "y": TYPES[kind], "more": {"type": "boolean"}}
    made: dict[str, Any] = {"name": "t", "language": 2, "inputs": inputs, "tools": tools}
    if place == "in a call":
        made["programs"] = {"sub": {"inputs": inputs, "guardrails": rules, "steps": steps}}
        steps = [{"id": "part", "type": "call", "program": "sub", "args": {"x": "$x", "y": "$y", "more": "$more"}}]
    else:
        made["guardrails"] = rules
    result = ProgramValidator(Program.from_dict({**made, "steps": [*steps, LAST]})).validate()
    (found,) = [one for one in result.properties if one.rule is not None and one.rule.endswith("rule")]
    return found, result


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("place", "asked", "may_lack"), CASES if MANY else CASES[::BY_DAY])
def test_a_rule_on_the_output_of_a_branch_is_decided_at_each_place(
    place: str, asked: tuple[str, str], may_lack: bool
) -> None:
    kind, question = asked
    found, result = judged(place, kind, question, may_lack=may_lack)
    assert found.verdict.value == ("violated" if QUESTIONS[kind][question] else "proved"), result.findings
    assert found.rechecked is (not QUESTIONS[kind][question])
    assert not [one for one in result.findings if one.code in ("SW201", "SW202", "SW203")]


def test_a_wrong_object_of_the_engine_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert judged("variable", "number", "F > 50", may_lack=False)[0].verdict is Verdict.VIOLATED
    monkeypatch.setattr(Ends, "together", lambda *_: iter([((), Literal(FrozenMap({"one": 0, "two": 0})))]))
    found, _ = judged("variable", "number", "F > 50", may_lack=False)
    assert found.verdict is Verdict.UNKNOWN
    assert "second checker" in found.evidence.reason
