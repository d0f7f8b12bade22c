"""Steps are kept as the fields that were given: what was not given is read all the same, and nothing can be changed."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from stepward.vm import Program, ProgramError
from stepward.vm.language.steps import STEP_MODELS, SUB_STEP_MODELS, AnyStep, Case, ToolStep

SHORT: dict[str, Any] = {"id": "pay", "type": "tool", "tool": "pay"}
LONG: dict[str, Any] = {
    **SHORT,
    "args": {},
    "on_error": "fail",
    "max_retries": 3,
    "next_step": None,
    "is_terminal": False,
}


def step(fields: dict[str, Any]) -> AnyStep:
    return Program.from_dict({"steps": [fields]}).steps[0]


def test_a_default_is_read_like_a_given_field() -> None:
    short, long = step(SHORT), step(LONG)
    assert isinstance(short, ToolStep)
    for name in ToolStep.fields():
        assert getattr(short, name) == getattr(long, name)
    assert (short.max_retries, short.on_timeout, short.args) == (3, "fail", {})


def test_only_what_was_given_is_kept_and_written() -> None:
    assert vars(step(SHORT)) == SHORT
    assert step(SHORT).to_data() == SHORT
    assert step(LONG).to_data() == LONG


def test_a_default_that_was_given_makes_no_difference() -> None:
    assert step(SHORT) == step(LONG)
    assert hash(step(SHORT)) == hash(step(LONG))
    assert step(SHORT) != step({**LONG, "max_retries": 4})
    assert step(SHORT) != step({"id": "pay", "type": "llm", "prompt": "pay"})


def test_a_step_can_not_be_changed() -> None:
    pay = step(SHORT)
    with pytest.raises(TypeError, match="`tool` can't be set: a program is frozen"):
        pay.tool = "refund"  # type: ignore[union-attr]
    with pytest.raises(TypeError, match="`tool` can't be deleted: a program is frozen"):
        del pay.tool  # type: ignore[union-attr]
    with pytest.raises(TypeError, match="can't be changed"):
        pay.args["amount"] = 1  # type: ignore[union-attr]
    assert pay == step(SHORT)


def test_replace_makes_another() -> None:
    pay = step(SHORT)
    assert pay.replace(on_timeout="fallback") == step({**SHORT, "on_timeout": "fallback"})
    assert pay == step(SHORT)


def test_the_data_that_a_step_is_made_from_is_not_kept() -> None:
    fields = {**SHORT, "args": {"amount": 1}}
    pay = step(fields)
    fields["tool"] = "refund"
    fields["args"]["amount"] = 2
    assert pay.to_data() == {**SHORT, "args": {"amount": 1}}


@pytest.mark.parametrize("kind", [*STEP_MODELS.values(), *SUB_STEP_MODELS.values(), Case])
def test_no_field_is_named_like_what_every_record_has(kind: Any) -> None:
    own = {name for owner in kind.__mro__ for name in vars(owner) if callable(getattr(owner, name))}
    assert own.isdisjoint(kind.fields())


def test_a_step_is_copied_and_pickled() -> None:
    program = Program.from_dict({"steps": [LONG]})
    assert pickle.loads(pickle.dumps(program)) == copy.deepcopy(program) == program


def test_a_step_shows_what_was_given() -> None:
    assert repr(step(SHORT)) == "ToolStep(id='pay', type='tool', tool='pay')"


def test_steps_of_one_program_make_another() -> None:
    program = Program.from_dict({"steps": [SHORT, {"id": "end", "type": "end"}]})
    assert Program.from_dict({"steps": [*program.steps[:1], {"id": "end", "type": "end"}]}) == program
    assert Program.from_dict({"steps": program.steps}) == program


def test_what_json_does_not_have_is_no_number() -> None:
    with pytest.raises(ProgramError, match="not what JSON does not have"):
        Program.from_dict({"steps": [object()]})
