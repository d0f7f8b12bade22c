"""How many outputs and errors a for_each step gives, and how it numbers its items: at most as many as its list has.

Each list with each question: a proof, or a run with as many items as the question asks for.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from machines import Bench
from stepward.validator import ProgramValidator, Verdict
from stepward.validator.findings import Property
from stepward.vm import Program, ToolError
from stepward.vm.language.lists import ListTypes

Data = dict[str, Any]
PROVED, BROKEN = Verdict.PROVED, Verdict.VIOLATED

TEXT = {"type": "string", "maxLength": 9}
LIST = {"type": "array", "items": TEXT}
SHORT = {**LIST, "maxItems": 3}
LOAD = {"id": "load", "type": "tool", "tool": "load"}
LOOK = {"id": "look", "type": "tool", "tool": "look"}
END = {"id": "end", "type": "end", "output": "$x"}
WRITTEN = ["a", "b", "c"]
ROW = {"type": "object", "properties": {"l": SHORT}, "required": ["l"]}


def each(items: Any, **more: Any) -> Data:
    """Return a for_each step of which each item asks a tool, and may fail."""
    return {"id": "each", "type": "for_each", "items": items, "as": "x", "steps": [LOOK, END], **more}


LISTS: dict[str, tuple[Data, list[Data]]] = {
    "max_items": ({"l": LIST}, [each("$l", max_items=3)]),
    "the type of an input": ({"l": SHORT}, [each("$l")]),
    "a type below max_items": ({"l": SHORT}, [each("$l", max_items=5)]),
    "a type above max_items": ({"l": {**LIST, "maxItems": 5}}, [each("$l", max_items=3)]),
    "no empty list": ({"l": {**SHORT, "minItems": 2}}, [each("$l")]),
    "the type of an output": ({}, [LOAD, each("$load.output")]),
    "a list that is written": ({}, [each(WRITTEN)]),
    "written, with max_items": ({}, [each(WRITTEN, max_items=9)]),
    "items at once": ({"l": SHORT}, [each("$l", max_concurrency=2)]),
    "one call": ({"l": SHORT}, [{**each("$l"), "steps": None, "do": LOOK}]),
    "no end": ({"l": SHORT}, [each("$l", steps=[LOOK])]),
    "tried again": ({"l": SHORT}, [each("$l", on_error="retry", max_retries=2)]),
    "a field": ({"o": ROW}, [each("$o.l")]),
    "a list of items": (
        {"rows": {"type": "array", "items": ROW, "minItems": 1, "maxItems": 1}},
        [{"id": "outer", "type": "for_each", "items": "$rows", "as": "row", "steps": [each("$row.l")]}],
    ),
}
"""Lists of up to three texts: the inputs of a program, and the steps that go through the list."""


def program(inputs: Data, steps: list[Data], condition: str, *, skips: bool) -> Program:
    """Return a program that pays where the condition holds behind the items; `skips`: items may fail."""
    ask = {"id": "ask", "type": "condition", "condition": condition, "then": "pay", "otherwise": "done"}
    pay = [{"id": "pay", "type": "tool", "tool": "pay", "is_terminal": True}, {"id": "done", "type": "end"}]
    *before, last = steps
    whole = [*before, {**last, "on_item_error": "skip"} if skips else last, ask, *pay]
    if last["id"] == "outer":
        inner = [{**step, "on_item_error": "skip" if skips else "fail"} for step in last["steps"]]
        whole = [{**last, "steps": [*inner, ask, *pay]}]
    data = {
        "name": "sizes",
        "language": 2,
        "inputs": inputs,
        "tools": {
            "load": {"effect": "read", "returns": SHORT},
            "look": {"effect": "read", "errors": ["A"]},
            "pay": {"effect": "write", "idempotent": True},
        },
        "guardrails": [{"name": "r", "never": {"tool": "pay"}}],
        "steps": whole,
    }
    return Program.from_dict(data)


def verdict_of(made: Program) -> Property:
    report = ProgramValidator(made).validate()
    assert not {one.code[:4] for one in report.findings} & {"SW00", "SW20", "SW90"}, report.findings
    return next(one for one in report.properties if one.rule == "r")


OUTPUTS = [("len($each.output) > 3", 4), ("len($each.output) > 2", 3), ("defined($each.output[3])", 4)]
ERRORS = [
    ("len($each.errors) > 3", 4),
    ("len($each.errors) > 2", 3),
    ("defined($each.errors[3])", 4),
    ("defined($each.errors[0]) and $each.errors[0].index > 2", 4),
    ("defined($each.errors[0]) and $each.errors[0].index > 1", 3),
]
"""Questions, and how many items a list needs to answer them with yes."""


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", LISTS)
@pytest.mark.parametrize(("question", "items"), [*OUTPUTS, *ERRORS])
def test_no_list_has_more_than_its_step_takes(name: str, question: str, items: int) -> None:
    inputs, steps = LISTS[name]
    found = verdict_of(program(inputs, steps, question, skips="errors" in question))
    due = PROVED if items > 3 else BROKEN
    assert (found.verdict, found.rechecked) == (due, due is PROVED), found.evidence


LEAST: dict[str, tuple[Data, list[Data], int]] = {
    "a list that is written": ({}, [each(WRITTEN)], 3),
    "written, with max_items": ({}, [each(WRITTEN, max_items=9)], 3),
    "the type of an input": ({"l": {**SHORT, "minItems": 2}}, [each("$l")], 2),
    "no type": ({"l": LIST}, [each("$l", max_items=3)], 0),
    "items at once": ({"l": {**SHORT, "minItems": 1}}, [each("$l", max_concurrency=2)], 1),
    "one call": ({"l": {**SHORT, "minItems": 3}}, [{**each("$l"), "steps": None, "do": LOOK}], 3),
    "a field": ({"o": {**ROW, "properties": {"l": {**SHORT, "minItems": 1}}}}, [each("$o.l")], 1),
    "a list of items": (
        {
            "rows": {
                "type": "array",
                "items": {**ROW, "properties": {"l": {**SHORT, "minItems": 2}}},
                "minItems": 1,
                "maxItems": 1,
            }
        },
        [{"id": "outer", "type": "for_each", "items": "$rows", "as": "row", "steps": [each("$row.l")]}],
        2,
    ),
}


@pytest.mark.parametrize("name", LEAST)
@pytest.mark.parametrize("skips", [False, True])
def test_a_list_of_outputs_has_at_least_as_many_as_its_step_gets(name: str, skips: bool) -> None:
    inputs, steps, least = LEAST[name]
    for size in range(1, 4):
        for question in (f"len($each.output) < {size}", f"not defined($each.output[{size - 1}])"):
            found = verdict_of(program(inputs, steps, question, skips=skips))
            due = PROVED if size <= least else BROKEN
            assert (found.verdict, found.rechecked) == (due, due is PROVED), (question, found.evidence)


@pytest.mark.parametrize("items", [WRITTEN, "$l"])
def test_an_item_that_a_list_has_for_certain_is_not_reported(items: Any) -> None:
    inputs = {"l": {**SHORT, "minItems": 3}} if items == "$l" else {}
    texts = {f"$each.output[{number}] == 'x'": number for number in range(4)}
    for question, number in texts.items():
        report = ProgramValidator(program(inputs, [each(items)], question, skips=False)).validate()
        found = [one.code for one in report.findings if one.code in ("SW201", "SW202")]
        assert found == ([] if number < 3 else ["SW201"]), question


@pytest.mark.parametrize("at_once", [{}, {"max_concurrency": 2}], ids=["one by one", "at once"])
@pytest.mark.parametrize(("question", "is_so"), [("$i > 2", False), ("$i > 1", True), ("$i < 0", False)])
def test_the_number_of_an_item_is_below_the_size_of_the_list(question: str, is_so: bool, at_once: Data) -> None:
    step = each("$l", index_as="i", max_items=3, **at_once)
    step["guardrails"] = [{"name": "r", "never": {"tool": "look"}, "when": question}]
    data = program({"l": LIST}, [step], "len($l) > 9", skips=False).to_data()
    data["guardrails"] = []
    found = verdict_of(Program.from_dict(data))
    assert (found.verdict, found.rechecked) == (BROKEN if is_so else PROVED, not is_so), found.evidence


def test_the_enumeration_of_short_lists_agrees() -> None:
    """The machine pays exactly where a list of up to three items, of which some fail, answers a question with yes."""
    inputs, steps = LISTS["max_items"]
    for question, items in (*OUTPUTS, *ERRORS):
        made, paid = program(inputs, steps, question, skips=True), False
        for size in range(5):
            for fails in product((False, True), repeat=min(size, 3)):
                answers: list[Any] = [ToolError("A", "no") if one else 1 for one in fails]
                run = Bench({"look": [*answers, 1], "pay": 1}).run(made, l=["a"] * size)
                paid = paid or run.reason == "guardrail"
        assert paid == (items <= 3), question


def test_a_wrong_size_of_the_engine_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    made = program(*LISTS["max_items"], "len($each.output) > 2", skips=False)
    monkeypatch.setattr(ListTypes, "most", lambda *_: 2)
    found = next(one for one in ProgramValidator(made).validate().properties if one.rule == "r")
    assert found.verdict is Verdict.UNKNOWN
    assert "second checker" in found.evidence.reason


@pytest.mark.parametrize("items", [WRITTEN, "$l"])
@pytest.mark.parametrize("read", ["$each.output[0].f", "$y.f"])
def test_the_output_of_an_item_that_failed_has_no_fields(read: str, items: Any) -> None:
    """It is null: a step that reads a field of it fails, and what should come behind does not."""
    end = {"id": "end", "type": "end", "output": {"f": "$x"}}
    first = each(items, steps=[LOOK, end], on_item_error="skip")
    reads = [{"id": "begun", "type": "set", "set": {"n": 1}}, {"id": "read", "type": "set", "set": {"f": read}}]
    steps = [*reads, {"id": "pay", "type": "tool", "tool": "pay", "on_error": "skip"}]
    data = program({"l": SHORT}, [first], "defined($each.output[0])", skips=True).to_data()
    second = {"id": "second", "type": "for_each", "items": "$each.output", "as": "y", "max_items": 3, "steps": steps}
    ask = {**data["steps"][1], "then": "begun", "otherwise": "no"}
    data["steps"] = [first, second] if read == "$y.f" else [first, ask, *steps, {"id": "no", "type": "end"}]
    data["guardrails"] = [{"name": "r", "followed_by": {"first": {"step": "begun"}, "then": {"step": "pay"}}}]
    report = ProgramValidator(Program.from_dict(data)).validate()
    (found,) = [one for one in report.properties if one.rule == "r"]
    assert "SW902" not in {one.code for one in report.findings}
    assert found.verdict is BROKEN, found.evidence


def test_lists_that_are_made_of_one_another_have_no_size() -> None:
    """A step over its own output, and two steps over those of each other: their sizes are those of `max_items`."""
    one = each("$other.output", max_items=4, max_visits=2)
    other = {**each("$each.output", max_items=5, max_visits=2), "id": "other", "as": "y", "steps": [LOOK | {"id": "m"}]}
    again = {"id": "again", "type": "condition", "condition": "$n > 0", "then": "each", "otherwise": "done"}
    data = program({"n": {"type": "integer"}}, [one], "len($each.output) > 4", skips=False).to_data()
    data["steps"] = [*data["steps"][:2], {**data["steps"][2], "is_terminal": True}, {"id": "done", "type": "end"}]
    data["steps"][1:1] = [{**other, "next_step": "again"}, {**again, "otherwise": "ask"}]
    data["steps"][0]["next_step"] = "other"
    found = next(one for one in ProgramValidator(Program.from_dict(data)).validate().properties if one.rule == "r")
    assert (found.verdict, found.rechecked) == (PROVED, True), found.evidence
