"""Fast: a value that is too large for the machine fails a step of a body, and somebody may go on behind it."""

from __future__ import annotations

from typing import Any, Final

import pytest

from comparing import checked
from machines import unchecked
from stepward.validator import Verdict
from stepward.vm import Program
from stepward.vm.machine.state import Limits

SHORT: Final = {"type": "string", "maxLength": 20}
LINES: Final = {"type": "array", "maxItems": 3, "items": SHORT}
ADDRESS: Final = {"type": "object", "properties": {"street": SHORT}, "additionalProperties": False}
TYPES: Final[dict[str, tuple[Any, bool]]] = {
    "any text": ({"type": "string"}, True),
    "a short text": (SHORT, False),
    "a text of a pattern": ({"type": "string", "pattern": "^[A-Z]{3}-[0-9]{6}$"}, False),
    "a text that begins with a pattern": ({"type": "string", "pattern": "^[A-Z]{3}"}, True),
    "one of three": ({"enum": ["a", "b", "c"]}, False),
    "a number": ({"type": "integer", "minimum": 0, "maximum": 9}, False),
    "a truth value or null": ({"type": ["boolean", "null"]}, False),
    "a list": ({"type": "array", "items": {"type": "integer"}}, True),
    "a short list": (LINES, False),
    "a short list of anything": ({"type": "array", "maxItems": 3}, True),
    "an object": ({"type": "object", "properties": {"street": SHORT}}, True),
    "a closed object": (ADDRESS, False),
}
"""Types of the input `x`, and whether its values may be too large."""


def _program(step: dict[str, Any], given: Any, **more: Any) -> dict[str, Any]:
    """Return a program in which a payment follows the failure of a step, and a question its success."""
    tools = {"ask": {"effect": "none"}, "pay": {"effect": "write", "idempotent": True}}
    steps = [
        {**step, "error_step": "quick", "next_step": "ask"},
        {"id": "ask", "type": "tool", "tool": "ask", "next_step": "quick"},
        {"id": "quick", "type": "tool", "tool": "pay", "is_terminal": True},
    ]
    rule = {"name": "asked", "protects": {"tool": "pay"}, "requires": {"tool": "ask"}}
    found = {"name": "p", "language": 2, "inputs": {"x": given}, "tools": tools, "guardrails": [rule], **more}
    return {**found, "steps": steps}


def _call(given: Any, *steps: dict[str, Any]) -> dict[str, Any]:
    inner = {"inputs": {"i": given}, "steps": list(steps)}
    return _program({"id": "each", "type": "call", "program": "q", "args": {"i": "$x"}}, given, programs={"q": inner})


def _items(given: Any, *steps: dict[str, Any], **more: Any) -> dict[str, Any]:
    each = {"id": "each", "type": "for_each", "items": [1, 2], "as": "n", "max_items": 2, "steps": list(steps), **more}
    return _program(each, given)


def _branches(given: Any, *steps: dict[str, Any]) -> dict[str, Any]:
    branches = {"b": {"steps": list(steps)}, "c": {"steps": [{"id": "z", "type": "end"}]}}
    return _program({"id": "each", "type": "parallel", "branches": branches}, given)


def _set(value: Any) -> dict[str, Any]:
    return {"id": "s", "type": "set", "set": {"v": value}, "is_terminal": True}


def _end(value: Any) -> dict[str, Any]:
    return {"id": "e", "type": "end", "output": value}


PLACES: Final = {
    "a `set` of a called program": lambda given: _call(given, _set("$i")),
    "the output of a called program": lambda given: _call(given, _end("$i")),
    "an argument of a call": lambda given: _call(given, _end(1)),
    "a `set` in an item": lambda given: _items(given, _set("$x")),
    "the output of an item": lambda given: _items(given, _end({"found": "$x"})),
    "what items carry on": lambda given: _items(given, _set("$x"), carry={"v": "$x"}),
    "a `set` in a branch": lambda given: _branches(given, _set(["$x", "$x"])),
    "the output of a branch": lambda given: _branches(given, _end("$x")),
    "a sum in an item": lambda given: _items(given, _set("$x + $x")),
}


def _verdict(data: dict[str, Any]) -> tuple[Verdict, bool]:
    (found,) = [one for one in checked(data).properties if one.rule == "asked"]
    return found.verdict, bool(found.rechecked)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", TYPES)
@pytest.mark.parametrize("place", PLACES)
def test_a_proof_stands_only_where_types_bound_the_value(place: str, name: str) -> None:
    given, is_large = TYPES[name]
    if "sum" in place and given.get("type") not in ("string", "integer", "array"):
        pytest.skip("`+` takes numbers, texts and lists")
    assert _verdict(PLACES[place](given)) == ((Verdict.UNKNOWN, False) if is_large else (Verdict.PROVED, True))


@pytest.mark.parametrize("place", PLACES)
def test_a_machine_goes_on_behind_a_value_that_is_too_large(place: str) -> None:
    """The payment is made, and nobody was asked."""
    called: list[str] = []

    class Tools:
        def has(self, name: str) -> bool:
            return bool(name)

        async def call(self, name: str, args: Any, context: Any) -> None:
            called.append(name)

    data = PLACES[place]({"type": "string"})
    data["guardrails"] = []
    run = unchecked(Tools(), limits=Limits(output_bytes=1000)).run_sync(Program.from_dict(data), {"x": "a" * 2000})
    assert (run.status, called) == ("SUCCESS", ["pay"])


def test_a_total_is_a_number_however_often_it_is_added_to() -> None:
    """What items carry on grows, and is never too large; a list that grows may be."""
    for first, grown, verdict in ((0, "$v + $n", Verdict.PROVED), ([], "$v + [$n]", Verdict.UNKNOWN)):
        data = _items({"type": "integer"}, _set(grown), carry={"v": first})
        assert _verdict(data)[0] is verdict
