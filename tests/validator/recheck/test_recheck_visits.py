"""A rule that one place can't break because of values, and another place because of `max_visits`.

The engine asks its layers only about the first place: counts of visits alone rule out the second one. So the parts of
the proof speak of the first place only, and the second checker has to count visits itself.
"""

from __future__ import annotations

from typing import Any

import pytest

from stepward.validator import ProgramValidator, Property, Verdict
from stepward.vm import Program

NULLABLE = ["string", "null"]
KINDS: dict[str, tuple[dict[str, Any], str, str]] = {
    "enum": ({"enum": ["a", "b"]}, "$x == 'a'", "finite abstraction"),
    "nullable enum": ({"type": NULLABLE, "enum": ["a", None]}, "$x == null or $x == 'b'", "finite abstraction"),
    "pattern": ({"type": "string", "pattern": "b"}, "$x starts_with 'ab'", "finite abstraction"),
    "nullable": ({"type": NULLABLE, "pattern": "b"}, "$x == null or $x starts_with 'ab'", "finite abstraction"),
    "length": ({"type": NULLABLE, "minLength": 2}, "$x == null or len($x) < 3", "finite abstraction"),
    "minLength": ({"type": NULLABLE, "minLength": 2}, "$x == null or matches($x, '^..$')", "finite abstraction"),
    "matches": ({"type": "string"}, "matches($x, '^a?b')", "finite abstraction"),
    "nullable matches": ({"type": NULLABLE, "pattern": "b"}, "$x == null or matches($x, '^a?b')", "finite abstraction"),
    "lower": ({"type": NULLABLE, "pattern": "b"}, "$x == null or lower($x) == 'ab'", "finite abstraction"),
    "trim": ({"type": NULLABLE, "maxLength": 9}, "$x != null and trim($x) == ''", "finite abstraction"),
    "trimmed": ({"type": "string"}, "matches(trim($x), '^a?b')", "block formula"),
    "nullable trimmed": ({"type": NULLABLE, "pattern": "b"}, "$x == null or matches(trim($x), 'b$')", "block formula"),
    "pattern of join": (
        {"type": "array", "items": {"type": "string"}},
        "matches(join($x, '-'), '^a')",
        "block formula",
    ),
    "join": ({"type": "array", "items": {"type": "string"}}, "join($x, ', ') == 'a, b'", "block formula"),
    "joined": ({"type": "array", "items": {"enum": ["a", "b"]}}, "join($x, '') starts_with 'a'", "block formula"),
    "two texts": ({"type": NULLABLE, "pattern": "b"}, "$x == null or $x == $y", "block formula"),
    "order": ({"type": "number"}, "$x < $y", "block formula"),
    "few numbers": ({"type": "integer", "minimum": 0, "exclusiveMaximum": 3}, "$x < $y", "finite abstraction"),
}

Steps = list[dict[str, Any]]


def _twice(when: str, visits: int) -> Steps:
    """`again` follows `pay` only by values, and `pay` follows itself only where `loop` is visited twice."""
    return [
        _loop(visits, "pay"),
        {"id": "pay", "type": "tool", "tool": "pay"},
        {"id": "gate", "type": "condition", "condition": when, "then": "loop", "otherwise": "again"},
        {"id": "again", "type": "tool", "tool": "pay", "is_terminal": True},
    ]


def _both(when: str, visits: int) -> Steps:
    """`pay` follows `other` only by values, and `other` follows `pay` only where `loop` is visited twice."""
    return [
        _loop(visits, "gate"),
        {"id": "gate", "type": "condition", "condition": when, "then": "pay", "otherwise": "other"},
        {"id": "other", "type": "tool", "tool": "look", "next_step": "pay"},
        {"id": "pay", "type": "tool", "tool": "pay", "next_step": "loop"},
    ]


def _followed(when: str, visits: int) -> Steps:
    """After `pay` the run ends before `look` only by values, or where `loop` has no visit left."""
    return [
        {"id": "pay", "type": "tool", "tool": "pay", "next_step": "loop"},
        _loop(visits, "gate"),
        {"id": "gate", "type": "condition", "condition": when, "then": "look", "otherwise": "stop"},
        {"id": "look", "type": "tool", "tool": "look", "is_terminal": True},
    ]


def _required(when: str, visits: int) -> Steps:
    """`pay` comes without `check` only by values, and after a stale `check` only where `loop` is visited twice."""
    return [
        {"id": "gate", "type": "condition", "condition": when, "then": "check", "otherwise": "pay"},
        {"id": "check", "type": "condition", "condition": "$flag", "then": "loop", "otherwise": "stop"},
        _loop(visits, "pay"),
        {"id": "pay", "type": "tool", "tool": "pay", "next_step": "reset"},
        {"id": "reset", "type": "set", "set": {"flag": "$other"}, "next_step": "loop"},
    ]


def _loop(visits: int, target: str) -> dict[str, Any]:
    return {"id": "loop", "type": "set", "set": {"z": 1}, "max_visits": visits, "next_step": target}


RULES = {
    "at_most_once": ({"at_most_once": {"tool": "pay"}}, _twice),
    "exclusive": ({"exclusive": [{"tool": "pay"}, {"step": "other"}]}, _both),
    "followed_by": ({"followed_by": {"first": {"tool": "pay"}, "then": {"tool": "look"}}}, _followed),
    "requires": ({"protects": {"tool": "pay"}, "requires": {"step": "check", "branch": "then"}}, _required),
}


def judged(kind: str, rule: str, visits: int) -> Property:
    """Return the verdict on a rule that at most so many visits of `loop` may break."""
    spec, when, _ = KINDS[kind]
    guardrail, steps = RULES[rule]
    program = Program.from_dict(
        {
            "language": 2,
            "inputs": {"x": spec, "y": spec, "flag": {"type": "boolean"}, "other": {"type": "boolean"}},
            "tools": {"look": {"effect": "read"}, "pay": {"effect": "write"}},
            "guardrails": [{"name": "r", **guardrail}],
            "steps": [
                {"id": "first", "type": "condition", "condition": when, "then": "second", "otherwise": "stop"},
                {"id": "stop", "type": "end"},
                {"id": "second", "type": "set", "set": {"z": 0}, "next_step": steps(when, visits)[0]["id"]},
                *steps(when, visits),
            ],
        }
    )
    return next(one for one in ProgramValidator(program).validate().properties if one.rule == "r")


@pytest.mark.one_in(3)
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_step_without_visits_left_needs_no_part_of_the_proof(kind: str, rule: str) -> None:
    found = judged(kind, rule, 1)
    assert (found.verdict, found.rechecked) == (Verdict.PROVED, True), found.evidence.reason
    assert found.evidence.layer == KINDS[kind][2]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("rule", ["at_most_once", "requires"])
@pytest.mark.parametrize("kind", KINDS)
def test_with_one_more_visit_nothing_is_proved(kind: str, rule: str) -> None:
    assert judged(kind, rule, 2).verdict is not Verdict.PROVED
