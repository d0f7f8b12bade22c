"""Rules about steps, in each kind of body: what they find there, and what the step around it handles."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import pytest

from stepward.validator import ProgramValidator
from stepward.validator.analysis.facts import ProgramFacts
from stepward.validator.diagram.dot import to_dot
from stepward.validator.diagram.drawing import draw
from stepward.vm import Program

Steps = list[dict[str, Any]]
TOOLS = {"look": {"effect": "read"}, "pay": {"effect": "read", "errors": ["Declined"]}}


def each(body: Steps, **more: Any) -> Steps:
    return [{"id": "each", "type": "for_each", "items": [1], "as": "x", "max_items": 1, "steps": body, **more}]


def branch(body: Steps, **more: Any) -> Steps:
    bodies = {"one": {"steps": body}, "two": {"steps": [{"id": "e", "type": "end"}]}}
    return [{"id": "par", "type": "parallel", "branches": bodies, **more}]


def call(_: Steps, **more: Any) -> Steps:
    return [{"id": "c", "type": "call", "program": "sub", **more}]


BODIES: dict[str, Callable[..., Steps]] = {
    "a for_each step": each,
    "a branch": branch,
    "a called program": call,
    "a for_each step in a branch": lambda body, **more: branch(each(body), **more),
    "a branch in a for_each step": lambda body, **more: each(branch(body), **more),
    "a call in a branch": lambda body, **more: branch(call(body), **more),
}
STEPS: dict[str, Steps] = {
    "SW104": [
        {"id": "a", "type": "tool", "tool": "look", "max_visits": 3, "next_step": "b"},
        {"id": "b", "type": "tool", "tool": "look", "next_step": "a"},
    ],
    "SW111": [{"id": "a", "type": "tool", "tool": "pay"}],
}
AFTER: Steps = [{"id": "no", "type": "end", "outcome": "failure"}]


def codes(steps: Steps, body: Steps) -> set[str]:
    """Return the codes of the findings of some steps, of which the called program has a body."""
    programs = {"sub": {"tools": TOOLS, "steps": body}}
    data = {"name": "bodies", "language": 2, "tools": TOOLS, "programs": programs, "steps": steps}
    report = ProgramValidator(Program.from_dict(data), recheck=False).validate()
    return {finding.code for finding in report.findings}


@pytest.mark.parametrize(("code", "kind"), list(product(STEPS, BODIES)))
def test_a_step_is_reported_in_each_kind_of_body(code: str, kind: str) -> None:
    assert code in codes(BODIES[kind](STEPS[code]), STEPS[code])


@pytest.mark.parametrize(("code", "kind"), list(product(STEPS, BODIES)))
def test_a_failure_that_the_step_around_takes_is_not_reported(code: str, kind: str) -> None:
    around = BODIES[kind](STEPS[code], error_step="no", is_terminal=True)
    assert code not in codes([*around, *AFTER], STEPS[code])


@pytest.mark.parametrize("kind", BODIES)
def test_a_loop_with_a_body_in_it_is_reported(kind: str) -> None:
    whole = BODIES[kind]([{"id": "a", "type": "tool", "tool": "look"}], max_visits=3)
    again = {"id": "again", "type": "tool", "tool": "look", "next_step": whole[0]["id"]}
    body: Steps = [{"id": "a", "type": "tool", "tool": "look"}]
    assert "SW104" in codes([*whole, again], body)
    leaves = [*BODIES[kind](body, max_visits=3, error_step="no"), again, *AFTER]
    assert "SW104" not in codes(leaves, body)


@pytest.mark.parametrize("field", ["as", "index_as", "carry"])
def test_a_name_of_a_step_with_a_body_is_its_own(field: str) -> None:
    """Neither is it that of the step, nor do the item and its index share one."""
    given: dict[str, Any] = {"carry": {"each": 1}} if field == "carry" else {field: "each"}
    assert "SW006" in codes(each([{"id": "e", "type": "end"}], **given), AFTER)
    assert "SW006" not in codes(each([{"id": "e", "type": "end"}], output_key="each"), AFTER)
    assert "SW006" in codes(each([{"id": "e", "type": "end"}], index_as="x"), AFTER)


FOREIGN: dict[str, Steps] = {
    "an argument of a call": [{"id": "c", "type": "call", "program": "sub", "args": {"t": "{{ d }}"}}],
    "a list of set": [{"id": "s", "type": "set", "set": {"m": ["{{ d }}"]}}],
    "an object of set": [{"id": "s", "type": "set", "set": {"m": {"k": "${d}"}}}],
    "a list in a field": [
        {"id": "s", "type": "set", "set": {"m": {"k": 1}}},
        {"id": "t", "type": "set", "set": {"m.k": ["{{ d }}"]}},
    ],
    "carry": each([{"id": "e", "type": "end"}], carry={"m": [{"k": "{{ d }}"}]}),
    "a written list": each([{"id": "e", "type": "end"}], items=["{{ d }}"]),
}


@pytest.mark.parametrize("place", FOREIGN)
def test_a_placeholder_of_another_language_is_found_in_each_place(place: str) -> None:
    first = {"id": "f0", "type": "set", "set": {"d": "'a'"}}
    assert "SW211" in codes([first, *FOREIGN[place]], AFTER)


@pytest.mark.parametrize("value", ["'text'", "1 + 1", "1 == 1"])
@pytest.mark.parametrize("kind", ["a for_each step", "a branch"])
def test_items_that_are_no_list_are_reported_once(value: str, kind: str) -> None:
    body = [{"id": "s", "type": "set", "set": {"d": value}}, {"id": "f", "type": "for_each", "items": "$d"}]
    body[1] |= {"as": "y", "max_items": 2, "steps": [{"id": "g", "type": "end", "output": "$y"}]}
    found = codes(BODIES[kind](body), AFTER)
    assert "SW203" in found
    assert "SW113" not in found


def test_items_of_an_unknown_type_are_not_reported() -> None:
    tools = {"look": {"effect": "read"}}
    first = {"id": "a", "type": "tool", "tool": "look"}
    steps = [first, *each([{"id": "e", "type": "end"}], items="$a.output")]
    data = {"name": "bodies", "language": 2, "tools": tools, "steps": steps}
    report = ProgramValidator(Program.from_dict(data), recheck=False).validate()
    assert "SW203" not in {one.code for one in report.findings}


WAYS_OUT: dict[str, dict[str, Any]] = {
    "next_step": {"next_step": "sory"},
    "error_step": {"error_step": "sory"},
    "catch": {"catch": [{"errors": ["any"], "then": "sory"}]},
}


@pytest.mark.parametrize(("kind", "field"), list(product(BODIES, WAYS_OUT)))
def test_an_exit_of_a_body_that_names_no_step_is_reported_once(kind: str, field: str) -> None:
    """The stages behind a body lead where the fields of the step around it say. Pictures show it, too."""
    body: Steps = [{"id": "seen", "type": "end"}]
    steps = [*BODIES[kind](body, **WAYS_OUT[field]), {"id": "no", "type": "end"}]
    programs = {"sub": {"tools": TOOLS, "steps": body}}
    program = Program.from_dict({"name": "out", "language": 2, "tools": TOOLS, "programs": programs, "steps": steps})
    found = [
        one for one in ProgramValidator(program).validate().findings if one.code not in ("SW102", "SW113", "SW212")
    ]
    assert [(one.code, one.message) for one in found] == [
        ("SW101", f"`{'then' if field == 'catch' else field}` names `sory`, which is not a step")
    ]
    assert "sory" in to_dot(draw(ProgramFacts(program)))


UNREADABLE: dict[str, Steps] = {
    "set": [{"id": "mid", "type": "set", "set": {"g": "hello there"}}],
    "condition": [{"id": "mid", "type": "condition", "condition": "hello there", "then": "no"}],
    "carry": each([{"id": "s", "type": "set", "set": {"c": "1"}}], carry={"c": "hello there"}),
}


@pytest.mark.parametrize(("kind", "what"), list(product(["no body", *BODIES], UNREADABLE)))
def test_what_does_not_parse_is_no_bug_of_a_checker(kind: str, what: str) -> None:
    """The second checker can't read it, and another finding says what is wrong. It may be beside what is proved."""
    body = UNREADABLE[what]
    steps = body if kind == "no body" else BODIES[kind](body)
    asked: Steps = [
        {"id": "small", "type": "condition", "condition": "$n <= 5", "then": "pay", "otherwise": steps[0]["id"]},
        {"id": "pay", "type": "tool", "tool": "pay", "args": {"n": "$n"}, "is_terminal": True},
    ]
    tools = {**TOOLS, "pay": {"effect": "write", "idempotent": True, "args": {"n": {"type": "number"}}}}
    programs = {"sub": {"tools": tools, "steps": [*body, *AFTER]}}
    rule = {"name": "small", "never": {"tool": "pay"}, "when": "$args.n > 5"}
    data = {"name": "out", "language": 2, "tools": tools, "programs": programs, "guardrails": [rule]}
    program = Program.from_dict({**data, "inputs": {"n": {"type": "number"}}, "steps": [*asked, *steps, *AFTER]})
    found = {one.code for one in ProgramValidator(program).validate().findings}
    assert "SW301" in found
    assert not {code for code in found if code.startswith("SW9")}
