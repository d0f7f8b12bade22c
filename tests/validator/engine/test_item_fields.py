"""A field of an item is decided like a field of an input: each type with each question, at each place of the object."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from sizes import MANY
from stepward.validator import ProgramValidator, Verdict
from stepward.validator.engine.systems import between
from stepward.vm import Program

TYPES: dict[str, dict[str, Any]] = {
    "number": {"type": "number", "minimum": 0, "maximum": 100},
    "integer": {"type": "integer", "minimum": 0, "maximum": 10},
    "text": {"type": "string", "maxLength": 9},
    "pattern": {"type": "string", "pattern": "^ORD-[0-9]{3}$"},
    "enum": {"enum": ["a", "b"]},
    "boolean": {"type": "boolean"},
    "nullable": {"type": ["number", "null"], "minimum": 0, "maximum": 100},
    "list": {"type": "array", "items": {"type": "string", "maxLength": 3}, "maxItems": 2},
    "object": {"type": "object", "properties": {"n": {"type": "number", "maximum": 5}}, "required": ["n"]},
}

QUESTIONS: dict[str, dict[str, bool]] = {
    "number": {
        "F > 100": False,
        "F > 50": True,
        "F < 0": False,
        "F + 1 > 101": False,
        "F * 2 > 150": True,
        "F in [1, 200]": True,
        "F > G": True,
    },
    "integer": {"F == 0.5": False, "F > 10": False, "F > 9": True},
    "text": {"len(F) > 9": False, "len(F) > 8": True, "F starts_with 'x'": True, "F contains 'xxxxxxxxxx'": False},
    "pattern": {"not (F starts_with 'ORD-')": False, "F == 'ORD-123'": True, "len(F) != 7": False},
    "enum": {"F == 'c'": False, "F == 'a'": True, "F not in ['a', 'b']": False},
    "boolean": {"F": True, "F and not F": False},
    "nullable": {"F == null": True, "F != null and F > 100": False, "F != null and F > 50": True},
    "list": {"len(F) > 2": False, "len(F) > 1": True, "F contains 'abcd'": False, "F contains 'abc'": True},
    "object": {"F.n > 5": False, "F.n > 4": True},
}
"""Questions about the fields F and G of a type, and whether some values answer them with yes."""

ACT: dict[str, Any] = {"id": "act", "type": "tool", "tool": "act"}
CALL: dict[str, Any] = {"id": "part", "type": "call", "program": "sub", "args": {"x": "$one"}}


def each(name: str, items: str, *steps: dict[str, Any]) -> dict[str, Any]:
    """Return a for_each step over a list of at most three items."""
    return {"id": f"each_{name}", "type": "for_each", "items": items, "as": name, "max_items": 3, "steps": list(steps)}


def listed(spec: dict[str, Any]) -> dict[str, Any]:
    """Return the type of a list of one to three items."""
    return {"type": "array", "minItems": 1, "maxItems": 3, "items": spec}


def at_place(place: str, spec: dict[str, Any]) -> tuple[str, dict[str, Any], list[dict[str, Any]]]:
    """Return the name of an object at a place, and the inputs and steps of a program that has it there."""
    many = {"l": listed(spec)}
    match place:
        case "input":
            return "$x", {"x": spec}, [ACT]
        case "item":
            return "$x", many, [each("x", "$l", ACT)]
        case "item of an output":
            load = {"id": "load", "type": "tool", "tool": "load", "output_key": "l"}
            return "$x", {}, [load, each("x", "$l", ACT)]
        case "item of an item":
            outer = {"type": "object", "properties": many, "required": ["l"]}
            return "$x", {"o": listed(outer)}, [each("outer", "$o", each("x", "$outer.l", ACT))]
        case "copy of an item":
            return "$x", many, [each("one", "$l", {"id": "copy", "type": "set", "set": {"x": "$one"}}, ACT)]
        case "item by its index":
            return "$l[0]", many, [ACT]
        case "in a branch":
            return "$x", {"x": spec}, [{"id": "fork", "type": "parallel", "branches": {"one": {"steps": [ACT]}}}]
        case "in a call":
            return "$x", {"one": spec}, [CALL]
        case _:
            assert place == "item in a call"
            return "$x", many, [each("one", "$l", CALL)]


PLACES = (
    "input",
    "item",
    "item of an output",
    "item of an item",
    "copy of an item",
    "item by its index",
    "in a branch",
    "in a call",
    "item in a call",
)
CASES = list(
    product(PLACES, ((kind, question) for kind, asked in QUESTIONS.items() for question in asked), (True, False))
)
BY_DAY = 11
"""Of so many cases one is tried by day; the number is prime to those of places and questions, so that each is met."""


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("place", "asked", "is_required"), CASES if MANY else CASES[::BY_DAY])
def test_a_rule_on_a_field_is_decided_at_each_place(place: str, asked: tuple[str, str], is_required: bool) -> None:
    kind, question = asked
    fields = {"f": TYPES[kind], "g": TYPES[kind]}
    spec = {"type": "object", "properties": fields, "required": ["f", "g"] if is_required else []}
    name, inputs, steps = at_place(place, spec)
    when = question if is_required else f"defined(F) and defined(G) and ({question})"
    when = when.replace("F", f"{name}.f").replace("G", f"{name}.g")
    rules = [{"name": "rule", "never": {"tool": "act"}, "when": when}]
    tools = {"act": {"effect": "write", "idempotent": True}, "load": {"effect": "read", "returns": listed(spec)}}
    made = {"name": "t", "language": 2, "inputs": inputs, "tools": tools, "steps": [*steps, {"id": "z", "type": "end"}]}
    if CALL in steps or CALL in steps[-1].get("steps", ()):
        made["programs"] = {"sub": {"inputs": {"x": spec}, "guardrails": rules, "steps": [ACT]}}
    else:
        made["guardrails"] = rules
    result = ProgramValidator(Program.from_dict(made)).validate()
    (found,) = [one for one in result.properties if one.rule is not None and one.rule.endswith("rule")]
    assert found.verdict.value == ("violated" if QUESTIONS[kind][question] else "proved"), result.findings
    assert found.rechecked is (not QUESTIONS[kind][question])


PAIRS = [{"k": "a", "v": 1}, {"k": "b", "v": 2}]
WRITTEN: list[tuple[list[Any], dict[str, bool]]] = [
    ([1, 2, 3], {"$i > 3": False, "$i > 2": True, "$i in [1, 2]": True, "$i == 1.5": False, "$i + 1 > 4": False}),
    (["a", "bc"], {"$i == 'c'": False, "$i == 'bc'": True, "len($i) > 2": False, "$i contains 'c'": True}),
    (["$$5", "b"], {"$i == '$$5'": False, "$i == '$5'": True}),
    (PAIRS, {"$i.k == 'a' and $i.v == 2": False, "$i.k == 'b' and $i.v == 2": True, "$i.v > 2": False}),
    ([{"f": 1}, {}], {"defined($i.f)": True, "defined($i.g)": False, "defined($i.f) and $i.f != 1": False}),
    ([[1], [2, 3]], {"len($i) > 2": False, "len($i) > 1": True, "$i contains 4": False, "$i contains 3": True}),
    ([True, True], {"not $i": False, "$i": True}),
    ([None, 1], {"$i == null": True, "$i != null and $i > 1": False}),
    (["$n", 12], {"$i > 12": False, "$i > 11": True, "$i < 0": False}),
    (["$t", "b"], {"$i == 'c'": False, "$i == 'b'": True}),
    ([{"f": "$n"}, {"f": 3}], {"$i.f > 9": False, "$i.f < 0": False}),
    (list(range(40)), {"$i > 39": False, "$i > 0": True, "$i < 0": False}),
]
"""Lists that are written down, with questions about an item, and whether some item answers them with yes."""
HOW = ("one after another", "at once", "in a call", "in an item")
WRITTEN_CASES = [
    (how, number, question) for number, (_, asked) in enumerate(WRITTEN) for question in asked for how in HOW
]
"""By day one of five is tried: five has no factor in common with the number of ways, so that each is met."""


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("how", "number", "question"), WRITTEN_CASES if MANY else WRITTEN_CASES[::5])
def test_an_item_of_a_list_that_is_written_down_is_one_of_it(how: str, number: int, question: str) -> None:
    items, asked = WRITTEN[number]
    body = {"id": "each", "type": "for_each", "items": items, "as": "i", "max_items": 40, "steps": [ACT]}
    inputs = {"n": {"type": "integer", "minimum": 0, "maximum": 9}, "t": {"enum": ["a", "b"]}}
    rules = [{"name": "rule", "never": {"tool": "act"}, "when": question}]
    tools = {"act": {"effect": "write", "idempotent": True}}
    made: dict[str, Any] = {"name": "t", "language": 2, "inputs": inputs, "tools": tools, "guardrails": rules}
    made["steps"] = [body | ({"max_concurrency": 2} if how == "at once" else {})]
    if how == "in a call":
        made["programs"] = {"sub": {"inputs": inputs, "guardrails": rules, "steps": [body]}}
        called = {"id": "part", "type": "call", "program": "sub", "args": {"n": "$n", "t": "$t"}}
        made |= {"steps": [called], "guardrails": []}
    elif how == "in an item":
        made["steps"] = [{"id": "o", "type": "for_each", "items": [7, 8], "as": "x", "max_items": 2, "steps": [body]}]
    result = ProgramValidator(Program.from_dict(made)).validate()
    (found,) = [one for one in result.properties if one.rule is not None and one.rule.endswith("rule")]
    assert found.verdict.value == ("violated" if asked[question] else "proved"), result.findings
    assert found.rechecked is (not asked[question])


def test_a_wrong_item_of_the_engine_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    each = {"id": "each", "type": "for_each", "items": [1, 2, 3], "as": "i", "max_items": 3, "steps": [ACT]}
    rules = [{"name": "rule", "never": {"tool": "act"}, "when": "$i > 1"}]
    tools = {"act": {"effect": "write", "idempotent": True}}
    made = {"name": "t", "language": 2, "inputs": {}, "tools": tools, "guardrails": rules, "steps": [each]}
    monkeypatch.setattr(between, "written_items", lambda _: [1])
    (found,) = [one for one in ProgramValidator(Program.from_dict(made)).validate().properties if one.rule == "rule"]
    assert found.verdict is Verdict.UNKNOWN
    assert "second checker" in found.evidence.reason
