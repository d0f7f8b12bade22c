"""What the engine decides of the words of language 2: each verdict with its proof, rechecked, or its witness."""

from __future__ import annotations

from typing import Any

import pytest

from stepward.validator import ProgramValidator, Verdict
from stepward.vm import Program

PROVED, VIOLATED, UNKNOWN = Verdict.PROVED, Verdict.VIOLATED, Verdict.UNKNOWN
LINES = {"type": "array", "items": {"type": "string"}}


def verdict_of(spec: dict[str, Any], when: str, *, by_tool: bool = False) -> Verdict:
    """Return whether a run can call a tool when something holds of an input, or of the output of a tool."""
    read = {"id": "get", "type": "tool", "tool": "get", "output_key": "x"}
    program = Program.from_dict(
        {
            "language": 2,
            "inputs": {} if by_tool else {"x": spec},
            "tools": {"pay": {"effect": "write"}, "get": {"effect": "read", "returns": spec}},
            "guardrails": [{"name": "r", "never": {"tool": "pay"}}],
            "steps": [
                *([read] if by_tool else []),
                {"id": "c", "type": "condition", "condition": when, "then": "p", "otherwise": "e"},
                {"id": "p", "type": "tool", "tool": "pay"},
                {"id": "e", "type": "end"},
            ],
        }
    )
    (found,) = [one for one in ProgramValidator(program).validate().properties if one.rule == "r"]
    assert found.rechecked or found.verdict is not Verdict.PROVED, "the second checker refuses the proof"
    return found.verdict


@pytest.mark.one_in(3)
@pytest.mark.parametrize("by_tool", [False, True])
@pytest.mark.parametrize(
    ("spec", "when", "verdict"),
    [
        ({"type": "number", "exclusiveMinimum": 0}, "$x <= 0", PROVED),
        ({"type": "number", "exclusiveMinimum": 0}, "$x < 0.001", VIOLATED),
        ({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}, "$x == 0 or $x == 1 or $x > 2", PROVED),
        ({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}, "$x > 0.5", VIOLATED),
        ({"type": "number", "minimum": 1, "exclusiveMinimum": 0}, "$x < 1", PROVED),
        ({"type": "number", "minimum": 1, "exclusiveMinimum": 0}, "$x == 1", VIOLATED),
        ({"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 3}, "$x != 1 and $x != 2", PROVED),
        ({"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 3}, "$x * $x == 4", VIOLATED),
        ({"type": "number", "exclusiveMinimum": 0}, "$x + $x <= 0", PROVED),
        ({"type": "string", "minLength": 1}, "$x == ''", PROVED),
        ({"type": "string", "minLength": 3}, "len($x) < 3 or $x == 'ab'", PROVED),
        ({"type": "string", "minLength": 3}, "len($x) == 3 and $x starts_with 'ab'", VIOLATED),
        ({"type": "string", "minLength": 2, "maxLength": 2}, "len($x) != 2", PROVED),
        ({"type": "string", "minLength": 5_000}, "$x == 'a'", UNKNOWN),
        ({**LINES, "minItems": 1}, "len($x) == 0", PROVED),
        ({**LINES, "minItems": 2, "maxItems": 3}, "len($x) < 2 or len($x) > 3", PROVED),
        ({**LINES, "minItems": 2, "maxItems": 3}, "len($x) == 3", VIOLATED),
        ({**LINES, "maxItems": 0}, "'a' in $x", PROVED),
        ({**LINES, "minItems": 1}, "'a' in $x", VIOLATED),
        ({"const": "a"}, "$x != 'a'", PROVED),
        ({"type": "string", "enum": ["A", "b "]}, "lower(trim($x)) not in ['a', 'b']", PROVED),
        ({"type": "string", "enum": ["A", "b"]}, "upper($x) == 'B'", VIOLATED),
        ({"type": "string", "enum": ["A", "b"]}, "matches($x, '^[a-z]$') and $x == 'A'", PROVED),
        ({"type": "string"}, "lower($x) == 'a' and lower($x) == 'b'", PROVED),
        ({"type": "string"}, "matches($x, '^a') and not matches($x, '^a')", PROVED),
        (LINES, "join($x, ', ') == 'a' and join($x, ', ') == 'b'", PROVED),
        ({"type": "string"}, "matches($x, '^a') and not ($x starts_with 'a')", PROVED),
    ],
)
def test_the_verdict(spec: dict[str, Any], when: str, verdict: Verdict, *, by_tool: bool) -> None:
    assert verdict_of(spec, when, by_tool=by_tool) is verdict


TEXT: dict[str, Any] = {"type": "string"}


@pytest.mark.one_in(3)
@pytest.mark.parametrize("by_tool", [False, True])
@pytest.mark.parametrize(
    ("spec", "when", "verdict"),
    [
        (TEXT, "not ('REF-' + $x starts_with 'REF')", PROVED),
        (TEXT, "'REF-' + $x + '!' == 'REF-a!' and $x != 'a'", PROVED),
        (TEXT, "'REF-' + $x == 'REF-a'", VIOLATED),
        (TEXT, "$x + $x contains 'ab' and not ($x contains 'ab') and not ($x starts_with 'b')", PROVED),
        (TEXT, "$x + $x contains 'ab' and not ($x contains 'ab')", VIOLATED),
        (TEXT, "len($x + '12') != len($x) + 2", PROVED),
        (TEXT, "len($x + $x) == 4 and $x == 'abc'", PROVED),
        (TEXT, "lower($x) + 'a' == 'ba' and lower($x) != 'b'", PROVED),
        (TEXT, "$x + '-' == '-' and $x != ''", PROVED),
        ({"type": "string", "enum": ["a", "b"]}, "$x + $x not in ['aa', 'ab', 'ba', 'bb']", PROVED),
        ({"type": "string", "enum": ["a", "b"]}, "$x + '-' + $x == 'b-b'", VIOLATED),
        ({"type": "number", "minimum": 1}, "$x + 1 < 2", PROVED),
        (LINES, "not ('a' in $x + ['a'])", PROVED),
        (LINES, "'a' in $x + ['b'] and not ('a' in $x)", PROVED),
        (LINES, "'b' in ['a'] + $x", VIOLATED),
        (LINES, "len($x + $x + ['a']) < 1", PROVED),
        (LINES, "len($x + ['a']) == 3", VIOLATED),
    ],
)
def test_what_plus_joins(spec: dict[str, Any], when: str, verdict: Verdict, *, by_tool: bool) -> None:
    assert verdict_of(spec, when, by_tool=by_tool) is verdict
