"""Values that are written in a program: what is said of a rule over them is what the machine does with them.

Every list of `LISTS` is written at every place of `PLACES`, and each program pays what it reads of it. The machine says
what is paid; a proof that it refutes, a violation that it does not know, and a field that "never exists" are mistakes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from machines import Bench
from stepward.validator import ProgramValidator, Verdict
from stepward.vm import Program

Data = dict[str, Any]

LISTS: dict[str, tuple[list[Any], str]] = {
    "numbers": ([5, 500], ""),
    "objects": ([{"n": 5}, {"n": 500}], ".n"),
    "a field that one lacks": ([{"n": 5}, {"m": 500}], ".n"),
    "objects in objects": ([{"o": {"n": 5}}, {"o": {"n": 500}}], ".o.n"),
    "lists": ([[5, 1], [500, 2]], "[0]"),
    "a list that is too short": ([[5, 1], [500]], "[1]"),
    "lists in objects": ([{"l": [1, {"n": 5}]}, {"l": [2, {"n": 500}]}], ".l[1].n"),
    "objects in lists": ([[{"n": 5}], [{"n": 500}]], "[0].n"),
    "null among them": ([{"n": 5}, {"n": None}, None], ".n"),
    "kinds that differ": ([{"n": 500}, {"n": "many"}], ".n"),
    "a reference": (["$five", 500], ""),
    "references in fields": ([{"n": "$five"}, {"n": "$_row.n"}], ".n"),
    "objects that are read": (["$_row", {"n": 5}], ".n"),
    "a text": ([{"n": "$five items"}, {"n": "$$5"}], ".n"),
    "nothing": ([], ".n"),
}
"""Lists, each with what is read of an item."""

START: list[Data] = [
    {"id": "begin", "type": "tool", "tool": "load", "output_key": "_row"},
    {"id": "make_five", "type": "set", "set": {"five": "2 + 3"}},
]


def pay(value: str, **more: Any) -> list[Data]:
    """Return the steps that pay a value. An argument can't read an item by its index: it is a template."""
    call = {"id": "pay", "type": "tool", "tool": "pay", "on_error": "skip"}
    if "[" not in value:
        return [{**call, "args": {"v": value}}]
    return [{"id": "take", "type": "set", "set": {"taken": value}, **more}, {**call, "args": {"v": "$taken"}}]


def each(items: Any, body: list[Data], name: str = "i", **more: Any) -> Data:
    return {"id": f"each_{name}", "type": "for_each", "items": items, "as": name, "steps": body, "max_items": 9, **more}


def ends(name: str, **more: Any) -> Data:
    return {"id": name, "type": "end", **more}


def _set(name: str, value: Any) -> Data:
    return {"id": f"set_{name}", "type": "set", "set": {name: value}}


def _beside(steps: list[Data]) -> Data:
    return {
        "id": "both",
        "type": "parallel",
        "branches": {"one": {"steps": [*steps, ends("end_one")]}, "two": {"steps": [ends("end_two")]}},
    }


PLACES: dict[str, Callable[[list[Any], str], list[Data]]] = {
    "items": lambda items, path: [each(items, pay(f"$i{path}"))],
    "do": lambda items, path: [
        {"id": "each", "type": "for_each", "items": items, "as": "i", "max_items": 9, "do": pay(f"$i{path}")[-1]}
    ],
    "at once": lambda items, path: [each(items, pay(f"$i{path}"), max_concurrency=2)],
    "skipped": lambda items, path: [each(items, pay(f"$i{path}"), on_item_error="skip")],
    "a list around": lambda items, path: [each([items], [each("$i", pay(f"$j{path}"), "j")])],
    "an object around": lambda items, path: [each([{"l": items}], [each("$i.l", pay(f"$j{path}"), "j")])],
    "in branches": lambda items, path: [_beside([each(items, pay(f"$i{path}"))])],
    "a set before": lambda items, path: [_set("list", items), each("$list", pay(f"$i{path}"))],
    "a set in the body": lambda items, path: [each(items, [_set("one", "$i"), *pay(f"$one{path}")])],
    "a set around": lambda items, path: [_set("all", {"l": items}), each("$all.l", pay(f"$i{path}"))],
    "a set of an item": lambda items, path: [_set("list", items), *pay(f"$list[1]{path}")],
    "carried on": lambda items, path: [
        {**each(items, [*pay("$last"), _set("last", f"$i{path}")]), "carry": {"last": 7}},
    ],
    "an output": lambda items, path: [
        {**each(items, [ends("end_i", output={"x": "$i"})]), "output_key": "out"},
        each("$out", pay(f"$j.x{path}"), "j"),
    ],
    "an output of branches": lambda items, path: [
        {
            "id": "both",
            "type": "parallel",
            "branches": {"one": {"steps": [ends("end_one", output={"l": items})]}, "two": {"steps": [ends("end_two")]}},
        },
        each("$both.output.one.l", pay(f"$i{path}")),
    ],
    "tested": lambda items, path: [
        each(
            items,
            [
                {
                    "id": "there",
                    "type": "condition",
                    "condition": f"defined($i{path})",
                    "then": pay(f"$i{path}")[0]["id"],
                    "otherwise": "end_i",
                },
                *pay(f"$i{path}", next_step="pay"),
                ends("end_i"),
            ],
        )
    ],
}


LIMITS = (5, 500, 6)


def program(steps: list[Data], *limits: int) -> Program:
    """Return a program with a rule for each limit: that it is not paid."""
    row = {"type": "object", "properties": {"n": {"const": 500}}, "required": ["n"]}
    data = {
        "language": 2,
        "name": "written",
        "inputs": {},
        "tools": {"load": {"effect": "read", "returns": row}, "pay": {"effect": "write", "idempotent": True}},
        "guardrails": [{"name": str(one), "never": {"tool": "pay"}, "when": f"$args.v == {one}"} for one in limits],
        "steps": [*START, *steps, ends("done")],
    }
    return Program.from_dict(data)


def paid(steps: list[Data], *limits: int) -> list[Any]:
    """Return what the machine pays in the only run of a program."""
    found: list[Any] = []
    Bench({"load": lambda **_: {"n": 500}, "pay": lambda v, **_: found.append(v)}).run(program(steps, *limits))
    return found


CASES = [
    *((written, place) for written in LISTS for place in ("items", "a set of an item", "tested")),
    *((written, place) for place in PLACES for written in ("objects in objects", "references in fields")),
]


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("written", "place"), dict.fromkeys(CASES))
def test_verdicts_on_written_values_are_right(written: str, place: str) -> None:
    steps = PLACES[place](*LISTS[written])
    all_paid = paid(steps)
    report = ProgramValidator(program(steps, *LIMITS)).validate()
    verdicts = {one.rule: one.verdict for one in report.properties}
    for limit in LIMITS:
        is_broken = len(paid(steps, limit)) < len(all_paid)
        assert verdicts[str(limit)] is not (Verdict.PROVED if is_broken else Verdict.VIOLATED)
    assert not [one for one in report.findings if one.code.startswith("SW9")]
    never = [one.message for one in report.findings if "never exists" in one.message]
    assert not (all_paid and never), never


@pytest.mark.parametrize("place", ["items", "do", "at once", "skipped", "a set in the body", "in branches"])
def test_what_no_written_item_has_is_proved(place: str) -> None:
    steps = PLACES[place](*LISTS["objects in objects"])
    report = ProgramValidator(program(steps, 6)).validate()
    assert [(one.verdict, one.rechecked) for one in report.properties if one.rule == "6"] == [(Verdict.PROVED, True)]
    assert not report.findings


def test_a_field_that_no_written_item_has_never_exists() -> None:
    report = ProgramValidator(program(PLACES["items"]([{"n": 5}, {"n": 6}], ".m"))).validate()
    assert [one.code for one in report.findings] == ["SW201"]
