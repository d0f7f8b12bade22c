"""Fast: the shortest path to an ending goes through as many items as lists have at least; SW601 says so (table)."""

from __future__ import annotations

from typing import Any

import pytest

from machines import ask, assign, check, end, tool
from machines import program as bench_program
from stepward.validator import ProgramValidator
from stepward.validator.analysis.bounds import ShortestPath
from stepward.vm import ExecutionVM

Data = dict[str, Any]


def shortest(*steps: Data, **more: Any) -> ShortestPath | None:
    return ProgramValidator(bench_program(*steps, **more))._context.analyses.bounds.shortest


def each(items: Any, *steps: Data, **more: Any) -> Data:
    body = {"steps": list(steps)} if "do" not in more else {}
    return {"id": "each", "type": "for_each", "items": items, "as": "x", "max_items": 9, **body, **more}


def inner(items: Any, *steps: Data, **more: Any) -> Data:
    return each(items, *steps, **more) | {"id": "inner", "as": "y"}


def beside(*steps: Data) -> Data:
    branches = {"one": {"steps": list(steps)}, "two": {"steps": [tool("t")]}}
    return {"id": "both", "type": "parallel", "branches": branches}


SHORT = {"type": "array", "minItems": 2, "maxItems": 9, "items": {"type": "number"}}
TWICE = (tool("a"), assign("b", x1=1))
SHORTEST: dict[str, tuple[list[Data], int]] = {
    "a written list": ([each([1, 2, 3], *TWICE)], 7),
    "a list of a type": ([each("$list", *TWICE)], 5),
    "a copy of it": ([assign("s", l="$list"), each("$l", *TWICE)], 6),
    "a list that may be empty": ([each("$open", *TWICE)], 1),
    "do": ([each([1, 2, 3], do=tool("a"))], 4),
    "items in items": ([each([1, 2, 3], inner("$list", *TWICE))], 16),
    "a list of outputs": ([each([1, 2, 3], tool("a")), inner("$each.output", tool("b"))], 8),
    "items at once": ([each([1, 2, 3], *TWICE, max_concurrency=2)], 7),
    "items in a branch": ([beside(each([1, 2], *TWICE))], 7),
    "branches": ([beside(*TWICE), tool("z"), end("e")], 6),
    "branches in a branch": ([beside({"id": "again", "type": "parallel", "branches": {"in": {"steps": [*TWICE]}}})], 5),
    "a branch in items": ([each([1, 2], beside(tool("a")))], 7),
    "items in a called program": ([{"id": "c", "type": "call", "program": "sub"}], 6),
    "a called program in items": ([each([1, 2], {"id": "c", "type": "call", "program": "sub"})], 13),
    "a way out of an item": ([each([1, 2], check("a", "$x > 0", "e", "t"), tool("t", next_step="e"), end("e"))], 5),
    "steps behind": ([each([1, 2, 3], *TWICE), tool("z"), end("e")], 9),
    "a loop around": (
        [each([1, 2], tool("a"), next_step="ask"), check("ask", "1 == 1", "e", "each"), end("e")],
        5,
    ),
}


@pytest.mark.parametrize("name", SHORTEST)
def test_the_shortest_path_goes_through_each_item(name: str) -> None:
    """The machine ends with so many steps, and not with one step less."""
    steps, fewest = SHORTEST[name]
    inputs = {"list": SHORT, "open": SHORT | {"minItems": 0}}
    programs = {"sub": {"tools": {"read": {"effect": "read"}}, "steps": [each([1, 2], *TWICE)]}}
    data = {"language": 2, "inputs": inputs, "programs": programs}
    found = shortest(*steps, **data)
    assert found is not None
    assert found.steps == fewest
    for most, status in ((fewest, "SUCCESS"), (fewest - 1, "BUDGET_EXCEEDED")):
        if most:
            program = bench_program(*steps, **data, max_steps=most)
            run = ExecutionVM({"read": lambda: 1}, checker=None).run_sync(program, {"list": [1, 2], "open": []})
            assert run.status == status
            codes = {one.code for one in ProgramValidator(program, recheck=False).validate().findings}
            assert ("SW601" in codes) is (most < fewest)


def test_an_item_that_fails_leads_away_from_the_others() -> None:
    lost = end("no", outcome="failure")
    failing = [end("f", outcome="failure")]
    all_fail = each([1, 2, 3], *failing, next_step="yes", catch=[{"errors": ["Declared"], "then": "no"}])
    skipped = each([1, 2, 3], *failing, on_item_error="skip")
    # A step with a list may fail before its items, and no edge says of which error.
    for steps, fewest in (([all_fail, end("yes"), lost], 2), ([skipped], 4), ([each([1, 2], *failing)], None)):
        found = shortest(*steps, language=2)
        assert (found and found.steps) == fewest


def test_the_calls_of_all_items_are_on_the_shortest_path() -> None:
    found = shortest(each([1, 2, 3], tool("a"), ask("b"), inner([1, 2], tool("c", "write"))), language=2)
    assert found is not None
    assert (found.steps, found.model_calls, found.tools) == (16, 3, {"read": 3, "write": 6})
