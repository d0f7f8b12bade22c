"""Grid: a call takes an argument of a type, and its value was copied, built or given by a body: may it be refused?

Each source of the value by each type. A value that is surely of the type is never refused, so what must follow is
proved, and the second checker agrees. Where some value may be of another type, nothing is proved.
"""

from __future__ import annotations

from typing import Any

import pytest

from stepward.validator import ProgramValidator, Verdict
from stepward.vm import Program

Type = dict[str, Any]

TYPES: dict[str, tuple[Type, Type, Any]] = {
    "pattern": ({"type": "string", "pattern": "^[a-z]{2}$"}, {"type": "string", "pattern": "^[a-z]{2,3}$"}, "ab"),
    "enum": ({"type": "string", "enum": ["ab", "cd"]}, {"type": "string", "enum": ["ab", "ef"]}, "ab"),
    "length": ({"type": "string", "maxLength": 4}, {"type": "string", "maxLength": 5}, "ab"),
    "number": ({"type": "integer", "minimum": 1, "maximum": 3}, {"type": "integer", "minimum": 1, "maximum": 4}, 2),
    "array": (
        {"type": "array", "items": {"type": "integer"}, "maxItems": 2},
        {"type": "array", "items": {"type": "integer"}, "maxItems": 3},
        [1],
    ),
    "object": (
        {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
        {"type": "object", "properties": {"n": {"type": "number"}}, "required": ["n"]},
        {"n": 1},
    ),
}
"""A type, a neighbour that has other values, too, and a value of both."""

LOOK = {"type": "tool", "tool": "look", "error_step": "failed"}
FIRST: dict[str, Any] = {"id": "first", **LOOK, "output_key": "f"}
IN_BRANCH = [{"id": "q", "type": "tool", "tool": "look", "output_key": "f"}, {"id": "e", "type": "end", "output": "$f"}]


def branches(*steps: dict[str, Any]) -> dict[str, Any]:
    return {"id": "both", "type": "parallel", "branches": {"one": {"steps": list(steps)}}, "error_step": "failed"}


SOURCES: dict[str, tuple[list[dict[str, Any]], str]] = {
    "the output": ([FIRST], "$f"),
    "a copy": ([FIRST, {"id": "s", "type": "set", "set": {"g": "$f"}}], "$g"),
    "a copy of a copy": (
        [FIRST, {"id": "s", "type": "set", "set": {"g": "$f"}}, {"id": "t", "type": "set", "set": {"h": "$g"}}],
        "$h",
    ),
    "a field that is built": ([FIRST, {"id": "s", "type": "set", "set": {"g": {"a": "$f"}}}], "$g.a"),
    "a field of a copy of it": (
        [FIRST, {"id": "s", "type": "set", "set": {"g": {"a": "$f"}}}, {"id": "t", "type": "set", "set": {"h": "$g"}}],
        "$h.a",
    ),
    "a field that is assigned": (
        [
            FIRST,
            {"id": "s", "type": "set", "set": {"g": {"b": 1}}},
            {"id": "t", "type": "set", "set": {"g.a": "$f"}},
        ],
        "$g.a",
    ),
    "the output of a branch": ([branches(*IN_BRANCH)], "$one.output"),
    "a field of what branches give": ([branches(*IN_BRANCH)], "$both.output.one"),
    "a field that a branch builds": (
        [branches(IN_BRANCH[0], {"id": "e", "type": "end", "output": {"a": "$f"}})],
        "$one.output.a",
    ),
    "a copy of the output of a branch": (
        [branches(*IN_BRANCH), {"id": "s", "type": "set", "set": {"g": "$both.output.one"}}],
        "$g",
    ),
}


def verdict(steps: list[dict[str, Any]], read: str, given: Type, taken: Type) -> tuple[Verdict, bool]:
    data = {
        "name": "p",
        "language": 2,
        "inputs": {},
        "tools": {
            "look": {"effect": "read", "returns": given},
            "other": {"effect": "read", "returns": TYPES["length"][0]},
            "pay": {"effect": "write", "idempotent": True},
            "undo": {"effect": "write", "idempotent": True, "args": {"x": taken}},
        },
        "guardrails": [{"name": "r", "followed_by": {"first": {"tool": "pay"}, "then": {"tool": "undo"}}}],
        "steps": [
            *steps,
            {"id": "pays", "type": "tool", "tool": "pay", "error_step": "failed", "next_step": "undoes"},
            {"id": "undoes", "type": "tool", "tool": "undo", "args": {"x": read}, "next_step": "failed"},
            {"id": "failed", "type": "end", "outcome": "failure"},
        ],
    }
    report = ProgramValidator(Program.from_dict(data)).validate()
    assert not [one for one in report.findings if one.code in ("SW901", "SW902")]
    (found,) = [one for one in report.properties if one.rule == "r"]
    return found.verdict, bool(found.rechecked)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("source", SOURCES)
def test_what_is_surely_of_the_type_is_never_refused(source: str, kind: str) -> None:
    steps, read = SOURCES[source]
    given, _, _ = TYPES[kind]
    assert verdict(steps, read, given, given) == (Verdict.PROVED, True)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("source", SOURCES)
def test_what_may_be_of_another_type_may_be_refused(source: str, kind: str) -> None:
    steps, read = SOURCES[source]
    given, other, _ = TYPES[kind]
    assert verdict(steps, read, other, given)[0] is not Verdict.PROVED


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("is_fit", [True, False])
def test_a_second_source_counts(kind: str, is_fit: bool) -> None:
    """A value that the program writes, beside the copy of an output: both are of the type, or one may not be."""
    given, _, value = TYPES[kind]
    written = f"'{value}'" if isinstance(value, str) else value
    odd: Any = {"number": 9, "array": [1, 2, 3], "object": {"m": 1}}.get(kind, "'abcdef'")
    steps = [
        FIRST,
        {"id": "s", "type": "set", "set": {"g": "$f"}},
        {"id": "o", "type": "tool", "tool": "other", "output_key": "c", "error_step": "failed"},
        {"id": "if", "type": "condition", "condition": "$c == 'x'", "then": "t", "otherwise": "pays"},
        {"id": "t", "type": "set", "set": {"g": written if is_fit else odd}, "next_step": "pays"},
    ]
    found = verdict(steps, "$g", given, given)
    assert (found[0] is Verdict.PROVED) <= (is_fit and found[1])
    if kind not in ("array", "object"):
        assert (found[0] is Verdict.PROVED) is is_fit


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("is_built", [True, False])
def test_a_value_that_is_written_into_a_field_counts(kind: str, is_built: bool) -> None:
    """It is of no type that an argument has here."""
    given, _, _ = TYPES[kind]
    whole: Any = {"a": "$f"} if is_built else {"b": 1}
    steps = [
        FIRST,
        {"id": "s", "type": "set", "set": {"g": whole}},
        {"id": "t", "type": "set", "set": {"g.a": {"odd": [1, 2, 3]}}},
    ]
    assert verdict(steps, "$g.a", given, given)[0] is not Verdict.PROVED
