"""Fast: what is said of a program that has another shape than the language's: where it stands, and what to do."""

from __future__ import annotations

from typing import Any

import pytest

from stepward.vm import Policy, Program, ProgramError
from stepward.vm.errors import PolicyError, Problem
from stepward.vm.reading.source import Mend, Place

END = {"id": "done", "type": "end"}


def refused(data: dict[str, Any]) -> list[Problem]:
    """Return what a program is refused for."""
    with pytest.raises(ProgramError) as error:
        Program.from_dict(data)
    assert {problem.code for problem in error.value.problems} == {"SW002"}
    return list(error.value.problems)


@pytest.mark.parametrize(
    ("given", "help", "mended"),
    [
        ("conditon", "did you mean `condition`?", "condition"),
        ("lmm", "did you mean `llm`?", None),
        ("agent", "use one of `llm`, `tool`", None),
        (5, "use one of `llm`, `tool`", None),
    ],
)
def test_a_wrong_step_type_is_said_at_the_value(given: Any, help: str, mended: str | None) -> None:
    (problem,) = refused({"name": "p", "steps": [{"id": "a", "type": given}, END]})
    assert problem.place == Place(("steps", 0, "type"))
    assert problem.help.startswith(help)
    assert problem.mend == (mended and Mend(problem.place, mended))


def test_a_wrong_type_of_a_sub_step_is_said_at_the_value_and_a_missing_one_at_the_step() -> None:
    parts = [
        {"id": "a", "type": "toool", "tool": "t"},
        {"id": "b", "type": "end"},
        {"id": "c"},
        {"id": "d", "type": None},
    ]
    problems = refused({"name": "p", "steps": [{"id": "both", "type": "parallel", "parallel_steps": parts}]})
    inside = "steps[0].parallel_steps"
    assert [(problem.place.text(), problem.step) for problem in problems] == [
        (f"{inside}[0].type", "a"), (f"{inside}[1].type", "b"), (f"{inside}[2]", "c"), (f"{inside}[3]", "d")
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("pair", "help"),
    [
        ([], "name both things of which a run does only one"),
        ([{"tool": "pay"}], "name both things of which a run does only one"),
        ([{"tool": "pay"}, {"step": "done"}, {"tool": "book"}], "write one rule for each pair of them"),
    ],
)
@pytest.mark.parametrize("kind", [list, tuple])
def test_a_rule_that_excludes_takes_two(pair: list[Any], help: str, kind: type) -> None:
    (problem,) = refused({"name": "p", "guardrails": [{"name": "r", "exclusive": kind(pair)}], "steps": [END]})
    assert problem.message == f"`exclusive` takes two selectors, not {len(pair)}"
    assert problem.help.startswith(help)
    assert problem.place.text() == "guardrails[0].exclusive"


@pytest.mark.parametrize(
    ("spec", "help"),
    [
        ({"minimum": 5, "maximum": 3}, "raise `maximum` to 5 or more, or lower `minimum` to 3 or less"),
        (
            {"type": "integer", "minimum": 2.5, "maximum": 2.75},
            "raise `maximum` to 3 or more, or lower `minimum` to 2 or less",
        ),
        ({"type": "string", "enum": [1, 2]}, "change the values of `enum`, or `type` beside it"),
        (
            {"type": "string", "enum": ["abc"], "maxLength": 2, "default": "a", "pattern": None},
            "change the values of `enum`, or `type` and `maxLength` beside it",
        ),
        (
            {"required": ["y"], "additionalProperties": False},
            "declare `y` in `properties`, or take it out of `required`",
        ),
        ({"type": []}, "name a type, or remove `type`: without it any kind of value is admitted"),
        ({"pattern": "a("}, "write `)` behind the group, or `\\(` for the sign itself"),
    ],
)
def test_of_a_type_that_cannot_be_it_is_said_what_to_change(spec: dict[str, Any], help: str) -> None:
    (problem,) = refused({"name": "p", "inputs": {"x": spec}, "steps": [END]})
    assert problem.help == help


@pytest.mark.parametrize(
    ("entries", "number", "help"),
    [
        (["pay", "pay"], 1, "remove one of the two"),
        (["pay", "get", {"tool": "pay", "when": "$args.n < 5"}], 2, "remove one of the two"),
        (
            [{"tool": "pay", "when": "$args.n < 5"}, {"tool": "pay", "when": "$x == 1"}],
            1,
            "remove it, and write `when: ($args.n < 5) or ($x == 1)` in the first",
        ),
    ],
)
def test_an_allow_list_names_a_tool_once(entries: list[Any], number: int, help: str) -> None:
    data = {"policy": "p", "allow": entries}
    with pytest.raises(PolicyError) as error:
        Policy.from_dict(data)
    (problem,) = error.value.problems
    assert (problem.code, problem.message) == ("SW002", "the list names tool `pay` twice")
    assert (problem.place, problem.help) == (Place(("allow", number)), help)
    assert len(Policy.from_record(data, None).allow or ()) == len(entries)
