"""Bodies of for_each steps: the messages of the loader, the layout of all steps in one list, and scopes."""

from __future__ import annotations

from typing import Any

import pytest

from stepward.vm import Program
from stepward.vm.errors import ProgramError
from stepward.vm.language.flow import Flow
from stepward.vm.language.scopes import crossings, local_names

END: dict[str, Any] = {"id": "e", "type": "end"}


def each(**fields: Any) -> dict[str, Any]:
    return {"id": "a", "type": "for_each", "items": "$l", "as": "x", "max_items": 2, **fields}


def loaded(*steps: dict[str, Any], **fields: Any) -> Program:
    return Program.from_dict({"language": 2, "inputs": {"l": {}}, "steps": list(steps), **fields})


def refused(*steps: dict[str, Any], **fields: Any) -> Any:
    with pytest.raises(ProgramError) as caught:
        loaded(*steps, **fields)
    (problem,) = caught.value.problems
    return problem


MISTAKES = {
    "both forms": (each(steps=[END], do={"id": "d", "type": "tool", "tool": "t"}), (), "has either `steps` or `do`"),
    "no form": (each(), (), "has either `steps` or `do`"),
    "items that carry": (each(steps=[END], max_concurrency=2, carry={"v": 0}), (), "at once can't carry variables on"),
    "a type": (each(steps=[{"id": "b", "type": "tol"}]), ("steps", 0, "type"), "`tol` is not a step type"),
    "a field": (each(steps=[{**END, "promt": ""}]), ("steps", 0, "promt"), "unknown field `promt` in this end step"),
    "a field of do": (each(do={"id": "d", "type": "tool", "tool": "t", "next_step": "e"}), ("do", "next_step"),
                      "`next_step` does not belong to a sub-step"),
    "a type of do": (each(do={"id": "d", "type": "set"}), ("do", "type"), "a sub-step can't be of type `set`"),
    "a rule": (each(steps=[END], guardrails=[{"name": "r"}]), ("guardrails", 0), "a guardrail needs a rule"),
    "a name": ({**each(steps=[END]), "as": "1x"}, ("as",), "`1x` is not a name"),
    "a step in a body in a body": (each(steps=[{**each(id="b", steps=[{"id": "c"}])}]), ("steps", 0, "steps", 0),
                                   "`type` is missing in this step"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_in_a_body_is_reported_where_it_is(name: str) -> None:
    step, path, message = MISTAKES[name]
    problem = refused(step)
    assert message in problem.message
    assert problem.place.path == ("steps", 0, *path)
    assert problem.code == "SW002"


def test_a_for_each_step_needs_language_2() -> None:
    problem = refused({"id": "e", "type": "end"}, each(steps=[{**END, "id": "f"}]), language=1)
    assert (problem.message, problem.step) == ("the step type `for_each` needs language 2", "a")
    assert problem.help == "write `language: 2` instead of `language: 1`"


def test_fields_that_are_null_are_absent_in_bodies_too() -> None:
    inner = {"id": "t", "type": "tool", "tool": "t", "args": {"n": None}, "output_key": None}
    made = loaded(each(steps=[inner], do=None, index_as=None, carry={}))
    assert made.steps[0] == loaded(each(steps=[{"id": "t", "type": "tool", "tool": "t", "args": {"n": None}}])).steps[0]


def test_a_program_with_bodies_is_equal_to_what_its_data_loads_to() -> None:
    made = loaded(each(steps=[each(id="b", do={"id": "d", "type": "tool", "tool": "t"})], carry={"v": "[]"}))
    assert Program.from_dict(made.to_dict()) == made
    assert Program.from_yaml(made.to_yaml()) == made


def test_a_program_without_bodies_is_laid_out_as_it_is_written() -> None:
    made = Program.from_dict({"steps": [{"id": "t", "type": "tool", "tool": "t"}, END]})
    assert made.layout.steps == made.steps
    assert [made.layout.path(number) for number in range(2)] == [("steps", 0), ("steps", 1)]
    assert [made.layout.after(number) for number in range(2)] == [1, None]


NESTED = loaded(
    each(
        steps=[
            {"id": "t", "type": "tool", "tool": "t", "output_key": "v"},
            each(id="b", do={"id": "d", "type": "tool", "tool": "t"}, on_item_error="skip", **{"as": "y"}),
        ],
        carry={"total": 0},
    ),
    END,
)


def test_bodies_stand_behind_their_step_and_before_its_stages() -> None:
    layout = NESTED.layout
    assert [step.id for step in layout.steps] == ["a", "t", "b", "d", "b next", "a next", "a failed", "e"]
    assert [layout.owner(number) for number in range(8)] == [None, 0, 0, 2, 0, None, None, None]
    assert [layout.after(number) for number in (0, 1, 2, 3, 7)] == [7, 2, None, None, None]
    assert layout.path(3) == ("steps", 0, "steps", 1, "do")
    assert layout.owners_of(3) == (0, 2)


def test_control_goes_from_a_body_to_its_stages_and_no_target_crosses_its_boundary() -> None:
    flow = Flow(NESTED)
    assert [(one.kind, one.to) for one in flow.transitions[0]] == [("success", 5), ("failed", -1)]
    assert [(one.kind, one.to) for one in flow.transitions[1]] == [("success", 2), ("failed", 6)]
    assert [(one.kind, one.to) for one in flow.transitions[3]] == [("success", 4), ("failed", 4)]
    assert [(one.kind, one.to) for one in flow.transitions[4]] == [("item", 3), ("success", 5)]
    assert [(one.kind, one.to) for one in flow.transitions[5]] == [("item", 1), ("success", 7)]
    assert not flow.has_missing_target
    across = loaded(each(steps=[{"id": "t", "type": "tool", "tool": "t", "next_step": "e"}]), END)
    assert Flow(across).has_missing_target
    assert Flow(loaded(each(steps=[END], next_step="e"))).has_missing_target


def test_what_a_body_binds_is_its_own_but_for_what_its_items_carry_on() -> None:
    assert local_names(NESTED.layout, 0) == {"x", "y", "v"}
    assert local_names(NESTED.layout, 2) == {"y"}
    assert not list(crossings(NESTED))
    again = loaded(each(steps=[each(id="b", steps=[END], **{"as": "x"})]))
    assert [(one.binding.name, one.around) for one in crossings(again)] == [("x", ("steps", 0, "as"))]
