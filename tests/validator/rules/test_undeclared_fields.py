"""Fields of declared objects read through copies: a `set`, an item, an input of a call, a carried value (SW202)."""

from __future__ import annotations

from typing import Any

import pytest

from machines import unchecked
from stepward.validator import ProgramValidator, Report, Verdict
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


# -- items of arrays that `+` joins ------------------------------------------------------------------------------------

CLOSED: dict[str, Any] = {**OBJECT, "additionalProperties": False}

JOINED: dict[str, list[Any]] = {
    "two": ["$rows + $more"],
    "three": ["$rows + $more + $rows"],
    "none": ["$rows + []"],
    "built": ["$rows + [$o]"],
    "copied": ["$rows + $more", "$w0"],
    "grown": ["$rows", "$w0 + $more"],
}


def _joined(way: str, field: str, *, is_closed: bool, is_item: bool = True) -> Report:
    """Check a payment of a field of the items of a joined array, or a condition on its first item."""
    sets = [{"id": f"s{at}", "type": "set", "set": {f"w{at}": value}} for at, value in enumerate(JOINED[way])]
    listed = f"$w{len(sets) - 1}"
    pay = {"id": "pay", "type": "tool", "tool": "mail", "args": {"text": f"it is $r.{field}"}}
    each = {"id": "each", "type": "for_each", "items": listed, "as": "r", "max_items": 3, "do": pay}
    asked = f"len({listed}) > 0 and {listed}[0].{field} == {listed}[0].{field}"
    ask = {"id": "ask", "type": "condition", "condition": asked, "then": "done"}
    one = CLOSED if is_closed else OBJECT
    inputs = {"o": one, "rows": {"type": "array", "items": one}, "more": {"type": "array", "items": one}}
    steps = [*sets, each if is_item else ask, {"id": "done", "type": "end"}]
    rule = {"name": "never", "never": {"tool": "mail"}}
    data = {"name": "p", "language": 2, "inputs": inputs, "tools": TOOLS, "guardrails": [rule], "steps": steps}
    return ProgramValidator(Program.from_dict(data)).validate()


@pytest.mark.one_in(3)
@pytest.mark.parametrize("way", JOINED)
@pytest.mark.parametrize("is_item", [True, False])
@pytest.mark.parametrize(
    ("field", "is_closed", "code"),
    [
        ("amount", False, None),
        ("amount", True, None),
        ("note", False, "SW202"),
        ("note", True, "SW202"),
        ("amout", False, "SW202"),
        ("amout", True, "SW201"),
    ],
)
def test_a_field_of_an_item_of_a_joined_array_is_one_of_its_parts(
    way: str, is_item: bool, field: str, is_closed: bool, code: str | None
) -> None:
    """Where no part has it, it never exists, and no item is paid; where all have it, a test of the length is enough."""
    report = _joined(way, field, is_closed=is_closed, is_item=is_item)
    found = {one.code for one in report.findings} & {"SW201", "SW202", "SW902"}
    assert found == (set() if code is None else {code})
    if code == "SW201" and is_item:
        assert [(one.verdict, one.rechecked) for one in report.properties] == [(Verdict.PROVED, True)]


@pytest.mark.parametrize("other", ["[1]", "['a']", "[{'amount': 1}]"])
def test_a_field_that_one_part_of_a_joined_array_never_has_may_be_absent(other: str) -> None:
    """The parts need not be alike."""
    steps = [
        {"id": "s", "type": "set", "set": {"w": "$rows + $other"}},
        {"id": "each", "type": "for_each", "items": "$w", "as": "r", "max_items": 3, "do": _mail("$r.note")},
        {"id": "done", "type": "end"},
    ]
    kinds = {"[1]": {"type": "number"}, "['a']": {"type": "string"}}
    both = {**CLOSED, "required": ["amount", "note"]}
    listed = {"type": "array", "items": kinds.get(other, CLOSED)}
    inputs = {"rows": {"type": "array", "items": both}, "other": listed}
    data = {"name": "p", "language": 2, "inputs": inputs, "tools": TOOLS, "steps": steps}
    found = [one.code for one in ProgramValidator(Program.from_dict(data)).validate().findings]
    assert "SW202" in found


# -- objects that may be null ------------------------------------------------------------------------------------------

ABSENT_OR: dict[str, Any] = {**OBJECT, "type": ["object", "null"]}

HOLDERS: dict[str, tuple[dict[str, Any] | None, str]] = {
    "itself": (None, "$o"),
    "a copy": ({"w": "$o"}, "$w"),
    "a copy of a field": ({"w": "$deep.o"}, "$w"),
    "a part": ({"w": {"a": "$o"}}, "$w.a"),
    "a changed object": ({"deep.n": 1}, "$deep.o"),
}


@pytest.mark.parametrize("holder", HOLDERS)
@pytest.mark.parametrize(("field", "is_found"), [("amount", False), ("note", True), ("amout", True)])
@pytest.mark.parametrize("is_one", [True, False])
def test_an_object_that_is_not_null_has_what_its_type_requires(
    holder: str, field: str, is_found: bool, is_one: bool
) -> None:
    """A field was taken for required because it is read, where the object is copied or built."""
    sets, read = HOLDERS[holder]
    tests = [f"{read} != null and {read}.{field} == {read}.{field}"]
    tests = tests if is_one else [f"{read} != null", f"{read}.{field} == {read}.{field}"]
    asks = [
        {"id": f"c{at}", "type": "condition", "condition": test, "then": f"c{at + 1}", "otherwise": "done"}
        for at, test in enumerate(tests)
    ]
    asks[-1]["then"] = "paid"
    deep = {"type": "object", "properties": {"o": ABSENT_OR, "n": {"type": "number"}}, "required": ["o"]}
    tools = {**TOOLS, "find": {"effect": "read", "returns": deep}}
    steps = [
        {"id": "find", "type": "tool", "tool": "find", "output_key": "deep"},
        *([{"id": "copy", "type": "set", "set": sets}] if sets else []),
        *asks,
        {"id": "paid", "type": "tool", "tool": "pay", "next_step": "done"},
        {"id": "done", "type": "end"},
    ]
    data = {"name": "p", "language": 2, "inputs": {"o": ABSENT_OR}, "tools": tools, "steps": steps}
    found = [one.code for one in ProgramValidator(Program.from_dict(data)).validate().findings]
    assert ("SW202" in found) is is_found
    assert not {"SW902", "SW903"} & set(found)
