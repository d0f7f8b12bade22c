"""`$each.errors`, what failed of the items of a for_each step: verdicts by hand, which agree with every run.

A step behind the items, in the error step, or in a second round of them asks about the list, and pays.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest

from machines import Bench
from richer_programs import richer_bodied
from stepward.validator import ProgramValidator, Verdict
from stepward.validator.findings import Property
from stepward.vm import Program, ToolError
from stepward.vm.language import lists

PROVED, BROKEN = Verdict.PROVED, Verdict.VIOLATED

SKIPPED = {"on_item_error": "skip"}
CAUGHT = {"error_step": "sorry"}
AT_ONCE = {"max_concurrency": 2}
WRITTEN = {"items": ["one", "two"]}
TRIED_AGAIN = {"on_error": "retry", "max_retries": 2, "error_step": "sorry"}
FAILS_BEFORE = {"items": "$none", "error_step": "sorry"}

DEFINED, UNDEFINED = "defined($each.errors)", "not defined($each.errors)"
NONE, SOME = "len($each.errors) == 0", "len($each.errors) > 0"
A, INDEX, BELOW = "$each.errors[0].error_name == 'A'", "$each.errors[0].index == 1", "$each.errors[0].index < 0"
LACKS = "defined($each.errors[0]) and not defined($each.errors[0].error)"

CASES: list[tuple[dict[str, Any], str, str, Verdict]] = [
    # Behind items of which each has to succeed, none has failed.
    ({}, "behind", DEFINED, BROKEN),
    ({}, "behind", UNDEFINED, PROVED),
    ({}, "behind", NONE, BROKEN),
    ({}, "behind", SOME, PROVED),
    ({}, "behind", f"defined($each.errors[0]) and {A}", PROVED),
    (AT_ONCE, "behind", UNDEFINED, PROVED),
    (AT_ONCE, "behind", SOME, PROVED),
    # Behind items that may be skipped, any may have failed.
    (SKIPPED, "behind", DEFINED, BROKEN),
    (SKIPPED, "behind", UNDEFINED, PROVED),
    (SKIPPED, "behind", NONE, BROKEN),
    (SKIPPED, "behind", f"defined($each.errors[0]) and {BELOW}", PROVED),
    (SKIPPED, "behind", LACKS, PROVED),
    (SKIPPED | AT_ONCE, "behind", UNDEFINED, PROVED),
    # To show that some has, a witness makes items fail.
    (SKIPPED, "behind", SOME, BROKEN),
    (SKIPPED, "behind", f"defined($each.errors[0]) and {A}", BROKEN),
    (SKIPPED, "behind", f"defined($each.errors[0]) and {INDEX}", BROKEN),
    (SKIPPED | AT_ONCE, "behind", f"defined($each.errors[0]) and {INDEX}", BROKEN),
    (SKIPPED | WRITTEN, "behind", "len($each.errors) == 1", BROKEN),
    (SKIPPED | WRITTEN, "behind", "len($each.errors) > 1", BROKEN),
    (SKIPPED | WRITTEN, "behind", "len($each.errors) > 2", PROVED),
    # In the error step, the list is there if an item has failed, and not if none began.
    (CAUGHT, "sorry", UNDEFINED, PROVED),
    (CAUGHT, "sorry", f"defined($each.errors) and {SOME}", BROKEN),
    (CAUGHT, "sorry", f"defined($each.errors) and {INDEX}", BROKEN),
    (CAUGHT, "sorry", f"defined($each.errors) and {A}", BROKEN),
    (TRIED_AGAIN, "sorry", UNDEFINED, PROVED),
    (FAILS_BEFORE, "sorry", DEFINED, PROVED),
    (FAILS_BEFORE, "sorry", UNDEFINED, BROKEN),
    # In another round, a body reads the list of the round before.
    ({"max_visits": 2}, "inside", f"defined($each.errors) and {SOME}", PROVED),
    (SKIPPED | {"max_visits": 2}, "inside", f"defined($each.errors) and {SOME}", BROKEN),
]


def program(way: dict[str, Any], place: str, condition: str) -> Program:
    """Return a program that pays where the condition about the errors of items holds at a place."""
    ask = {"id": "ask", "type": "condition", "condition": condition, "then": "act", "otherwise": "rest"}
    act = [{"id": "act", "type": "tool", "tool": "pay", "next_step": "rest"}, {"id": "rest", "type": "end"}]
    look = {"id": "look", "type": "tool", "tool": "look"}
    each = {"id": "each", "type": "for_each", "items": "$l", "as": "x", "max_items": 2, "steps": [look], **way}
    behind = [{"id": "last", "type": "end"}]
    if place == "inside":
        each["steps"] = [look, ask, *act]
        behind = [
            {"id": "more", "type": "condition", "condition": "$n > 0", "then": "back", "otherwise": "last"},
            {"id": "back", "type": "set", "set": {"rounds": 1}, "next_step": "each"},
            *behind,
        ]
    elif place == "behind":
        behind = [ask, *act]
    sorry = [ask, *act] if place == "sorry" else [{"id": "late", "type": "end"}]
    data = {
        "name": "errors",
        "language": 2,
        "inputs": {"l": {"type": "array", "maxItems": 2}, "n": {"type": "integer"}},
        "tools": {"look": {"effect": "read", "errors": ["A", "B"]}, "pay": {"effect": "write", "idempotent": True}},
        "guardrails": [{"name": "r", "never": {"tool": "pay"}}],
        "steps": [each, *behind, {"id": "sorry", "type": "set", "set": {}, "next_step": sorry[0]["id"]}, *sorry],
    }
    if "$none" in each["items"]:  # it has no value where the step that would give one is skipped
        get = {"id": "get", "type": "tool", "tool": "look", "output_key": "none", "on_error": "skip"}
        known = {"id": "known", "type": "condition", "condition": "defined($none)", "then": "last", "otherwise": "each"}
        data["steps"] = [get, known, *data["steps"]]
    return Program.from_dict(data)


def is_broken(made: Program) -> bool:
    """Return whether some run pays: with up to two items, in two rounds, and each outcome of the first three calls."""
    return any(_runs(made))


def _runs(made: Program) -> Iterator[bool]:
    for count in range(3):
        for fails in product((False, True), repeat=3):
            answers: list[Any] = [ToolError("A", "no") if one else 1 for one in fails]
            run = Bench({"look": [*answers, 1], "pay": 1}).run(made, l=list(range(count)), n=1)
            yield run.reason == "guardrail"


def verdict_of(made: Program) -> Property:
    report = ProgramValidator(made).validate()
    assert not {one.code[:4] for one in report.findings} & {"SW00", "SW90"}, report.findings
    return next(one for one in report.properties if one.rule == "r")


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("way", "place", "condition", "due"), CASES)
def test_the_errors_of_items_are_decided(way: dict[str, Any], place: str, condition: str, due: Verdict) -> None:
    made = program(way, place, condition)
    found = verdict_of(made)
    assert found.verdict is due, found.evidence
    assert found.rechecked == (due is PROVED)
    assert is_broken(made) == (due is BROKEN)


LOOK: dict[str, Any] = {"id": "look", "type": "tool", "tool": "look"}
GOOD: dict[str, Any] = {"id": "good", "type": "end"}
BAD: dict[str, Any] = {"id": "bad", "type": "end", "outcome": "failure"}
ASKS = {"id": "c", "type": "condition", "then": "good", "otherwise": "bad"}
CATCHES = [{"errors": ["A"], "then": "bad"}, {"errors": ["any"], "then": "good"}]
BODIES: dict[str, list[dict[str, Any]]] = {
    "a call": [LOOK],
    "two calls": [LOOK, LOOK | {"id": "more"}],
    "an end, by the item": [ASKS | {"condition": "$x == 'a'"}, GOOD, BAD],
    "an end, by a call": [LOOK | {"on_error": "skip"}, ASKS | {"condition": "defined($look.output)"}, GOOD, BAD],
    "no branch": [{"id": "c", "type": "condition", "condition": "$x == 'a'", "then": "good"}, GOOD],
    "an error that is caught": [LOOK | {"catch": CATCHES, "next_step": "good"}, GOOD, BAD],
    "calls at once": [{"id": "par", "type": "parallel", "parallel_steps": [LOOK, LOOK | {"id": "more"}]}],
    "branches": [{"id": "par", "type": "parallel", "branches": {"m": {"steps": [LOOK]}}}],
    "an inner list": [{"id": "inner", "type": "for_each", "items": ["u"], "as": "y", "max_items": 2, "do": LOOK}],
    "visits": [LOOK | {"max_visits": 1, "next_step": "look"}],
}
"""Bodies, by what makes an item of them fail."""
NAMES_OF = {"an end, by the item": "Declared", "an end, by a call": "Declared", "an error that is caught": "Declared"}
NAMES_OF |= {"no branch": "Uncovered", "visits": "Visits"}
"""The errors of their items; other bodies end with those of a tool."""


@pytest.mark.one_in(3)
@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize(
    "way", [SKIPPED, SKIPPED | AT_ONCE, SKIPPED | WRITTEN], ids=["one by one", "at once", "written"]
)
def test_a_witness_makes_items_fail_in_each_way(body: str, way: dict[str, Any]) -> None:
    named = NAMES_OF.get(body, "B")
    asked = [SOME, "len($each.errors) > 1", f"defined($each.errors[0]) and $each.errors[0].error_name == '{named}'"]
    for condition in asked:
        data = program(way, "behind", condition).to_data()
        data["steps"][0]["steps"] = BODIES[body]
        data["inputs"]["l"]["items"] = {"type": "string"}
        found = verdict_of(Program.from_dict(data))
        assert found.verdict is BROKEN, (condition, found.evidence)
        assert found.evidence.witness is not None


OF_CALLS = ("B", "A", "Unexpected", "BadOutput", "Undefined", "BadValue", "BadArguments", "Refused")
ITEM_NAMES = {
    "an end, by the item": ("Declared", "Undefined", "BadValue", "BadOutput", "Uncovered"),
    "an end, by a call": ("Declared", "Undefined", "BadValue", "BadOutput", "Uncovered"),
    "no branch": ("Uncovered", "Undefined", "BadValue", "BadOutput"),
    "an error that is caught": ("Declared", "Undefined", "BadValue", "BadOutput"),
    "branches": (*OF_CALLS, "Dependency"),
    "an inner list": (*OF_CALLS, "TooManyItems"),
    "visits": (*OF_CALLS, "Visits"),
}
"""The names with which an item of a body can fail; other bodies end with those of calls."""


@pytest.mark.one_in(3)
@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("way", [SKIPPED, SKIPPED | AT_ONCE], ids=["one by one", "at once"])
def test_an_item_fails_with_a_name_of_its_body(body: str, way: dict[str, Any]) -> None:
    names = ITEM_NAMES.get(body, OF_CALLS)
    for asked, due in ((names, PROVED), (names[1:], BROKEN)):
        condition = f"defined($each.errors[0]) and $each.errors[0].error_name not in {[*asked]}"
        data = program(way, "behind", condition).to_data()
        data["steps"][0]["steps"] = BODIES[body]
        data["inputs"]["l"]["items"] = {"type": "string"}
        found = verdict_of(Program.from_dict(data))
        assert (found.verdict, found.rechecked) == (due, due is PROVED), (asked, found.evidence)


def test_a_name_that_no_item_has_is_reported() -> None:
    """Behind it is what never happens, whatever else the condition asks."""
    condition = "defined($each.errors[0]) and $each.errors[0].error_name == 'Misspelt'"
    report = ProgramValidator(program(SKIPPED, "behind", condition)).validate()
    (found,) = [one for one in report.findings if one.code == "SW205"]
    assert "`$each.errors[0].error_name`" in found.message
    assert {one.rule: (one.verdict, one.rechecked) for one in report.properties}["r"] == (PROVED, True)


def test_a_wrong_name_of_the_engine_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    real = lists.names_of_items
    monkeypatch.setattr(lists, "names_of_items", lambda *asked: tuple(one for one in real(*asked) if one != "A"))
    report = ProgramValidator(program(SKIPPED, "behind", f"defined($each.errors[0]) and {A}")).validate()
    assert "SW902" in {one.code for one in report.findings}
    assert {one.rule: one.verdict for one in report.properties}["r"] is Verdict.UNKNOWN


@pytest.mark.parametrize("seed", [501_000, 501_079])
def test_runs_with_other_items_take_no_run_from_other_rules(seed: int) -> None:
    """They have an allowance of their own: a rule that asks for errors that no item has needs many of them."""
    found = ProgramValidator(Program.from_dict(richer_bodied(seed))).validate().properties
    assert not [one for one in found if "no more are made" in one.evidence.reason]


@pytest.mark.parametrize("read", ["$errors", "$inner.errors"])
def test_a_variable_of_a_body_named_errors_is_undefined_when_the_next_item_begins(read: str) -> None:
    """A variable of that name, and the errors of the items of an inner for_each step."""
    look = {"id": "look", "type": "tool", "tool": "look"}
    inner = {"id": "inner", "type": "for_each", "items": "$l", "as": "y", "max_items": 2, "steps": [look], **SKIPPED}
    leaves = inner if read == "$inner.errors" else {"id": "put", "type": "set", "set": {"errors": 1}}

    def made(*body: dict[str, Any]) -> Program:
        data = program({}, "behind", "$n > 0").to_data()
        data["steps"] = [{**data["steps"][0], "id": "outer", "as": "x", "steps": [*body]}]
        return Program.from_dict(data)

    pay = {"id": "act", "type": "tool", "tool": "pay", "next_step": "goes"}
    ask = {"id": "ask", "type": "condition", "condition": f"defined({read})", "then": "act", "otherwise": "goes"}
    first = verdict_of(made(ask, pay, {"id": "goes", "type": "set", "set": {}, "next_step": leaves["id"]}, leaves))
    assert (first.verdict, first.rechecked) == (PROVED, True)
    behind = verdict_of(made(leaves, ask, pay, {"id": "goes", "type": "set", "set": {}}))
    assert behind.verdict is BROKEN


def test_a_rule_may_ask_for_the_errors_of_items() -> None:
    data = program(SKIPPED, "behind", "$n > 0").to_data()
    for when, due in ((UNDEFINED, PROVED), (LACKS, PROVED), (NONE, BROKEN)):
        data["guardrails"] = [{"name": "r", "never": {"tool": "pay"}, "when": when}]
        found = verdict_of(Program.from_dict(data))
        assert (found.verdict, found.rechecked) == (due, due is PROVED), when
