"""Rules that follow values: each of them through each way into a body and out of it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any, NamedTuple

import pytest

from stepward.validator import ProgramValidator
from stepward.vm import Program

Steps = list[dict[str, Any]]
TEXT = {"type": "string"}
OTHER = {"id": "b_end", "type": "end", "output": "one"}


class Way(NamedTuple):
    """A way of a value: the steps that take it there, around those that read it (`inside`) or before them.

    `reads` refers to the value behind the way, `beside` to another one that took it, too.
    """

    steps: Callable[[str, Steps], Steps]
    reads: str
    beside: str = ""
    is_inside: bool = False


def each(items: Any, body: Steps, **more: Any) -> Steps:
    return [{"id": "each", "type": "for_each", "items": items, "as": "x", "max_items": 3, "steps": body, **more}]


def ending(value: Any) -> Steps:
    return [{"id": "e", "type": "end", "output": value}]


def branches(value: Any, **more: Any) -> Steps:
    bodies = {"a": {"steps": ending(value)}, "b": {"steps": [OTHER]}}
    return [{"id": "par", "type": "parallel", "branches": bodies, "output_key": "o", **more}]


def call(value: str, program: str = "same") -> Steps:
    return [{"id": "c", "type": "call", "program": program, "args": {"t": value}, "output_key": "o"}]


def pair(value: str) -> dict[str, Any]:
    return {"k": value, "n": "one"}


WAYS: dict[str, Way] = {
    "an item": Way(lambda value, then: each([value], then), "$x", is_inside=True),
    "a field of an item": Way(lambda value, then: each([pair(value)], then), "$x.k", "$x.n", is_inside=True),
    "an item in a longer text": Way(lambda value, then: each([f"a {value}"], then), "$x", is_inside=True),
    "the first value of a carried variable": Way(
        lambda value, then: each([1], then, carry={"l": value}), "$l", is_inside=True
    ),
    "a carried variable": Way(
        lambda value, then: [
            *each([value], [{"id": "s", "type": "set", "set": {"l": "$x"}}], carry={"l": "''"}),
            *then,
        ],
        "$l",
    ),
    "the outputs of items": Way(lambda value, then: [*each([1], ending(value), output_key="ys"), *then], "$ys"),
    "the output of an item": Way(
        lambda value, then: [
            *each([1], ending(pair(value)), output_key="ys"),
            {"id": "s", "type": "set", "set": {"y": "$ys[0].k", "z": "$ys[0].n"}},
            *then,
        ],
        "$y",
        "$z",
    ),
    "an item of the outputs of items": Way(
        lambda value, then: [
            *each([1], ending(pair(value)), output_key="ys"),
            {"id": "again", "type": "for_each", "items": "$ys", "as": "y", "max_items": 3, "steps": then},
        ],
        "$y.k",
        "$y.n",
        is_inside=True,
    ),
    "the output of a branch": Way(lambda value, then: [*branches(pair(value)), *then], "$a.output.k", "$a.output.n"),
    "what branches give together": Way(lambda value, then: [*branches(value), *then], "$o"),
    "a field of what branches give": Way(lambda value, then: [*branches(value), *then], "$o.a", "$o.b"),
    "the output of a call": Way(lambda value, then: [*call(value), *then], "$o"),
    "a field of the output of a call": Way(lambda value, then: [*call(value, "paired"), *then], "$o.k", "$o.n"),
    "a call in a branch": Way(
        lambda value, then: [
            {
                "id": "par",
                "type": "parallel",
                "branches": {
                    "a": {"steps": [*call(value), {"id": "e", "type": "end", "output": "$o"}]},
                    "b": {"steps": [OTHER]},
                },
            },
            *then,
        ],
        "$a.output",
    ),
}

PROGRAMS = {
    "same": {"inputs": {"t": {}}, "steps": ending("$t")},
    "paired": {"inputs": {"t": {}}, "steps": ending({"k": "$t", "n": "one"})},
}
ENDS = [{"id": "good", "type": "end"}, {"id": "bad", "type": "end"}]


class Follows(NamedTuple):
    """A rule that follows values: where they come from, and the steps at which it finds them."""

    comes_from: str
    readers: Callable[[str], Steps]
    words: str
    only_outside: bool = False
    is_of_kinds: bool = False


RULES = {
    "SW203": Follows("$secret", lambda read: [{"id": "w", "type": "wait", "until": read}], "wait"),
    "SW208": Follows("$secret", lambda read: [{"id": "q", "type": "llm", "prompt": f"hi {read}"}], "sensitive"),
    "SW209": Follows(
        "$draft.output", lambda read: [{"id": "z", "type": "tool", "tool": "send", "args": {"t": read}}], "free text"
    ),
    "SW107": Follows(
        "$draft.output",
        lambda read: [
            {"id": "is", "type": "condition", "condition": f"{read} == 'yes'", "then": "good", "otherwise": "bad"}
        ],
        "a model's reply",
        only_outside=True,
    ),
    "SW207": Follows(
        "$count",
        lambda read: [{"id": "z", "type": "tool", "tool": "show", "args": {"text": read}}],
        "the argument `text` must be text",
        is_of_kinds=True,
    ),
}


def found(rule: str, steps: Callable[[str, Steps], Steps], read: str) -> list[str]:
    """Return what a rule says where `read` is read behind some steps."""
    follows = RULES[rule]
    first = {"id": "draft", "type": "llm", "prompt": "hi"}
    program = {
        "name": "passing",
        "language": 2,
        "inputs": {"secret": {"type": "string", "sensitive": True}, "count": {"type": "number"}},
        "tools": {
            "send": {"effect": "write", "idempotent": True, "args": {"t": {}}},
            "show": {"effect": "read", "args": {"text": TEXT}},
        },
        "programs": PROGRAMS,
        "steps": [first, *steps(follows.comes_from, follows.readers(read)), *ENDS],
    }
    report = ProgramValidator(Program.from_dict(program), recheck=False).validate()
    return [one.message for one in report.findings if one.code == rule and follows.words in one.message]


def is_asked(rule: str, name: str) -> bool:
    """Return whether a rule finds a value behind a way: no step inside ends a run; a longer text is text."""
    follows = RULES[rule]
    is_right = follows.is_of_kinds and name == "an item in a longer text"
    return not (follows.only_outside and WAYS[name].is_inside) and not is_right


CASES = [case for case in product(RULES, WAYS) if is_asked(*case)]


@pytest.mark.parametrize(("rule", "name"), CASES)
def test_a_rule_follows_a_value_through_a_body(rule: str, name: str) -> None:
    way = WAYS[name]
    assert found(rule, way.steps, way.reads)


@pytest.mark.parametrize(("rule", "name"), [case for case in CASES if WAYS[case[1]].beside])
def test_what_is_beside_the_value_is_not_reported(rule: str, name: str) -> None:
    way = WAYS[name]
    assert not found(rule, way.steps, way.beside)


ASK: Steps = [{"id": "is", "type": "condition", "condition": "$count > 5", "then": "e", "otherwise": "no"}]
ENDINGS = {
    "no output": [{"id": "no", "type": "set", "set": {"u": 1}, "is_terminal": True}],
    "null": [{"id": "no", "type": "end"}],
}


@pytest.mark.parametrize("way", ENDINGS)
@pytest.mark.parametrize("is_tested", [False, True])
def test_an_argument_may_be_the_null_of_an_item(way: str, is_tested: bool) -> None:
    def steps(value: str, then: Steps) -> Steps:
        ask = {"id": "has", "type": "condition", "condition": "$y != null", "then": "z", "otherwise": "none"}
        read = [ask, *then] if is_tested else then
        again = {"id": "again", "type": "for_each", "items": "$ys", "as": "y", "max_items": 3}
        body = [*ASK, *ending("text"), *ENDINGS[way]]
        return [*each([1], body, output_key="ys"), again | {"steps": [*read, {"id": "none", "type": "end"}]}]

    assert bool(found("SW207", steps, "$y")) is not is_tested


def test_a_condition_on_an_item_is_one_on_what_the_list_gives() -> None:
    check = [{"id": "is", "type": "condition", "condition": "len($x) <= 9", "then": "e", "otherwise": "no"}]
    no = [{"id": "no", "type": "end", "outcome": "failure"}]

    def steps(value: str, then: Steps) -> Steps:
        return [*each([value], [*check, *ending("$x"), *no], output_key="ys"), *then]

    assert not found("SW209", steps, "$ys")


def test_a_list_whose_items_are_the_outputs_of_its_own_step_ends() -> None:
    def steps(value: str, then: Steps) -> Steps:
        return [*each("$each.output", ending({"k": "$x.k"}), next_step="each"), *then]

    assert found("SW208", steps, "$each.output") == []
