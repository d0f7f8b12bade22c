"""Property: a condition that the checker accepts has a value in every state of the types that it was checked with.

The names of `strategies.conditions` get types here, some declared, some left to inference; values of just those types
are then tried. Only digits may still run out.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from stepward.validator import ProgramValidator
from stepward.vm import EvaluationError, Meaning, Program, UndefinedReferenceError
from stepward.vm.expressions.evaluator import evaluate_condition
from stepward.vm.expressions.parser import parse
from stepward.vm.language.types import TypeSpec, refusal
from stepward.vm.values import freeze
from strategies import conditions

TYPES: dict[str, Any] = {
    "a": {"type": "number"},
    "b": {"type": "integer"},
    "s": {"type": "string"},
    "t": {"type": "string"},
    "items": {"type": "array", "items": {"type": "number"}},
    "ok": {"type": "boolean"},
    "maybe": {"type": ["number", "null"]},
    "o": {
        "type": "object",
        "properties": {
            "field": {"type": "string"},
            "deep": {"type": "object", "properties": {"er": {"type": "boolean"}}, "required": ["er"]},
        },
        "required": ["field", "deep"],
    },
    "größe": {"type": "number"},
}
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "a": st.sampled_from([0, 1, -2.5]),
    "b": st.integers(-2, 2),
    "s": st.sampled_from(["", "x", "yes"]),
    "t": st.sampled_from(["", "xyz"]),
    "items": st.lists(st.integers(0, 2), max_size=2),
    "ok": st.booleans(),
    "maybe": st.none() | st.integers(0, 1),
    "o": st.builds(lambda text, flag: {"field": text, "deep": {"er": flag}}, st.sampled_from(["", "x"]), st.booleans()),
    "größe": st.integers(0, 2),
}


def program(condition: str, types: dict[str, Any]) -> Program:
    return Program.from_dict(
        {
            "inputs": types,
            "steps": [
                {"id": "step", "type": "llm", "prompt": "say"},
                {"id": "c", "type": "condition", "condition": condition, "then": "e", "otherwise": "f"},
                {"id": "e", "type": "end"},
                {"id": "f", "type": "end", "outcome": "failure"},
            ],
        }
    )


def lookup(state: dict[str, Any]) -> Any:
    def find(names: tuple[str, ...]) -> Any:
        value: Any = state
        for name in names:
            if not isinstance(value, dict) or name not in value:
                raise UndefinedReferenceError(".".join(names))
            value = value[name]
        return value

    return find


def holds_a_value(condition: str, state: dict[str, Any]) -> None:
    try:
        evaluate_condition(parse(condition), lookup(freeze(state)))
    except EvaluationError as error:
        if "digits" not in str(error):
            raise AssertionError(f"{condition} in {state}: {error}") from error


@settings(max_examples=500, deadline=None)
@given(conditions(), st.fixed_dictionaries(VALUES), st.text(max_size=3))
def test_an_accepted_condition_has_a_value_in_every_state(condition: str, state: dict[str, Any], reply: str) -> None:
    findings = ProgramValidator(program(condition, TYPES)).validate().findings
    assume(not any(finding.code in ("SW201", "SW202", "SW203", "SW204", "SW301") for finding in findings))
    holds_a_value(condition, {**state, "step": {"output": reply}})


ANYTHING = st.one_of(
    st.none(), st.booleans(), st.integers(0, 2), st.sampled_from(["", "x"]), st.lists(st.integers(0, 1), max_size=1)
)


@settings(max_examples=500, deadline=None)
@given(conditions(), st.fixed_dictionaries({name: ANYTHING | VALUES[name] for name in VALUES}), st.text(max_size=3))
def test_what_is_inferred_is_enough_once_the_boundary_enforces_it(
    condition: str, state: dict[str, Any], reply: str
) -> None:
    """With nothing declared, values that the inferred types admit give every accepted condition a value."""
    checked = program(condition, {name: {} for name in TYPES})
    findings = ProgramValidator(checked).validate().findings
    assume(not any(finding.code in ("SW201", "SW202", "SW203", "SW204", "SW301") for finding in findings))
    meaning = Meaning(checked)
    for name, value in state.items():
        spec = meaning.typing.effective(meaning.names.variables[name][0])
        assume(spec is None or refusal(freeze(value), spec) is None)
    holds_a_value(condition, {**state, "step": {"output": reply}})


@pytest.mark.parametrize("accepted", [True, False])
def test_the_search_meets_both_kinds_of_condition(accepted: bool) -> None:
    met = 0

    @settings(max_examples=200, deadline=None, database=None, derandomize=True)
    @given(conditions())
    def count(condition: str) -> None:
        nonlocal met
        codes = {finding.code for finding in ProgramValidator(program(condition, TYPES)).validate().findings}
        met += (not codes & {"SW201", "SW202", "SW203", "SW204", "SW301"}) is accepted

    count()
    assert met >= 20


def test_a_type_without_words_is_any_type() -> None:
    assert refusal(freeze([1, None]), TypeSpec()) is None
