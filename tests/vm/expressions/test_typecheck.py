"""Property: a condition that the checker accepts has a value in every state of the types that it was checked with.

The names of `strategies.conditions` get types here, some declared, some left to inference; values of just those types
are then tried. Only digits may still run out.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from evaluations import lookup_in
from sizes import size
from stepward.validator.context import Context
from stepward.validator.rules.registry import RULES
from stepward.vm import EvaluationError, Meaning, Program
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
VALUES: dict[str, list[Any]] = {
    "a": [0, 1, -2.5],
    "b": [-2, -1, 0, 1, 2],
    "s": ["", "x", "yes"],
    "t": ["", "xyz"],
    "items": [[], [0], [2, 1], [1, 1]],
    "ok": [False, True],
    "maybe": [None, 0, 1],
    "o": [{"field": text, "deep": {"er": flag}} for text in ("", "x") for flag in (False, True)],
    "größe": [0, 1, 2],
}
ANYTHING: list[Any] = [None, False, True, 0, 1, 2, "", "x", [], [0], [1]]
REPLIES = ["", "x", "yes", "a\n", "é"]
STATES = 8
"""For each condition: making one takes longer than trying it."""
REFUSED = {"SW201", "SW202", "SW203", "SW204", "SW301"}


def program(condition: str, types: dict[str, Any]) -> Program:
    return Program.from_dict(
        {
            "language": 2,
            "inputs": types,
            "steps": [
                {"id": "step", "type": "llm", "prompt": "say"},
                {"id": "c", "type": "condition", "condition": condition, "then": "e", "otherwise": "f"},
                {"id": "e", "type": "end"},
                {"id": "f", "type": "end", "outcome": "failure"},
            ],
        }
    )


def holds_a_value(condition: str, state: dict[str, Any]) -> None:
    try:
        evaluate_condition(parse(condition), lookup_in(freeze(state)))
    except EvaluationError as error:
        if "digits" not in str(error):
            raise AssertionError(f"{condition} in {state}: {error}") from error


def is_accepted(checked: Program) -> bool:
    context = Context(checked)
    return not any(list(rule().check(context)) for rule in RULES if rule.code in REFUSED)


def state_of(chance: Random, values: dict[str, list[Any]]) -> dict[str, Any]:
    """Return a state with a value for each name."""
    return {name: chance.choice(values[name]) for name in VALUES} | {"step": {"output": chance.choice(REPLIES)}}


@settings(max_examples=size(40, 350), deadline=None)
@given(conditions(), st.integers(0, 1 << 30))
def test_an_accepted_condition_has_a_value_in_every_state(condition: str, seed: int) -> None:
    assume(is_accepted(program(condition, TYPES)))
    chance = Random(seed)
    for _ in range(STATES):
        holds_a_value(condition, state_of(chance, VALUES))


@settings(max_examples=size(40, 350), deadline=None)
@given(conditions(), st.integers(0, 1 << 30))
def test_what_is_inferred_is_enough_once_the_boundary_enforces_it(condition: str, seed: int) -> None:
    """With nothing declared, values that the inferred types admit give every accepted condition a value."""
    checked = program(condition, {name: {} for name in TYPES})
    assume(is_accepted(checked))
    meaning = Meaning(checked)
    specs = {name: meaning.typing.effective(meaning.names.variables[name][0]) for name in TYPES}
    admitted = {
        name: [value for value in (*ANYTHING, *VALUES[name]) if spec is None or refusal(freeze(value), spec) is None]
        for name, spec in specs.items()
    }
    assume(all(admitted.values()))
    chance = Random(seed)
    for _ in range(STATES):
        holds_a_value(condition, state_of(chance, admitted))


def test_the_search_meets_both_kinds_of_condition() -> None:
    met: Counter[bool] = Counter()

    @settings(max_examples=80, deadline=None, database=None, derandomize=True)
    @given(conditions())
    def count(condition: str) -> None:
        met[is_accepted(program(condition, TYPES))] += 1

    count()
    assert min(met[True], met[False]) >= 10


def test_a_type_without_words_is_any_type() -> None:
    assert refusal(freeze([1, None]), TypeSpec()) is None


def copied(steps: list[dict[str, Any]], inputs: dict[str, Any]) -> Meaning:
    return Meaning(Program.from_dict({"name": "copies", "inputs": inputs, "steps": steps}))


def diamonds(count: int, last: str) -> list[dict[str, Any]]:
    """Copy `flag_0` under a new name on both sides of each of many conditions, then go to `last`."""
    steps: list[dict[str, Any]] = []
    for number in range(count):
        after = f"ask_{number + 1}" if number + 1 < count else last
        copy = {"type": "set", "set": {f"flag_{number + 1}": f"$flag_{number}"}, "next_step": after}
        ask = {"type": "condition", "condition": "$n > 5", "then": f"left_{number}", "otherwise": f"right_{number}"}
        steps += [{"id": f"ask_{number}", **ask}, {"id": f"left_{number}", **copy}, {"id": f"right_{number}", **copy}]
    return steps


def kinds_of(meaning: Meaning, *names: str) -> tuple[frozenset[str], tuple[object, ...] | None]:
    meant = meaning.names.meaning(names)
    assert meant is not None
    view = meaning.typing.view(meant)
    return view.kinds, view.enum


@pytest.mark.parametrize("loops", [False, True])
def test_copies_of_copies_are_followed_once_each(loops: bool) -> None:
    back = {"id": "more", "type": "condition", "condition": "$n > 7", "then": "again", "otherwise": "done"}
    again = {"id": "again", "type": "set", "set": {"flag_0": "$flag_300"}, "next_step": "ask_0"}
    steps = [*diamonds(300, "more"), {**back, "then": "again" if loops else "done"}]
    steps += [again] if loops else []
    found = copied([*steps, {"id": "done", "type": "end"}], {"n": {"type": "number"}, "flag_0": {"enum": ["a", "b"]}})
    assert kinds_of(found, "flag_300") == ({"string"}, ("a", "b"))


def test_a_name_that_is_set_to_its_own_field_has_the_values_of_every_level() -> None:
    inner = {"type": "object", "properties": {"next": {"type": "integer"}}, "required": ["next"]}
    whole = {"type": "object", "properties": {"next": inner}, "required": ["next"]}
    steps = [{"id": "down", "type": "set", "set": {"x": "$x.next"}, "next_step": "down", "max_visits": 2}]
    assert kinds_of(copied(steps, {"x": whole}), "x") == ({"object", "number"}, None)


@pytest.mark.parametrize("fields", [2, 30])
def test_a_loop_that_goes_down_one_of_several_fields_is_typed_in_bounded_work(fields: int) -> None:
    steps: list[dict[str, Any]] = []
    for number in range(fields):
        ask = {"type": "condition", "condition": f"$n == {number}", "then": f"down_{number}"}
        down = {"type": "set", "set": {"x": f"$x.f{number}"}, "next_step": "ask_0", "max_visits": 9}
        steps += [{"id": f"ask_{number}", **ask, "otherwise": f"ask_{number + 1}"}, {"id": f"down_{number}", **down}]
    steps += [{"id": f"ask_{fields}", "type": "set", "set": {"y": "$x"}, "next_step": "done"}]
    found = copied([*steps, {"id": "done", "type": "end"}], {"n": {"type": "number"}, "x": {"type": "object"}})
    assert kinds_of(found, "y") == ({"object"}, None)


def test_fields_of_fields_that_diamonds_of_copies_read_are_typed_in_bounded_work() -> None:
    steps = diamonds(60, "done")
    for step in steps:
        for name, copy in step.get("set", {}).items():
            step["set"] = {name: f"{copy}.{'p' if step['id'].startswith('left') else 'q'}"}
    found = copied([*steps, {"id": "done", "type": "end"}], {"n": {"type": "number"}, "flag_0": {"type": "object"}})
    meant = found.names.meaning(("flag_60",))
    assert meant is not None
    assert not found.typing.view(meant).is_known


def test_a_name_that_is_set_to_itself_alone_has_no_kind_of_its_own() -> None:
    steps = [
        {"id": "one", "type": "set", "set": {"a": "$b", "b": "$a"}, "next_step": "one", "max_visits": 2},
    ]
    meaning = copied(steps, {})
    meant = meaning.names.meaning(("a",))
    assert meant is not None
    assert not meaning.typing.view(meant).is_known
