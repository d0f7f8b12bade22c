"""Fields of declared objects read through copies: a `set`, an item, an input of a call, a carried value (SW202)."""

from __future__ import annotations

from typing import Any

import pytest

from machines import unchecked
from stepward.validator import ProgramValidator, Report
from stepward.vm import MemoryJournal, Program

OBJECT: dict[str, Any] = {
    "type": "object",
    "properties": {"amount": {"type": "number"}, "note": {"type": "string"}},
    "required": ["amount"],
}
TOOLS: dict[str, Any] = {
    "get": {"effect": "read", "returns": OBJECT},
    "pay": {"effect": "write", "idempotent": True},
    "mail": {"effect": "write", "idempotent": True, "args": {"text": {"type": "string"}}},
}
RULE = {"name": "told", "followed_by": {"first": {"tool": "pay"}, "then": {"tool": "mail"}}}


def _mail(reference: str, **more: Any) -> dict[str, Any]:
    return {"id": "mail", "type": "tool", "tool": "mail", "args": {"text": f"it is {reference}"}, **more}


def _shape(shape: str, field: str) -> dict[str, Any]:
    """Return the steps behind the payment, and what else the program has: a mail names a field of a copy."""
    copy = {"id": "copy", "type": "set", "set": {"p": "$o"}}
    called = {"inputs": {"p": OBJECT}, "tools": TOOLS, "steps": [_mail(f"$p.{field}", is_terminal=True)]}
    each = {"id": "each", "type": "for_each", "items": "$list", "as": "one"}
    match shape:
        case "itself":
            return {"steps": [_mail(f"$o.{field}")]}
        case "copy":
            return {"before": [copy], "steps": [_mail(f"$p.{field}")]}
        case "copy of a copy":
            return {"before": [copy, {"id": "c", "type": "set", "set": {"q": "$p"}}], "steps": [_mail(f"$q.{field}")]}
        case "copy of an output":
            got = [
                {"id": "got", "type": "tool", "tool": "get"},
                {"id": "c", "type": "set", "set": {"q": "$got.output"}},
            ]
            return {"before": got, "steps": [_mail(f"$q.{field}")]}
        case "part":
            return {"before": [{**copy, "set": {"p": {"a": "$o"}}}], "steps": [_mail(f"$p.a.{field}")]}
        case "item":
            return {"steps": [{**each, "steps": [_mail(f"$one.{field}", is_terminal=True)]}]}
        case "item of a list that is built":
            made = {"id": "made", "type": "set", "set": {"made": "[$o]"}}
            body = {**each, "items": "$made", "max_items": 1, "steps": [_mail(f"$one.{field}", is_terminal=True)]}
            return {"before": [made], "steps": [body]}
        case "input of a call":
            call = {"id": "call", "type": "call", "program": "other", "args": {"p": "$o"}}
            return {"programs": {"other": called}, "steps": [call]}
        case _:
            body = [_mail(f"$p.{field}"), {"id": "s", "type": "set", "set": {"p": "$one"}, "is_terminal": True}]
            return {"steps": [{**each, "carry": {"p": "$o"}, "steps": body}]}


SHAPES = (
    "itself",
    "copy",
    "copy of a copy",
    "copy of an output",
    "part",
    "item",
    "item of a list that is built",
    "input of a call",
    "carried",
)


def _program(shape: str, field: str) -> Program:
    more = _shape(shape, field)
    pay = {"id": "pay", "type": "tool", "tool": "pay"}
    steps = [*more.pop("before", []), pay, *more.pop("steps"), {"id": "done", "type": "end"}]
    listed = {"type": "array", "minItems": 1, "maxItems": 2, "items": OBJECT}
    inputs = {"o": OBJECT, "list": listed}
    head = {"name": "p", "language": 2, "inputs": inputs, "tools": TOOLS, "guardrails": [RULE]}
    return Program.from_dict({**head, **more, "steps": steps})


def _said(report: Report) -> dict[str, str]:
    return {
        one.code: f"{one.message}; {one.help}" for one in report.findings if one.code in ("SW202", "SW405", "SW902")
    }


@pytest.mark.parametrize("shape", SHAPES)
def test_a_misspelt_field_is_found(shape: str) -> None:
    """The help names the field that is meant, and the rule behind is broken."""
    found = _said(ProgramValidator(_program(shape, "amout")).validate())
    assert found.keys() == {"SW202", "SW405"}
    assert "its type declares no such field" in found["SW202"]
    assert "did you mean `" in found["SW202"]
    assert ".amount`" in found["SW202"]


@pytest.mark.parametrize("shape", SHAPES)
def test_a_field_that_may_be_absent_is_found(shape: str) -> None:
    """A field that is declared, and not required."""
    found = _said(ProgramValidator(_program(shape, "note")).validate())
    assert found.keys() == {"SW202", "SW405"}
    assert "its type does not require the field" in found["SW202"]


@pytest.mark.parametrize("shape", SHAPES)
def test_a_field_that_is_always_there_is_not_found(shape: str) -> None:
    """There is nothing to report."""
    assert _said(ProgramValidator(_program(shape, "amount")).validate()) == {}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("field", ["amout", "note"])
def test_the_machine_fails_where_the_field_is_absent(shape: str, field: str) -> None:
    """A run that breaks the rule, so that the findings are right."""
    tools = {"get": lambda: {"amount": 1}, "pay": lambda: None, "mail": lambda text: None}
    run = unchecked(tools, journal=MemoryJournal()).run_sync(
        _program(shape, field), {"o": {"amount": 1}, "list": [{"amount": 2}]}
    )
    assert run.status == "FAILED"
    assert [rule for rule, _ in run.broken] == ["told"]


def test_a_field_that_nobody_means_has_another_help() -> None:
    """It says where the field would have to stand."""
    found = _said(ProgramValidator(_program("copy", "colour")).validate())["SW202"]
    assert found.endswith("list `colour` under `properties` and `required` of the type of `$p`")
