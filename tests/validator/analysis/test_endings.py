"""Every way in which a step can end a run, and a `followed_by` rule that has to know of each.

A step of each kind stands between P and Q, in every form in which it may lack a branch, fail, be skipped, fall back or
use up its visits. A proof that Q follows P must survive every run.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest

from machines import unchecked
from stepward.validator import ProgramValidator, Verdict
from stepward.validator.analysis.transition_choices import TransitionChoices
from stepward.vm import MemoryJournal, Program
from two_sources import FAILS, LATE, World

CONDITIONS = {
    "1 == 2": True,
    "2 > 1": True,
    "1 == 2 and $flag": True,
    "2 > 1 or $flag": True,
    "not ('a' contains 'b')": True,
    "$flag and 1 == 2": False,
    "$flag": False,
    "$number > 3": False,
    "$maybe == 'a'": False,
    "$missing == 'a'": False,
    "$anything == 'a'": False,
    "$note == 'a'": False,
    "$note != null and $note contains 'a'": False,
    "$number * $number * $number > 10": False,
    "1 == 'a'": False,
}
"""Conditions, and whether constants decide them."""

BRANCHES = [("then",), ("otherwise",), ("then", "otherwise")]
VALUES = {
    "flag": [True, False],
    "number": [0, 5],
    "note": [None, "a", "b"],
    "get": ["a", "b", FAILS, LATE],
    "any": ["a", "b"],
}
SIGNS = {
    "flag": ["flag"],
    "number": ["number"],
    "note": ["note"],
    "get": ["get", "maybe", "missing"],
    "any": ["anything"],
}
"""What says in a step that it hangs on a value."""

KNOWN = {
    "inputs": {
        "flag": {"type": "boolean"},
        "number": {"type": "integer", "minimum": 0, "maximum": 5},
        "note": {"type": ["string", "null"]},
    },
    "tools": {
        "p": {"effect": "write", "returns": {"type": "null"}},
        "q": {"effect": "write", "idempotent": True, "returns": {"type": "null"}},
        "get": {"effect": "read", "returns": {"type": "string", "enum": ["a", "b"]}},
        "put": {"effect": "write", "idempotent": True, "args": {"x": {"type": "string", "maxLength": 1}}},
        "any": {"effect": "read", "returns": {"type": "string"}},
    },
}


def steps() -> Iterator[tuple[dict[str, Any], ...]]:
    """Yield what may stand between P and Q: the step in question is called `x`."""
    for (text, is_constant), has in product(CONDITIONS.items(), BRANCHES):
        targets = dict.fromkeys(has, "last")
        yield ({"id": "x", "type": "condition", "condition": text, **targets},)
        if is_constant and "then" in has:
            later = [{"when": text, "then": "last"}, {"when": "$flag", "then": "last"}]
            rest = {"otherwise": "last"} if "otherwise" in has else {}
            yield ({"id": "x", "type": "condition", "cases": later, **rest},)
            yield ({"id": "x", "type": "condition", "cases": later[::-1], **rest},)
            yield ({"id": "x", "type": "condition", "condition": text, **targets, "max_visits": 1},)
    for text in ("$maybe", "$missing", "$number * $number", "$note contains 'a'", "1 == 'a'", "len($number)", "$flag"):
        yield ({"id": "x", "type": "set", "set": {"y": text}, "next_step": "last"},)
    call = {"id": "x", "type": "tool", "tool": "get", "next_step": "last"}
    for error in ({}, {"on_error": "skip"}, {"on_error": "retry", "max_retries": 2}, {"error_step": "last"}):
        for late in ({}, {"timeout_seconds": 1}, {"timeout_seconds": 1, "on_timeout": "fallback", "fallback": "a"}):
            yield (call | error | late,)
            if "error_step" not in error:
                inner = {name: value for name, value in call.items() if name != "next_step"}
                both = {"id": "x", "type": "parallel", "parallel_steps": [{**inner, "id": "sub", **error, **late}]}
                yield ({**both, "next_step": "last"},)
    for text in ("$note", "$maybe", "$flag", "a", "abc"):
        yield ({"id": "x", "type": "tool", "tool": "put", "args": {"x": text}, "next_step": "last"},)
    yield ({"id": "x", "type": "llm", "prompt": "Well, $maybe?", "next_step": "last"},)
    for text in ("$maybe", "$flag"):
        yield ({"id": "x", "type": "condition", "condition": "$flag", "then": "last", "otherwise": "stop"},
               {"id": "stop", "type": "end", "output": text})  # fmt: skip
    yield ({"id": "x", "type": "set", "set": {"y": 1}, "max_visits": 2, "next_step": "again"},
           {"id": "again", "type": "condition", "condition": "$flag", "then": "x", "otherwise": "last"})  # fmt: skip


def programs(ends: dict[str, str]) -> Iterator[dict[str, Any]]:
    """Yield the programs: P, the steps, Q."""
    for between in steps():
        yield {
            **KNOWN,
            "guardrails": [{"name": "q", "followed_by": {"first": {"tool": "p"}, "then": {"tool": "q"}}, **ends}],
            "steps": [
                {"id": "before", "type": "tool", "tool": "get", "on_error": "skip", "output_key": "maybe"},
                {"id": "other", "type": "tool", "tool": "any", "output_key": "anything", "next_step": "first"},
                {"id": "first", "type": "tool", "tool": "p", "next_step": "x"},
                *between,
                {"id": "last", "type": "tool", "tool": "q", "is_terminal": True},
            ],
        }


class Watched(World):
    """Tools that take down which of them were called."""

    called: list[str]

    async def call(self, name: str, args: Any, context: Any) -> Any:
        """Take down the call, and bring the chosen value."""
        self.called.append(name)
        return await super().call(name, args, context)


def is_broken(data: dict[str, Any]) -> bool:
    """Return whether some run performs P, ends, and never starts Q."""
    rule = data["guardrails"][0]
    running = Program.from_dict({name: part for name, part in data.items() if name != "guardrails"})
    said = str(data["steps"][3:-1])
    varied = [values if any(word in said for word in SIGNS[name]) else values[:1] for name, values in VALUES.items()]
    for values in product(*varied):
        world = Watched(dict(zip(VALUES, values, strict=True)))
        world.called = []
        inputs = {name: world.chosen[name] for name in KNOWN["inputs"]}
        run = unchecked(world, world, MemoryJournal(), clock=world.clock).run_sync(running, inputs, run_id="r")
        counts = run.status == "SUCCESS" or rule.get("ends") != "success"
        if (
            "p" in world.called
            and "q" not in world.called
            and counts
            and run.status in ("SUCCESS", "FAILED", "STALLED")
        ):
            return True
    return False


def is_wrong(data: dict[str, Any]) -> bool:
    """Return whether the first checker alone proves of a program that Q follows P, and a run breaks that."""
    report = ProgramValidator(Program.from_dict(data), recheck=False).validate()
    assert "SW903" not in {finding.code for finding in report.findings}, "an internal error"
    verdict = next(prop.verdict for prop in report.properties if prop.name == "followed_by")
    return verdict is Verdict.PROVED and is_broken(data)


@pytest.mark.parametrize("ends", [{}, {"ends": "success"}])
def test_no_ending_is_left_out(ends: dict[str, str]) -> None:
    assert [data["steps"][3:-1] for data in programs(ends) if is_wrong(data)] == []


@pytest.mark.parametrize("kind", ["uncovered", "failed", "visits"])
def test_an_ending_that_is_left_out_is_reported(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    known = TransitionChoices.is_possible
    monkeypatch.setattr(
        TransitionChoices, "is_possible", lambda self, step, way: way.kind != kind and known(self, step, way)
    )
    assert any(is_wrong(data) for data in reversed(list(programs({}))))
