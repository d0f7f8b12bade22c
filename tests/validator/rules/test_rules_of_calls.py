"""Fast: names of called programs in findings: inputs are their own, and what a call leaves out is said once."""

from __future__ import annotations

from typing import Any

import pytest

from stepward.validator import ProgramValidator
from stepward.vm import Program

NUMBER = {"type": "number"}


def codes(output: str, args: dict[str, Any], **more: Any) -> list[tuple[str, str, str]]:
    """Return what is said of a program that calls another one with some arguments."""
    called = {"inputs": {"given": NUMBER}, "steps": [{"id": "z", "type": "end", "output": output}]}
    steps = [
        {"id": name, "type": "call", "program": "p", "args": one} for name, one in (("a", args), ("b", {"given": 1}))
    ]
    program = Program.from_dict({"name": "t", "language": 2, "programs": {"p": called}, "steps": steps, **more})
    return [(one.code, one.message, one.help) for one in ProgramValidator(program).validate().findings]


@pytest.mark.parametrize("inputs", [{}, {"inputs": {}}, {"inputs": {"other": NUMBER}}], ids=["none", "empty", "some"])
def test_a_called_program_reads_its_own_inputs_only(inputs: dict[str, Any]) -> None:
    found = codes("$other", {"given": 1}, **inputs)
    assert ("SW201", "nothing ever defines `$other`") in [one[:2] for one in found]
    assert "SW210" not in [one[0] for one in found]


def test_an_argument_that_a_call_leaves_out_is_reported_once() -> None:
    assert [one[0] for one in codes("$given", {})] == ["SW207"]


def test_a_suggestion_is_a_name_of_the_same_program() -> None:
    found = codes("$givn", {"given": 1}, inputs={"giv": NUMBER})
    (help,) = [one[2] for one in found if one[0] == "SW201"]
    assert help == "did you mean `$given`?"


@pytest.mark.parametrize(
    ("type_name", "values"), [("number", (1, 2)), ("string", ("'x'", "'y'")), ("boolean", (True, False))]
)
@pytest.mark.parametrize("right", ["$second", "$third"])
def test_inputs_that_calls_give_as_constants_have_the_declared_type(type_name: str, values: Any, right: str) -> None:
    one, two = values
    ask = {"id": "ask", "type": "condition", "condition": f"$first == {right}", "then": "z", "otherwise": "y"}
    ends = [{"id": "z", "type": "end"}, {"id": "y", "type": "end", "output": "$second"}]
    inputs = {name: {"type": type_name} for name in ("first", "second", "third")}
    calls = [
        {"id": name, "type": "call", "program": "p", "args": {"first": first, "second": two, "third": "$some"}}
        for name, first in (("a", one), ("b", two))
    ]
    data = {"name": "t", "language": 2, "inputs": {"some": {"type": type_name}}, "steps": calls}
    program = Program.from_dict({**data, "programs": {"p": {"inputs": inputs, "steps": [ask, *ends]}}})
    found = ProgramValidator(program).validate().findings
    assert "SW203" not in [one.code for one in found]
