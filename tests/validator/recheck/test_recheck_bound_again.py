"""The second checker on copies of outputs and errors that a step binds again: the copy keeps the value from before.

Each program keeps a value, performs what gave it once more, and compares the two. A certificate of the program that
does not perform it again is refused for the one that does.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from stepward.validator import ProgramValidator, Verdict
from stepward.validator.recheck.blocks import UNDEFINED
from stepward.validator.recheck.certificates import digest, parsed, recheck_data
from stepward.validator.recheck.reading import Reading
from stepward.validator.recheck.rules import NeverWatcher
from stepward.validator.recheck.selectors import matches
from stepward.validator.recheck.walking import explored
from stepward.vm import Program
from stepward.vm.language.guardrails import Never

TEXT = {"type": "string", "enum": ["a", "b"]}
TOOLS: dict[str, Any] = {
    "get": {"effect": "read", "returns": TEXT, "errors": ["A", "B"]},
    "list": {"effect": "read", "returns": {"type": "array", "items": TEXT, "maxItems": 3}},
    "pay": {"effect": "write", "idempotent": True},
}
PROGRAMS = {"asked": {"inputs": {}, "tools": TOOLS, "steps": []}}

Step = dict[str, Any]
GET: Step = {"id": "get", "type": "tool", "tool": "get", "output_key": "v"}
GIVES: list[Step] = [GET, {"id": "out", "type": "end", "output": "$v"}]
PROGRAMS["asked"]["steps"] = GIVES
NOTHING: list[Step] = [{"id": "idle", "type": "set", "set": {}}]
SKIPS = {"on_error": "skip"}


def forked(**more: Any) -> Step:
    branches = {"one": {"steps": GIVES}, "two": {"steps": NOTHING, "depends_on": ["one"]}}
    return {"id": "p", "type": "parallel", "branches": branches, **SKIPS, **more}


def each(**more: Any) -> Step:
    return {"id": "each", "type": "for_each", "items": [1], "as": "x", "max_items": 2, "steps": GIVES, **SKIPS, **more}


BESIDE: Step = {"id": "p", "type": "parallel", "parallel_steps": [{**GET, "id": "sub"}], **SKIPS}
CALL: Step = {"id": "call", "type": "call", "program": "asked", "output_key": "k", **SKIPS}
LIST: Step = {"id": "list", "type": "tool", "tool": "list", "on_error": "skip"}
CAUGHT = {"on_error": "fail", "error_step": "seen"}
ROUND: Step = {
    **each(),
    "id": "round",
    "as": "y",
    "steps": [forked(), {"id": "left", "type": "end", "output": "$one.output"}],
}

BOUND: dict[str, tuple[list[Step], tuple[str, ...]]] = {
    "a call of a tool": ([{**GET, **SKIPS}], ("$get.output", "$v", "$get.error", "$get.error_name")),
    "its visits": ([{**GET, **CAUGHT, "max_visits": 1}], ("$get.error_name",)),
    "sub-steps": ([BESIDE], ("$sub.output", "$v", "$sub.error", "$p.output.sub", "$p.error")),
    "a branch": ([forked()], ("$one.output", "$one.error", "$one.error_name", "$two.error")),
    "its step": ([forked(output_key="k")], ("$p.output.one", "$k.one", "$p.error", "$p.error_name")),
    "the visits of its step": ([{**forked(), **CAUGHT, "max_visits": 1}], ("$p.error", "$p.error_name")),
    "items": ([each(output_key="k")], ("$each.output[0]", "$k[0]", "$each.error", "$each.error_name")),
    "items that are skipped": (
        [each(on_item_error="skip")],
        ("$each.output[0]", "$each.errors[0].error", "$each.errors[0].error_name"),
    ),
    "items at once": ([each(max_concurrency=2)], ("$each.output[0]", "$each.error", "$each.errors[0].error_name")),
    "items of a list": ([LIST, each(items="$list.output")], ("$list.output[0]", "$each.output[0]", "$each.error_name")),
    "the visits of items": ([{**each(), **CAUGHT, "max_visits": 1}], ("$each.error", "$each.error_name")),
    "a called program": ([CALL], ("$call.output", "$k", "$call.error", "$call.error_name")),
    "a branch in an item": ([ROUND], ("$round.output[0]", "$round.error")),
}
CASES = [(name, place) for name, (_, places) in BOUND.items() for place in places]


def program(steps: list[Step], place: str, *, again: str | None) -> dict[str, Any]:
    """Return a program that keeps a value, goes back to a step or not, and pays if the value is another one then.

    A program that does not go back performs another step.
    """
    known = "keep" if again is None else "known"
    return {
        "language": 2,
        "name": "again",
        "inputs": {},
        "tools": TOOLS,
        "programs": PROGRAMS if any(one["type"] == "call" for one in steps) else None,
        "guardrails": [{"name": "never", "never": {"tool": "pay"}}],
        "steps": [
            *steps,
            {"id": "seen", "type": "condition", "condition": f"defined({place})", "then": known, "otherwise": "stop"},
            {"id": "known", "type": "condition", "condition": "defined($w)", "then": "ask", "otherwise": "keep"},
            {"id": "keep", "type": "set", "set": {"w": place}, "max_visits": 2, "next_step": again or "idly"},
            {"id": "idly", "type": "tool", "tool": "get", "output_key": "u", "next_step": "ask", **SKIPS},
            {"id": "ask", "type": "condition", "condition": f"$w != {place}", "then": "act", "otherwise": "stop"},
            {"id": "act", "type": "tool", "tool": "pay", "next_step": "stop", **SKIPS},
            {"id": "stop", "type": "end"},
        ],
    }


def loaded(data: dict[str, Any]) -> Program:
    return Program.from_dict({name: value for name, value in data.items() if value is not None})


def is_ruled_out(data: dict[str, Any]) -> bool:
    """Return whether the second checker finds by itself, without a look at values, that nothing is paid."""
    reading = Reading(loaded(data))
    (rule,) = reading.program.guardrails
    assert isinstance(rule, Never)
    return not explored(reading, NeverWatcher(reading, matches(rule.never, reading), rule.when))


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("name", "place"), CASES)
def test_a_copy_of_what_is_bound_again_is_no_copy_any_more(name: str, place: str) -> None:
    steps, _ = BOUND[name]
    once, twice = (program(steps, place, again=one) for one in (None, steps[0]["id"]))
    assert is_ruled_out(once), "where another step is performed, both are one value"
    assert not is_ruled_out(twice)
    (found,) = [one for one in ProgramValidator(loaded(twice)).validate().properties if one.rule == "never"]
    assert found.verdict is not Verdict.PROVED


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("name", "place"), CASES)
def test_a_certificate_of_one_performance_is_refused_for_two(name: str, place: str) -> None:
    steps, _ = BOUND[name]
    once, twice = (loaded(program(steps, place, again=one)) for one in (None, steps[0]["id"]))
    (found,) = [one for one in ProgramValidator(once, certify=True).validate().properties if one.rule == "never"]
    assert (found.verdict, found.rechecked) == (Verdict.PROVED, True)
    assert found.certify is not None
    certificate = parsed(found.certify().to_json())
    assert recheck_data(certificate).is_accepted
    wrong = {**certificate, "program": parsed(json.dumps(twice.to_data()))}
    wrong["digest"] = digest(twice, ())
    assert not recheck_data(wrong).is_accepted


def test_an_argument_has_its_value_in_each_attempt_of_a_call() -> None:
    """The first call has shown that the condition holds for the value, and the second one gets it again."""
    ask: dict[str, Any] = {"id": "ask", "type": "condition", "condition": "$n <= 1", "then": "count"}
    inner = [{"id": "book", "type": "tool", "tool": "book"}, ask, {"id": "count", "type": "tool", "tool": "book"}]
    calls: list[dict[str, Any]] = [{"id": "one", "type": "call", "program": "p", "args": {"n": "$n"}}]
    calls.append({**calls[0], "id": "two", "on_error": "retry", "max_retries": 2})
    number = {"type": "integer", "minimum": 0, "maximum": 3}
    data = {
        "name": "p",
        "language": 2,
        "inputs": {"n": number},
        "tools": {"book": {"effect": "write", "idempotent": True}},
        "programs": {"p": {"inputs": {"n": number}, "steps": inner}},
        "steps": calls,
    }
    found = {one.step: one for one in ProgramValidator(Program.from_dict(data)).validate().properties}
    assert (found["two/ask"].verdict, found["two/ask"].rechecked) == (Verdict.PROVED, True)


def test_a_name_that_only_an_unreachable_step_gives_has_no_value() -> None:
    steps: list[Step] = [
        {"id": "begin", "type": "tool", "tool": "pay", "next_step": "done"},
        {**GET, "next_step": "done"},
        {"id": "done", "type": "end", "output": "$v"},
    ]
    reading = Reading(Program.from_dict({"name": "p", "language": 2, "tools": TOOLS, "steps": steps}), ())
    assert reading.definite.blocks(("v",), reading.position["done"]) == (UNDEFINED,)
