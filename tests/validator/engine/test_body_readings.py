"""Fast: what for_each steps leave, read in their bodies, behind them and where they failed: no run finds undefined what
the check says nothing of; and what follows a for_each step is decided, as runs have it."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from machines import Bench
from stepward.validator import ProgramValidator, Report, Verdict
from stepward.vm import Program, Run

LISTS = ([], [1], [1, 2])
CALLS = (None, 1, 2)
"""The call of the tool `look` that fails, counted from 1; None: none does."""

LOOK = {"id": "look", "type": "tool", "tool": "look"}
END = {"id": "z", "type": "end"}
READINGS = ("$each.output", "$kept", "$each.errors", "$each.error")
PLACES = ("first", "second", "nested", "behind", "handler", "last", "again")
WAYS: dict[str, dict[str, Any]] = {
    "plain": {},
    "handled": {"error_step": "sorry"},
    "items skipped": {"on_item_error": "skip"},
    "skipped": {"on_error": "skip"},
    "both": {"error_step": "sorry", "on_item_error": "skip"},
}


def program(reading: str, place: str, way: str) -> Program:
    """Return a program whose step `read` reads what the step `each` leaves."""
    read: dict[str, Any] = {"id": "read", "type": "set", "set": {"seen": reading}}
    bodies: dict[str, list[dict[str, Any]]] = {"first": [read, LOOK], "second": [LOOK, read], "again": [read, LOOK]}
    inner = {"id": "inner", "type": "for_each", "items": "$l", "as": "y", "max_items": 2, "steps": [LOOK, read]}
    bodies["nested"] = [inner]
    if place == "behind":  # a step behind the bodies of an inner for_each, which reads that one
        read = {**read, "set": {"seen": reading.replace("each", "inner").replace("kept", "held")}}
        bodies["behind"] = [{**inner, "steps": [LOOK], "output_key": "held", "on_error": "skip"}, read]
    each = {
        "id": "each",
        "type": "for_each",
        "items": "$l",
        "as": "x",
        "max_items": 2,
        "output_key": "kept",
        **WAYS[way],
    }
    each["steps"] = bodies.get(place, [LOOK])
    steps: list[dict[str, Any]] = [each, *([read] if place == "last" else [])]
    if place == "again":
        each["max_visits"] = 2
        steps.append({"id": "more", "type": "condition", "condition": "$n > 0", "then": "back", "otherwise": "z"})
        steps.append({"id": "back", "type": "set", "set": {"rounds": 1}, "next_step": "each"})
    sorry = {"id": "sorry", "type": "set", "set": {"apology": 1}, "next_step": "read" if place == "handler" else "over"}
    steps += [END, sorry, *([read] if place == "handler" else [])]
    data = {
        "name": "readings",
        "language": 2,
        "inputs": {"l": {"type": "array", "maxItems": 2}, **({"n": {"type": "integer"}} if place == "again" else {})},
        "tools": {"look": {"effect": "read"}},
        "steps": [*steps, {"id": "over", "type": "end", "outcome": "failure"}],
    }
    return Program.from_dict(data)


def runs(made: Program, least: int = 0) -> Iterator[tuple[Run, Bench]]:
    """Yield runs of a program with lists of at least so many items, in which one call of `look` may fail."""
    inputs: dict[str, tuple[Any, ...]] = {"l": LISTS[least:], "n": (0, 1)}
    wanted = made.inputs or {}
    for values in itertools.product(*(inputs[name] for name in wanted)):
        for failing in CALLS:
            answers = [ValueError("no") if number == failing else number for number in range(1, 6)]
            bench = Bench({"look": answers})
            yield bench.run(made, **dict(zip(wanted, values, strict=True))), bench


def is_undefined(bench: Bench) -> bool:
    """Return whether the step `read` found a value undefined."""
    return any(one["step"] == "read" and "is undefined" in one["error"] for one in bench.bodies("blocked"))


def checked(made: Program) -> Report:
    report = ProgramValidator(made).validate()
    assert not {one.code[:4] for one in report.findings} & {"SW00", "SW90"}, report.findings
    return report


def unsaid(reading: str, place: str, way: str) -> bool | None:
    """Return whether a run finds a reading undefined of which the check says nothing, None if the check reports it."""
    made = program(reading, place, way)
    found = [one.code for one in checked(made).findings if one.step == "read"]
    if {"SW201", "SW202"} & set(found):
        return None
    return any(is_undefined(bench) for _, bench in runs(made))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("place", PLACES)
def test_no_run_finds_undefined_what_the_check_says_nothing_of(place: str) -> None:
    found = {(reading, way): unsaid(reading, place, way) for reading in READINGS for way in WAYS}
    assert not [case for case, is_wrong in found.items() if is_wrong]
    assert None in found.values(), "some reading is reported"


def test_some_readings_are_sure() -> None:
    sure = ("$each.output", "$kept", "$each.errors")
    assert [unsaid(reading, "last", "plain") for reading in sure] == [False] * 3
    assert unsaid("$each.error", "handler", "handled") is False
    assert unsaid("$each.output", "last", "both") is False


# -- what follows ------------------------------------------------------------------------------------------------------

KEEPING: dict[str, dict[str, Any]] = {
    "its own output": {"type": "set", "set": {"y": "$each.output"}},
    "its item": {"type": "set", "set": {"y": "$x"}},
    "a call": {"type": "tool", "tool": "look"},
    "a call that may be skipped": {"type": "tool", "tool": "look", "on_error": "skip"},
}
HANDLING: dict[str, dict[str, Any]] = {
    "plain": {},
    "skipped": {"on_item_error": "skip"},
    "handled": {"error_step": "done"},
}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("ends", [None, "any", "success"])
@pytest.mark.parametrize("least", [0, 1])
def test_what_follows_a_for_each_step_is_decided_as_runs_have_it(ends: str | None, least: int) -> None:
    verdicts = set()
    for keep, how in itertools.product(KEEPING, HANDLING):
        rule = {"name": "shut", "followed_by": {"first": {"tool": "open"}, "then": {"tool": "shut"}}}
        each = {"id": "each", "type": "for_each", "items": "$l", "as": "x", "max_items": 2, **HANDLING[how]}
        data = {
            "name": "followed",
            "language": 2,
            "inputs": {"l": {"type": "array", "minItems": least, "maxItems": 2, "items": {"type": "integer"}}},
            "tools": {
                "open": {"effect": "write", "idempotent": True},
                "shut": {"effect": "write", "idempotent": True},
                "look": {"effect": "read"},
            },
            "guardrails": [{**rule, **({"ends": ends} if ends else {})}],
            "steps": [
                {"id": "begin", "type": "tool", "tool": "open"},
                {**each, "steps": [{"id": "keep", **KEEPING[keep], "is_terminal": True}]},
                {"id": "done", "type": "tool", "tool": "shut"},
            ],
        }
        made = Program.from_dict(data)
        (verdict,) = [one.verdict for one in checked(made).properties if one.rule == "shut"]
        assert verdict is not Verdict.UNKNOWN, (keep, how)
        broken = [run for run, _ in runs(made, least) if "shut" in dict(run.broken)]
        assert not broken or verdict is Verdict.VIOLATED, (keep, how)
        verdicts.add(verdict)
    assert verdicts
