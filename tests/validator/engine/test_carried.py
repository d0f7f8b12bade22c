"""Variables that items carry on: rules about totals behind and inside of for_each steps, against every run.

The variants cross what becomes of an item that fails, tools, conditions, attempts and lists with at least one item.
Each is asked twice: with few items, which searches count, and with many, which they can't.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from brute_force import truth
from comparing import checked
from sizes import MANY
from stepward.validator import Verdict

PROVED, VIOLATED, UNKNOWN = Verdict.PROVED, Verdict.VIOLATED, Verdict.UNKNOWN
SMALL = {"type": "integer", "minimum": 0, "maximum": 2}
TOOLS: dict[str, Any] = {
    "pay": {"effect": "write", "idempotent": True},
    "count": {"effect": "read", "idempotent": True, "returns": SMALL},
}
RULES = {
    "itself": "$t > $t",
    "below": "$t < 0",
    "nothing": "$t < 1",
    "much": "$t > 3",
    "more": "$t > 4",
    "parted": "$k != $t",
    "ahead": "$k > $t",
}
"""The last two compare the total with a second one, which is set in a step of its own."""

BODIES: dict[str, list[dict[str, Any]]] = {
    "sum": [],
    "tool": [{"id": "c", "type": "tool", "tool": "count", "output_key": "y"}],
    "condition": [{"id": "if", "type": "condition", "condition": "$x > 0", "then": "a", "otherwise": "no"}],
    "failing": [{"id": "if", "type": "condition", "condition": "$x > 1", "then": "bad", "otherwise": "a"}],
}
"""The steps of an item before it adds to the total."""


def program(body: str, on_item_error: str, least: int, *, counted: bool, fails_between: bool) -> dict[str, Any]:
    """Return a program that adds items up. Between two sums an item may fail, so that one of them falls back."""
    value = "$y" if body == "tool" else "$x"
    between = {"id": "if2", "type": "condition", "condition": f"{value} > 1", "then": "bad", "otherwise": "b"}
    steps = [
        *BODIES[body],
        {"id": "a", "type": "set", "set": {"t": f"$t + {value}"}, "next_step": "if2" if fails_between else "b"},
        *([between] if fails_between else []),
        {"id": "b", "type": "set", "set": {"k": f"$k + {value}"}, "is_terminal": True},
    ]
    steps += [{"id": "no", "type": "end"}] if body == "condition" else []
    if fails_between or body == "failing":
        steps.append({"id": "bad", "type": "end", "outcome": "failure"})
    each = {"id": "each", "type": "for_each", "items": "$l", "as": "x", "carry": {"t": 0, "k": 0}, "steps": steps}
    each |= {"max_items": 2 if counted else 9, "on_item_error": on_item_error}
    return {
        "name": "t",
        "language": 2,
        "inputs": {"l": {"type": "array", "items": SMALL, "minItems": least, "maxItems": 2 if counted else 9}},
        "tools": TOOLS,
        "guardrails": [{"name": name, "never": {"tool": "pay"}, "when": when} for name, when in RULES.items()],
        "steps": [each, {"id": "p", "type": "tool", "tool": "pay", "is_terminal": True}],
    }


def judged(data: dict[str, Any]) -> dict[str, Verdict]:
    found = {one.rule: one for one in checked(data).properties if one.rule in RULES}
    assert all(one.rechecked is (one.verdict is PROVED) for one in found.values())
    return {name: found[name].verdict for name in RULES}


VARIANTS = [
    (body, on_item_error, least, fails_between)
    for body, on_item_error, least, fails_between in product(BODIES, ("skip", "fail"), (0, 1), (False, True))
    if on_item_error == "skip" or not fails_between
]


@pytest.mark.parametrize(("body", "on_item_error", "least", "fails_between"), VARIANTS if MANY else VARIANTS[::5])
def test_totals_of_few_items_are_decided(body: str, on_item_error: str, least: int, fails_between: bool) -> None:
    data = program(body, on_item_error, least, counted=True, fails_between=fails_between)
    broken = truth(data).broken
    wanted = {name: VIOLATED if broken[name] else PROVED for name in RULES}
    said = judged(data)
    assert said == wanted


@pytest.mark.parametrize("body", BODIES if MANY else list(BODIES)[:2])
def test_bounds_of_totals_of_many_items_are_decided(body: str) -> None:
    """No search can count nine items: what holds of the totals comes from their bounds, and runs from first rounds."""
    data = program(body, "skip", 1, counted=False, fails_between=True)
    few = truth(program(body, "skip", 1, counted=True, fails_between=True)).broken
    said = judged(data)
    assert {name: said[name] for name in ("itself", "below", "nothing")} == {
        "itself": PROVED,
        "below": PROVED,
        "nothing": VIOLATED,
    }
    assert all(said[name] is not PROVED for name in RULES if few[name])
    assert said["much"] is VIOLATED  # four items of 1


def test_a_total_falls_back_to_its_value_before_the_item_of_its_own_step() -> None:
    """Two steps carry one total. Every item of the outer one fails, after some of the inner one have succeeded."""
    fails = {"type": "end", "outcome": "failure"}
    inner = [
        {"id": "s", "type": "set", "set": {"t": "$t + 1"}},
        {"id": "i", "type": "condition", "condition": "$y > 1", "then": "no_y", "otherwise": "end_y"},
        {"id": "no_y", **fails},
        {"id": "end_y", "type": "end"},
    ]
    more = {"type": "for_each", "max_items": 2, "on_item_error": "skip"}
    outer = [
        {"id": "inner", "items": "$l", "as": "y", "carry": {"t": "$t"}, "steps": inner, **more},
        {"id": "j", "type": "condition", "condition": "$t > 0", "then": "no_x", "otherwise": "end_x"},
        {"id": "no_x", **fails},
        {"id": "end_x", "type": "end"},
    ]
    data = program("sum", "skip", 1, counted=True, fails_between=False)
    rules = {"some": "$t > 0", "none": "$t < 1"}
    data["guardrails"] = [{"name": name, "never": {"tool": "pay"}, "when": when} for name, when in rules.items()]
    data["steps"][0] = {"id": "each", "items": "$l", "as": "x", "carry": {"t": 0}, "steps": outer, **more}
    assert {name for name, places in truth(data).broken.items() if places} == {"none"}
    found = {one.rule: one.verdict for one in checked(data).properties if one.rule in rules}
    assert found == {"some": PROVED, "none": VIOLATED}


def test_another_attempt_begins_with_the_first_values() -> None:
    """Nothing is skipped. A tool that fails has the whole step tried again, with a total of 0."""
    data = program("sum", "fail", 1, counted=True, fails_between=False)
    each = data["steps"][0]
    each |= {"on_error": "retry", "max_retries": 2}
    each["steps"].insert(1, {"id": "c", "type": "tool", "tool": "count", "output_key": "y"})
    broken = truth(data).broken
    assert judged(data) == {name: VIOLATED if broken[name] else PROVED for name in RULES}
    assert not broken["more"]


# -- sums as arguments -----------------------------------------------------------------------------------------------

SUMS: dict[str, tuple[Any, str, Any]] = {
    "whole numbers": (0, "$t + $x", SMALL),
    "differences": (5, "$t - $x", SMALL),
    "products": (1, "$t * $x", SMALL),
    "counts": (0, "$t + len($l)", SMALL),
    "halves": (0, "$t + 0.5", SMALL),
    "half products": (1, "$x * 0.5", SMALL),
    "from a half": (0.5, "$t + $x", SMALL),
    "numbers": (0, "$t + $x", {"type": "number", "enum": [0, 0.5, 1]}),
    "fields of halves": ({"n": 0.5}, "$t.n + $x", SMALL),
}
"""The first value of a total, how an item changes it, and the type of the items."""

BROKEN = ("halves", "half products", "from a half", "numbers", "fields of halves")
"""Some run of the machine calls the tool with a number that is not whole."""


@pytest.mark.parametrize("form", SUMS)
def test_a_call_with_a_whole_sum_always_starts(form: str) -> None:
    """The tool takes whole numbers alone: a sum of others is refused, and then nothing follows the first call."""
    first, change, spec = SUMS[form]
    path, place = ("t.n", "$t.n") if isinstance(first, dict) else ("t", "$t")
    steps = [
        {"id": "c", "type": "tool", "tool": "count", "on_error": "skip"},
        {"id": "a", "type": "set", "set": {path: change}, "is_terminal": True},
    ]
    each = {"id": "each", "type": "for_each", "items": "$l", "as": "x", "carry": {"t": first}, "max_items": 2}
    book = {"id": "book", "type": "tool", "tool": "book", "args": {"total": place}, "on_error": "skip"}
    data = {
        "name": "sums",
        "language": 2,
        "inputs": {"l": {"type": "array", "items": spec, "maxItems": 2}},
        "tools": TOOLS | {"book": {"effect": "write", "idempotent": True, "args": {"total": {"type": "integer"}}}},
        "guardrails": [{"name": "booked", "followed_by": {"first": {"tool": "count"}, "then": {"tool": "book"}}}],
        "steps": [each | {"steps": steps, "on_item_error": "skip"}, book],
    }
    (said,) = [one for one in checked(data).properties if one.rule == "booked"]
    assert (said.verdict is PROVED) is (form not in BROKEN)
    assert said.rechecked is (said.verdict is PROVED)


LATER: dict[str, list[dict[str, Any]]] = {
    "itself": [{"id": "u", "type": "set", "set": {"more": "$t + 1"}}],
    "a field": [
        {"id": "b", "type": "set", "set": {"b": {"f": "$t"}}},
        {"id": "u", "type": "set", "set": {"more": "$b.f + 1"}},
    ],
    "a branch": [
        {
            "id": "both",
            "type": "parallel",
            "branches": {
                "m": {"steps": [{"id": "z", "type": "end", "output": "$t"}]},
                "k": {"steps": [{"id": "c2", "type": "tool", "tool": "count"}]},
            },
        },
        {"id": "u", "type": "set", "set": {"more": "$m.output + 1"}},
    ],
    "an item": [
        {"id": "l", "type": "set", "set": {"l": ["$t"]}},
        {
            "id": "each",
            "type": "for_each",
            "items": "$l",
            "as": "x",
            "max_items": 1,
            "steps": [{"id": "u", "type": "set", "set": {"more": "$x + 1"}}],
        },
    ],
}
"""Where a number is read that a loop has made long."""


@pytest.mark.parametrize(("reads", "where", "first"), [(1, "itself", 1), *((10, where, 960) for where in LATER)])
def test_one_more_is_too_long_where_another_step_has_made_the_number_long(reads: int, where: str, first: int) -> None:
    """After rounds that add a digit, the number has as many digits as it may have, and all are nines."""
    steps = [
        {"id": "a", "type": "set", "set": {"t": int("9" * first), "n": first}},
        {"id": "c", "type": "condition", "condition": "$n < 1000", "then": "g", "otherwise": "p"},
        {"id": "g", "type": "set", "set": {"t": " + ".join([*["$t"] * reads, "9"]), "n": "$n + 1"}, "next_step": "c"},
        {"id": "p", "type": "tool", "tool": "pay", "next_step": LATER[where][0]["id"]},
        *LATER[where],
        {"id": "q", "type": "tool", "tool": "pay"},
    ]
    rule = {"name": "r", "followed_by": {"first": {"step": "p"}, "then": {"step": "q"}}}
    data = {"name": "long", "language": 2, "tools": TOOLS, "guardrails": [rule], "steps": steps, "max_steps": 9_999}
    (said,) = [one for one in checked(data).properties if one.rule == "r"]
    assert (said.verdict is PROVED) is (reads == 1)
    assert said.verdict is not UNKNOWN
