"""When a for_each step surely begins: right proofs that the second checker once refused, and false ones that it must.

A payment is owed a step behind the items. If the items can't be computed, the step fails before them, and nothing
follows.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from brute_force import truth
from stepward.validator import ProgramValidator, Verdict
from stepward.validator.analysis.transition_choices import TransitionChoices
from stepward.validator.findings import Property
from stepward.vm import Program

TOOLS: dict[str, Any] = {
    "pay": {"effect": "write", "idempotent": True},
    "look": {"effect": "read", "returns": {"type": "boolean"}},
}
INPUTS: dict[str, Any] = {
    "ok": {"type": "boolean"},
    "l": {"type": "array", "maxItems": 2, "items": {"type": "boolean"}},
}
LOOK: dict[str, Any] = {"id": "k", "type": "tool", "tool": "look", "on_error": "skip"}
BODIES: dict[str, list[dict[str, Any]]] = {
    "a call": [LOOK],
    "an inner list": [{"id": "in", "type": "for_each", "items": ["$x"], "as": "y", "max_items": 1, "do": LOOK}],
}
ITEMS: tuple[Any, ...] = (
    "$l",
    [],
    [True],
    ["$ok"],
    ["$ok", "$ok"],
    ["is $ok"],
    [["$ok"]],
    [{"a": "$ok"}],
    ["$v"],
    ["$sure.output"],
)
CARRIES: tuple[dict[str, Any], ...] = ({}, {"t": 1}, {"t": "$ok"}, {"t": "$v"}, {"t": "$sure.output"}, {"t": "not $ok"})


def program(items: Any, carry: dict[str, Any], body: list[dict[str, Any]], most: int = 2) -> dict[str, Any]:
    """Return a program that sets `v`, and has an output of `sure`, and perhaps one of `maybe`."""
    each = {"id": "each", "type": "for_each", "items": items, "as": "x", "max_items": most, "steps": body}
    each |= {"on_item_error": "skip"} | ({"carry": carry} if carry else {})
    steps = [
        {"id": "put", "type": "set", "set": {"v": "$ok"}},
        {"id": "sure", "type": "tool", "tool": "look"},
        {"id": "maybe", "type": "tool", "tool": "look", "on_error": "skip"},
        {"id": "p", "type": "tool", "tool": "pay"},
        each,
        {"id": "due", "type": "set", "set": {"w": 1}},
    ]
    rule = {"name": "r", "followed_by": {"first": {"step": "p"}, "then": {"step": "due"}}}
    return {"name": "t", "language": 2, "inputs": INPUTS, "tools": TOOLS, "guardrails": [rule], "steps": steps}


def verdict_of(data: dict[str, Any]) -> Property:
    found = ProgramValidator(Program.from_dict(data)).validate().properties
    return next(one for one in found if one.rule == "r")


@pytest.mark.parametrize("body", BODIES)
def test_what_always_has_a_value_lets_the_step_begin(body: str) -> None:
    for items, carry in product(ITEMS, CARRIES):
        found = verdict_of(program(items, carry, BODIES[body]))
        assert (found.verdict, found.rechecked) == (Verdict.PROVED, True), (items, carry, found.evidence)


FALSE: tuple[tuple[Any, dict[str, Any], int], ...] = (
    (["$maybe.output"], {}, 2),
    (["is $maybe.output"], {}, 2),
    ([["$ok", "$maybe.output"]], {}, 2),
    (["$ok", "$ok", "$ok"], {}, 2),
    ([True, True, True], {}, 2),
    ("$l", {}, 1),
    ([True], {"t": "$maybe.output"}, 2),
    ([True], {"t": "not $maybe.output"}, 2),
    (["$ok"], {"t": ["$maybe.output"]}, 2),
)


@pytest.mark.parametrize(("items", "carry", "most"), FALSE)
def test_a_step_that_may_not_begin_is_no_proof(
    items: Any, carry: dict[str, Any], most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The enumeration breaks the rule, the checker says so, and an engine that forgets it is not believed."""
    data = program(items, carry, BODIES["a call"], most)
    assert truth(data).broken["r"]
    assert verdict_of(data).verdict is Verdict.VIOLATED
    monkeypatch.setattr(TransitionChoices, "_may_not_start", lambda *_: False)
    assert verdict_of(data).verdict is not Verdict.PROVED
