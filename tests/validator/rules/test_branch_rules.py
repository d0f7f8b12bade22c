"""Fast: what the gate finds in branches: loops without a bound, circles, and what a branch can't read."""

from __future__ import annotations

from typing import Any

import pytest

from stepward.validator.validator import ProgramValidator
from stepward.vm import Program


def found(**branches: Any) -> list[tuple[str, str, str]]:
    step = {"id": "both", "type": "parallel", "branches": branches}
    tools = {"look": {"effect": "read", "returns": {"type": "boolean"}}}
    data = {"name": "t", "language": 2, "max_steps": 50, "inputs": {}, "tools": tools}
    report = ProgramValidator(Program.from_dict({**data, "steps": [step, {"id": "z", "type": "end"}]})).validate()
    return [(one.code, one.message, one.help) for one in report.errors]


def look(name: str, **more: Any) -> dict[str, Any]:
    return {"id": name, "type": "tool", "tool": "look", **more}


def test_a_budget_of_steps_is_no_bound_of_a_loop_in_a_branch() -> None:
    again = {"id": "c", "type": "condition", "condition": "$see.output", "then": "seen", "otherwise": "see"}
    steps = [look("see", next_step="c"), again, {"id": "seen", "type": "end"}]
    message = "nothing bounds the loop `see` → `c` beside which others go on"
    assert found(a={"steps": steps}, b={"steps": [look("u")]}) == [
        ("SW105", message, "add `max_visits` to one of its steps")
    ]
    steps[0]["max_visits"] = 3
    assert found(a={"steps": steps}, b={"steps": [look("u")]}) == []


def test_branches_that_wait_for_each_other_and_for_none() -> None:
    first, second = {"steps": [look("t")], "depends_on": ["b"]}, {"steps": [look("u")], "depends_on": ["a"]}
    assert found(a=first, b=second) == [
        ("SW109", "`a` waits for itself: `a` → `b` → `a`", "remove `b` from the `depends_on` of `a`")
    ]
    assert [code for code, _, _ in found(a={**first, "depends_on": ["bb"]}, b={"steps": [look("u")]})] == ["SW109"]


def test_a_branch_reads_only_the_outputs_of_those_that_it_depends_on() -> None:
    ends = [look("t"), {"id": "e", "type": "end", "output": "$t.output"}]
    reads = {"steps": [look("u"), {"id": "f", "type": "end", "output": "$a.output"}]}
    help = "add `a` to the `depends_on` of `b`, or move this step after `both`, where it is defined"
    message = "`$a.output` belongs to a branch that runs at the same time as `b`"
    assert found(a={"steps": ends}, b=reads) == [("SW502", message, help)]
    assert found(a={"steps": ends}, b={**reads, "depends_on": ["a"]}) == []
    error = {"steps": [look("u"), {"id": "f", "type": "end", "output": "$a.error"}], "depends_on": ["a"]}
    assert "SW502" in [code for code, _, _ in found(a={"steps": ends}, b=error)]


def read_together(reference: str, *ways: dict[str, Any], before: tuple[dict[str, Any], ...] = ()) -> list[Any]:
    """Return what is said of a name that is read behind branches, of which `fraud` has the steps `ways`."""
    branches = {"credit": {"steps": [look("t")]}, "fraud": {"steps": list(ways)}}
    steps = [
        {"id": "both", "type": "parallel", "branches": branches, "output_key": "checks"},
        *before,
        {"id": "good", "type": "condition", "condition": f"{reference} > 5", "then": "z", "otherwise": "z"},
        {"id": "z", "type": "end"},
    ]
    tools = {"look": {"effect": "read", "returns": {"type": "boolean"}}}
    made = Program.from_dict({"name": "t", "language": 2, "inputs": {}, "tools": tools, "steps": steps})
    findings = ProgramValidator(made).validate().findings
    return [(one.code, one.message, one.help) for one in findings if one.code in ("SW201", "SW202", "SW203")]


@pytest.mark.parametrize("whole", ["$checks", "$both.output"])
def test_what_branches_give_together_has_a_type(whole: str) -> None:
    ask = look("u", output_key="more")
    asked = {"id": "c", "type": "condition", "condition": "$more", "then": "e", "otherwise": "n"}
    end = {"id": "e", "type": "end", "output": {"score": 1}}
    other = look("n", is_terminal=True)
    assert read_together(f"{whole}.fraud.score", end) == []
    name = f"{whole}.fraud.score"
    help = f"let each way through branch `fraud` end with an `end` step, or test `defined({name})` first"
    message = f"`{name}` may be absent: the object has the outputs of the branches that gave one"
    assert read_together(name, ask, asked, end, other) == [("SW202", message, help)]
    assert read_together(f"defined({name}) and {name}", ask, asked, end, other) == []
    for absent in ("credit", "crédit", "fraude"):
        message = f"`{whole}.{absent}` never exists: its type has no such field"
        ((code, said, _),) = read_together(f"{whole}.{absent}", end)
        assert (code, said) == ("SW201", message)
    ((code, said, _),) = read_together(f"{whole}.fraud.score", {**end, "output": {"score": "high"}})
    assert (code, said) == ("SW203", f"`>` needs a number, but `{name}`, which an `end` step gives, may be text")


def test_an_output_that_is_certain_where_it_is_read_is_no_finding() -> None:
    """Both branches end in one of two ways, by one input."""
    way = {"id": "c", "type": "condition", "condition": "$f", "then": "e", "otherwise": "n"}
    one = [way, {"id": "e", "type": "end", "output": 1}, look("n", is_terminal=True)]
    steps = [
        {"id": "both", "type": "parallel", "branches": {"m": {"steps": one}}},
        {"id": "q", "type": "condition", "condition": "$f", "then": "z", "otherwise": "y"},
        {"id": "z", "type": "end", "output": "$both.output.m"},
        {"id": "y", "type": "end"},
    ]
    tools = {"look": {"effect": "read", "returns": {"type": "boolean"}}}
    inputs = {"f": {"type": "boolean"}}
    made = Program.from_dict({"name": "t", "language": 2, "inputs": inputs, "tools": tools, "steps": steps})
    assert not ProgramValidator(made).validate().errors
    steps[2]["output"], steps[3]["output"] = None, "$both.output.m"
    made = Program.from_dict({"name": "t", "language": 2, "inputs": inputs, "tools": tools, "steps": steps})
    assert [one.code for one in ProgramValidator(made).validate().errors] == ["SW202"]
