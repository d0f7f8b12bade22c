"""Fast: what the gate finds in branches: loops without a bound, circles, and what a branch can't read."""

from __future__ import annotations

from typing import Any

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


def test_a_branch_is_read_by_its_own_output_and_not_in_that_of_the_step() -> None:
    branches = {
        name: {"steps": [{"id": f"{name}_end", "type": "end", "output": {"score": 1}}]} for name in ("credit", "fraud")
    }

    def read(reference: str) -> list[Any]:
        steps = [
            {"id": "both", "type": "parallel", "branches": branches, "output_key": "checks"},
            {"id": "good", "type": "condition", "condition": f"{reference} > 5", "then": "z", "otherwise": "z"},
            {"id": "z", "type": "end"},
        ]
        made = Program.from_dict({"name": "t", "language": 2, "inputs": {}, "steps": steps})
        return [one for one in ProgramValidator(made).validate().findings if one.code == "SW202"]

    for whole in ("$checks", "$both.output"):
        (finding,) = read(f"{whole}.fraud.score")
        assert finding.message.endswith("the object has the outputs of the branches that gave one")
        assert finding.help.startswith("read `$fraud.output.score`, ")
    assert not read("$fraud.output.score")
