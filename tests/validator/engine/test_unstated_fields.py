"""Fields of values of which nothing is declared, read where nothing asks for them: in texts and arguments."""

from __future__ import annotations

from typing import Any

import pytest

from stepward.validator import ProgramValidator, Verdict
from stepward.vm import Program

TOOLS: dict[str, Any] = {
    "get": {"effect": "read"},
    "pay": {"effect": "write", "idempotent": True},
    "note": {"effect": "write", "idempotent": True, "args": {"text": {}}},
}
RULE = {"name": "noted", "followed_by": {"first": {"tool": "pay"}, "then": {"tool": "note"}}}
READ = "$got.output.b"
GOT, PAID = {"id": "got", "type": "tool", "tool": "get"}, {"id": "paid", "type": "tool", "tool": "pay"}
EARLY: dict[str, Any] = {"id": "early", "type": "set", "set": {"b": READ}}
COPY: dict[str, Any] = {"id": "copy", "type": "set", "set": {"v": "$got.output"}}


def _note(text: Any) -> dict[str, Any]:
    return {"id": "noted", "type": "tool", "tool": "note", "args": {"text": text}}


def _ask(**texts: str) -> list[dict[str, Any]]:
    return [GOT, PAID, {"id": "ask", "type": "llm", "prompt": "Well?", **texts}, _note("x")]


def _built(**values: Any) -> dict[str, Any]:
    return {"id": "built", "type": "set", "set": values}


BROKEN: dict[str, list[dict[str, Any]]] = {
    "text of an argument": [GOT, PAID, _note(f"it is {READ}")],
    "argument": [GOT, PAID, _note(READ)],
    "field of an argument": [GOT, PAID, _note({"a": f"it is {READ}"})],
    "field of a field": [GOT, PAID, _note(f"it is {READ}.c")],
    "prompt": _ask(prompt=f"it is {READ}"),
    "system": _ask(system=f"it is {READ}"),
    "sub-step": [
        GOT,
        PAID,
        {"id": "all", "type": "parallel", "parallel_steps": [{"id": "one", "type": "llm", "prompt": f"it is {READ}"}]},
        _note("x"),
    ],
    "copied": [GOT, COPY, PAID, _note("it is $v.b")],
    "copied twice": [GOT, COPY, {"id": "c", "type": "set", "set": {"u": "$v"}}, PAID, _note("it is $u.b")],
    "built": [GOT, _built(v={"a": "$got.output"}), PAID, _note("it is $v.a.b")],
    "input": [PAID, _note("it is $any.b")],
    "item": [
        PAID,
        {"id": "each", "type": "for_each", "items": "$some", "as": "one", "max_items": 2, "do": _note("it is $one.b")},
    ],
}

KEPT: dict[str, list[dict[str, Any]]] = {
    "asked of the output": [GOT, {**EARLY, "set": {"b": f"{READ} == 1"}}, PAID, _note(f"it is {READ}")],
    "assigned before": [GOT, EARLY, PAID, _note("it is $b")],
    "read before": [GOT, {"id": "ask", "type": "llm", "prompt": f"it is {READ}"}, PAID, _note(f"it is {READ}")],
    "tested before": [
        GOT,
        {"id": "test", "type": "condition", "condition": f"defined({READ})", "then": "paid", "otherwise": "done"},
        {**PAID, "next_step": "noted"},
        {**_note(f"it is {READ}"), "next_step": "done"},
    ],
    "a part that is built": [GOT, _built(v={"a": 1, "g": "$got.output"}), PAID, _note("it is $v.a")],
    "the output itself": [GOT, PAID, _note("it is $got.output")],
    "as an argument of any type": [GOT, EARLY, PAID, _note("$b")],
    "the whole output as one": [GOT, PAID, _note("$got.output")],
    "an input as one": [PAID, _note("$any")],
    "an item as one": [
        PAID,
        {"id": "each", "type": "for_each", "items": "$some", "as": "one", "max_items": 2, "do": _note("$one")},
    ],
    "tested before, as an argument": [
        GOT,
        {"id": "test", "type": "condition", "condition": f"defined({READ})", "then": "paid", "otherwise": "done"},
        {**PAID, "next_step": "noted"},
        {**_note(READ), "next_step": "done"},
    ],
}


def _judged(steps: list[dict[str, Any]]) -> tuple[Any, set[str]]:
    inputs = {"any": {}, "some": {"type": "array", "minItems": 1, "maxItems": 2}}
    head = {"name": "p", "language": 2, "inputs": inputs, "tools": TOOLS, "guardrails": [RULE]}
    report = ProgramValidator(Program.from_dict({**head, "steps": [*steps, {"id": "done", "type": "end"}]})).validate()
    (found,) = [one for one in report.properties if one.rule == "noted"]
    return found, {one.code for one in report.findings}


@pytest.mark.parametrize("row", BROKEN)
def test_a_value_without_the_field_breaks_the_rule(row: str) -> None:
    """The step that reads it does not start. The run that shows it has a value without the field, or another one."""
    found, codes = _judged(BROKEN[row])
    assert found.verdict is Verdict.VIOLATED
    assert found.evidence.witness is not None
    assert not {"SW202", "SW902"} & codes


@pytest.mark.parametrize("row", KEPT)
def test_a_field_that_is_there_for_certain_keeps_it(row: str) -> None:
    """The second checker agrees."""
    found, codes = _judged(KEPT[row])
    assert found.verdict is Verdict.PROVED
    assert found.rechecked
    assert "SW202" not in codes
