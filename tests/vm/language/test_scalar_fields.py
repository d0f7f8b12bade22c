"""Fields of one kind of value take no other: no number takes `true`, no text takes a number.

Python has `True == 1` and `2.0 == 2`, so a comparison alone lets them pass. Every field of programs and policies that
takes a text, a number or a boolean is given the values of the other kinds; the schemas say which fields there are.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any, Final

import pytest

from stepward.vm import Policy, Program
from stepward.vm.errors import DocumentError

SPECS = Path(__file__).parents[3] / "specs"
KINDS: Final = ("string", "integer", "number", "boolean")

PROGRAM: dict[str, Any] = {
    "name": "whole",
    "description": "text",
    "version": "1",
    "language": 2,
    "max_steps": 9,
    "max_stalled_steps": 9,
    "max_tokens": 9,
    "max_cost": 2,
    "timeout_seconds": 7,
    "inputs": {
        "whole": {"type": "integer", "minimum": 1, "maximum": 3},
        "text": {"type": "string", "minLength": 1, "maxLength": 4, "pattern": "a", "sensitive": True},
        "list": {"type": "array", "minItems": 1, "maxItems": 3, "items": {"type": "integer"}},
        "real": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 5},
    },
    "tools": {
        "ask": {"effect": "read", "idempotent": True, "suspends": True, "echoes": False, "errors": ["Busy"]},
        "pay": {"effect": "write", "idempotent": True},
    },
    "programs": {
        "other": {
            "name": "other",
            "language": 2,
            "steps": [{"id": "done", "type": "end", "outcome": "success"}],
        }
    },
    "guardrails": [
        {"name": "r1", "protects": {"tool": "pay"}, "requires": {"step": "choose", "branch": "then"}, "fresh": False},
        {"name": "r2", "followed_by": {"first": {"tool": "ask"}, "then": {"effect": "write"}}, "ends": "any"},
        {"name": "r3", "never": {"tool": "pay"}, "when": "$whole > 5"},
    ],
    "steps": [
        {
            "id": "look",
            "type": "tool",
            "tool": "ask",
            "deadline_seconds": 5,
            "retry": [
                {"errors": ["any"], "max_attempts": 2, "delay_seconds": 1, "backoff": 2, "max_delay_seconds": 4},
            ],
            "output_key": "found",
            "max_visits": 2,
            "catch": [{"errors": ["any"], "then": "wait"}],
            "next_step": "write",
        },
        {
            "id": "write",
            "type": "llm",
            "prompt": "Well?",
            "system": "Be short.",
            "model": "small",
            "temperature": 1,
            "max_output_tokens": 5,
            "cache": True,
            "allowed_outputs": ["a", "b"],
            "on_error": "retry",
            "max_retries": 2,
            "timeout_seconds": 5,
            "on_timeout": "fallback",
            "fallback": "a",
            "error_step": "wait",
            "next_step": "wait",
        },
        {"id": "wait", "type": "wait", "seconds": 5, "next_step": "until"},
        {"id": "until", "type": "wait", "until": "2027-01-01T00:00:00Z", "next_step": "both"},
        {
            "id": "both",
            "type": "parallel",
            "max_concurrency": 2,
            "parallel_steps": [
                {"id": "one", "type": "tool", "tool": "pay"},
                {"id": "two", "type": "tool", "tool": "pay", "depends_on": ["one"]},
            ],
            "next_step": "each",
        },
        {
            "id": "each",
            "type": "for_each",
            "items": "$list",
            "as": "item",
            "index_as": "number",
            "max_items": 4,
            "max_concurrency": 2,
            "on_item_error": "skip",
            "do": {"id": "inner", "type": "tool", "tool": "pay"},
            "next_step": "ask_other",
        },
        {"id": "ask_other", "type": "call", "program": "other", "next_step": "choose"},
        {"id": "choose", "type": "condition", "condition": "$whole > 1", "then": "cases", "otherwise": "count"},
        {
            "id": "cases",
            "type": "condition",
            "cases": [{"when": "$whole > 2", "then": "count", "name": "large"}],
            "otherwise": "done",
            "exclusive": True,
        },
        {"id": "count", "type": "compute", "lisp": "1", "is_terminal": True, "outcome": "failure"},
        {"id": "done", "type": "end"},
    ],
}
POLICY: dict[str, Any] = {
    "policy": "p",
    "description": "text",
    "applies_to": ["*"],
    "tools": {"ask": {"effect": "read"}},
    "allow": ["ask", {"tool": "pay", "when": "$args.x > 1"}],
    "four_eyes": ["pay"],
    "requires_deadline": True,
    "guardrails": [{"name": "r", "never": {"tool": "pay"}}],
    "waivers": [{"program": "x", "rule": "r", "reason": "why", "expiry": "2099-12-31"}],
}

ONLY_THE_MACHINE: Final = {"file", "program_digest", "continues", "already", "performed", "level"}
"""Fields that a program or a policy file can't have."""

ALSO: Final[dict[str, tuple[type, ...]]] = {
    "fallback": (bool, int, float, str, list),
    "items": (bool, int, float, str, list),
    "branch": (int,),
}
"""Fields that take values of more kinds, and those: any value, and the number of a case."""


def is_fine(path: tuple[Any, ...], value: Any) -> bool:
    """Return whether a field takes values of that kind, too: a type of values may be a list of types."""
    is_list_of_types = path[0] == "inputs" and path[-1] == "type" and isinstance(value, list)
    return is_list_of_types or type(value) in ALSO.get(str(path[-1]), ())


DOCUMENTS: dict[str, tuple[dict[str, Any], Callable[[dict[str, Any]], object]]] = {
    "program": (PROGRAM, Program.from_dict),
    "policy": (POLICY, Policy.from_dict),
}


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    if not isinstance(value, dict | list):
        yield path, value
    for key, inner in parts:
        yield from leaves(inner, (*path, key))


def others(value: Any) -> tuple[Any, ...]:
    """Return values of other kinds than a value has: those that Python calls equal, and those that it would convert."""
    if isinstance(value, bool):
        return 0, 1, 1.0, "true", [value]
    if isinstance(value, str):
        return True, False, 1, 1.5, [value]
    return True, False, str(value), [value]


def changed(data: dict[str, Any], path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    found: Any = deepcopy(data)
    whole = found
    for key in path[:-1]:
        found = found[key]
    found[path[-1]] = value
    return whole  # type: ignore[no-any-return]


FIELDS = [(kind, path) for kind, (data, _) in DOCUMENTS.items() for path, _ in leaves(data)]


@pytest.mark.parametrize("kind", DOCUMENTS)
def test_unchanged_the_documents_are_accepted(kind: str) -> None:
    """Else each change would be refused with them, whatever it is."""
    data, build = DOCUMENTS[kind]
    build(data)


@pytest.mark.parametrize(("kind", "path"), FIELDS, ids=[".".join(map(str, path)) for _, path in FIELDS])
def test_a_field_takes_no_value_of_another_kind(kind: str, path: tuple[Any, ...]) -> None:
    data, build = DOCUMENTS[kind]
    (value,) = [one for at, one in leaves(data) if at == path]
    for other in (one for one in others(value) if not is_fine(path, one)):
        with pytest.raises(DocumentError) as refused:
            build(changed(data, path, other))
        assert {one.code for one in refused.value.problems} == {"SW002"}, other
        assert all(one.help for one in refused.value.problems)


def test_a_field_of_a_whole_number_takes_no_fraction() -> None:
    whole = _fields("program", {"integer"}) - _fields("program", {"number"})
    fields = [one for one in leaves(PROGRAM) if type(one[1]) is int and one[0][-1] in whole - {"fallback"}]
    assert len(fields) > 10
    for path, value in fields:
        for other in (float(value), value + 0.5):
            with pytest.raises(DocumentError, match="must be a whole number"):
                Program.from_dict(changed(PROGRAM, path, other))


def test_the_language_is_a_whole_number() -> None:
    for value, help_ in (
        (True, "write a whole number"),
        (2.0, "write a whole number"),
        ("2", "write it without quotes"),
    ):
        with pytest.raises(DocumentError) as refused:
            Program.from_dict({"language": value, "steps": [{"id": "done", "type": "end"}]})
        (problem,) = refused.value.problems
        assert problem.message.startswith("`language` must be a whole number, not ")
        assert problem.help == help_
    for kind in ("language: true", "language: 2.0"):
        with pytest.raises(DocumentError, match="must be a whole number"):
            Program.from_yaml(f"{kind}\nsteps: [{{id: done, type: end}}]")


def _fields(kind: str, kinds: set[str]) -> set[str]:
    """Return the names of the fields of a schema that take one of some kinds of single values."""
    schema = json.loads((SPECS / f"{kind}.schema.json").read_text())
    found: set[str] = set()

    def words(spec: Any) -> set[str]:
        if not isinstance(spec, dict):
            return set()
        own = spec.get("type", [])
        known = {own} if isinstance(own, str) else set(own)
        known |= {"string" if isinstance(one, str) else "integer" for one in spec.get("enum", [])}
        for inner in (*spec.get("anyOf", ()), *spec.get("oneOf", ())):
            known |= words(inner)
        return known

    pending: list[Any] = [schema]
    while pending:
        spec = pending.pop()
        if isinstance(spec, dict):
            properties = spec.get("properties")
            if isinstance(properties, dict):
                found |= {name for name, inner in properties.items() if words(inner) & kinds}
            pending.extend(spec.values())
        elif isinstance(spec, list):
            pending.extend(spec)
    return found


@pytest.mark.parametrize("kind", DOCUMENTS)
def test_every_field_is_tried(kind: str) -> None:
    tried = {name for _, path in FIELDS for name in path}
    assert _fields(kind, set(KINDS)) - ONLY_THE_MACHINE <= tried
