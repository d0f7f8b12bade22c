"""The second checker on built values: what it says of one holds whatever is put in, and says what is certain."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from stepward.validator import ProgramValidator, Verdict
from stepward.validator.recheck.blocks import TEXT, UNDEFINED, Block, meet, of_value
from stepward.validator.recheck.built import field_at
from stepward.validator.recheck.evaluation import FAILS, values
from stepward.vm import Program
from stepward.vm.errors import EvaluationError, UndefinedReferenceError
from stepward.vm.expressions.building import built
from stepward.vm.expressions.evaluator import evaluate
from stepward.vm.expressions.parser import parse
from stepward.vm.expressions.syntax import Expression, Reference
from stepward.vm.values import freeze

CHOICES: dict[tuple[str, ...], tuple[Any, ...]] = {("x",): (UNDEFINED, 1, "a", None, "abc"), ("y",): ("a", "b", 1)}


def blocks(values_: tuple[Any, ...]) -> tuple[Block, ...]:
    return tuple(one if one is UNDEFINED else of_value(one) for one in values_)


def cases(tree: Expression) -> None:
    """Hold the second checker against the evaluator: over single values, and over all of them at once."""
    together = values(tree, {name: blocks(held_) for name, held_ in CHOICES.items()})
    for x, y in product(CHOICES["x",], CHOICES["y",]):
        state = {("x",): x, ("y",): y}

        def look_up(names: tuple[str, ...], state: dict[tuple[str, ...], Any] = state) -> Any:
            if state[names] is UNDEFINED:
                raise UndefinedReferenceError(names[0])
            return state[names]

        alone = values(tree, {name: blocks((one,)) for name, one in state.items()})
        try:
            found = of_value(evaluate(tree, look_up))
        except EvaluationError:
            assert FAILS in alone
            assert FAILS in together
            continue
        assert any(meet(found, one) for one in alone), (state, alone)
        assert any(meet(found, one) for one in together), (state, together)


@pytest.mark.parametrize(
    "text",
    [
        "[$x, 'b']",
        "'a' in [$x, $y]",
        "$x in [$y, 'a']",
        "$y not in ['b', $x]",
        "['a', $x] contains $y",
        "len([$x, $y])",
        "join([$x, $y], '-')",
        "join([$y, 'b'], '') == 'ab'",
        "[$x] + [$y, 'c']",
        "[$x] + [$y] contains 'a'",
    ],
)
def test_lists_in_expressions(text: str) -> None:
    cases(parse(text, 2))


@pytest.mark.parametrize("value", [{"a": "$x", "b": "plain"}, ["$x", {"c": "$y"}], {"a": {"b": ["is $x and $y"]}}])
def test_lists_and_objects_of_a_set(value: Any) -> None:
    cases(built(freeze(value)))


@pytest.mark.parametrize("text", ["is $x", "$x$y", "$y, $$ and $x"])
def test_templates(text: str) -> None:
    (part,) = built(freeze([text])).parts  # type: ignore[union-attr]
    cases(part)


def test_a_template_says_what_is_certain() -> None:
    (part,) = built(freeze(["for $x!"])).parts  # type: ignore[union-attr]
    (block,) = values(part, {("x",): (TEXT,)})
    assert not meet(block, of_value("to b!"))
    assert not meet(block, of_value("for b"))
    assert meet(block, of_value("for b!"))


def test_more_lists_than_are_distinguished_are_one_block() -> None:
    environment = {("x",): tuple(of_value(number) for number in range(20))}
    (block,) = values(parse("[$x, $x]", 2), environment)
    assert meet(block, of_value((3, 4)))
    assert not meet(block, of_value((3,)))


def test_what_a_field_of_a_built_value_is() -> None:
    tree = built(freeze({"a": ["$x", {"b": "of $y"}], "c": {"d": 1}}))
    assert field_at(tree, ("a", "[0]")).tree == Reference(0, 2, ("x",))
    assert field_at(tree, ("a", "[0]", "f"))[:2] == (Reference(0, 2, ("x", "f")), True)
    assert [field_at(tree, names).tree for names in (("a", "[2]"), ("z",), ("c", "e"), ("a", "[1]", "b", "f"))] == [
        None
    ] * 4
    found = field_at(tree, ("c", "d")).tree
    assert found is not None
    assert evaluate(found, lambda names: names) == 1


GIVERS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "tool": ({"give": {"effect": "read", "returns": {"type": "string"}}}, {"type": "tool", "tool": "give"}),
    "compute": ({}, {"type": "compute", "lisp": "(inc nil)"}),
}
OVERWRITES: dict[str, dict[str, Any]] = {
    "empty text": {"type": "string", "maxLength": 0},
    "two texts": {"type": "string", "enum": ["x", ""]},
    "flag": {"type": "boolean"},
}
BUILDS: dict[str, tuple[Any, str]] = {
    "list": ("[$t, 'b']", "$b contains 'a'"),
    "field": ({"f": "$t"}, "$b.f == 'a'"),
    "text in a field": ({"f": "$t and more"}, "$b.f starts_with 'A'"),
    "copy": ("$t", "$b == 'a'"),
}


@pytest.mark.parametrize(("giver", "overwrite", "build"), list(product(GIVERS, OVERWRITES, BUILDS)))
def test_what_is_built_of_an_overwritten_variable_is_built_of_its_new_value(
    giver: str, overwrite: str, build: str
) -> None:
    tools, step = GIVERS[giver]
    value, condition = BUILDS[build]
    data = {
        "name": "p",
        "language": 2,
        "tools": {**tools, "again": {"effect": "read", "returns": OVERWRITES[overwrite]}},
        "guardrails": [{"name": "g", "never": {"step": "last"}, "when": condition}],
        "steps": [
            {"id": "first", **step, "output_key": "t"},
            {"id": "second", "type": "tool", "tool": "again", "output_key": "t"},
            {"id": "built", "type": "set", "set": {"b": value}},
            {"id": "last", "type": "set", "set": {"seen": "$b"}},
        ],
    }
    report = ProgramValidator(Program.from_dict(data)).validate()
    assert [one.message for one in report.findings if one.code == "SW902"] == []
    if overwrite != "flag":
        assert report.properties[0].verdict is Verdict.PROVED


COPIES = {
    "a copy": "{c: $t}",
    "a field": "{b: {f: $t}}, {c: $b.f}",
    "a field of a field": "{b: {f: {g: $t}}}, {c: $b.f.g}",
    "a field of a copy": "{b: {f: $t}}, {d: $b}, {c: $d.f}",
    "a field of what was put in": "{b: {f: $t}}, {d: {e: $b}}, {c: $d.e.f}",
}


@pytest.mark.parametrize("sets", COPIES.values(), ids=COPIES)
@pytest.mark.parametrize(
    "kind", ["{type: [string, 'null'], pattern: b}", "{type: [string, 'null'], minLength: 1}", "{enum: [b, null]}"]
)
def test_a_field_keeps_what_its_source_excludes(kind: str, sets: str) -> None:
    steps = "\n".join(f"  - {{id: s{number}, type: set, set: {one}}}" for number, one in enumerate(sets.split(", ")))
    text = f"""
language: 2
name: copies
tools: {{get: {{effect: read, returns: {kind}}}}}
steps:
  - {{id: first, type: tool, tool: get, output_key: t}}
{steps}
  - id: ask
    type: condition
    exclusive: true
    cases: [{{when: "$c != null and len($c) < 1", then: end}}, {{when: "true", then: end}}]
  - {{id: end, type: end}}
"""
    report = ProgramValidator(Program.from_yaml(text)).validate()
    assert "SW902" not in [one.code for one in report.findings]
    (found,) = [one for one in report.properties if one.name == "exclusive cases"]
    assert found.verdict is Verdict.PROVED


PUT_IN = {
    "a list of objects": ("[{fine: true}]", "[0].fine"),
    "a list of lists": ("[[1]]", "[0][0]"),
    "a list in an object": ("{a: [{fine: true}]}", ".a[0].fine"),
    "an object in an object": ("{a: {fine: true}}", ".a.fine"),
}


@pytest.mark.parametrize(("value", "read"), PUT_IN.values(), ids=PUT_IN)
@pytest.mark.parametrize(
    ("copy", "of"), [("$t", ""), ("{f: $t}", ".f"), ("[$t]", "[0]")], ids=["copy", "field", "item"]
)
def test_what_was_put_in_is_there(value: str, read: str, copy: str, of: str) -> None:
    text = f"""
language: 2
name: there
tools: {{get: {{effect: read}}, book: {{effect: write}}}}
guardrails: [{{name: r, protects: {{tool: book}}, requires: {{step: ask, branch: then}}}}]
steps:
  - {{id: other, type: tool, tool: get, output_key: t}}
  - {{id: put, type: set, set: {{t: {value}}}}}
  - {{id: copied, type: set, set: {{b: {copy}}}}}
  - {{id: ask, type: condition, condition: "defined($b{of}{read})", then: act, otherwise: act}}
  - {{id: act, type: tool, tool: book}}
"""
    report = ProgramValidator(Program.from_yaml(text)).validate()
    assert "SW902" not in [one.code for one in report.findings]
    assert [one.verdict for one in report.properties if one.rule == "r"] == [Verdict.PROVED]


ASKED = {
    "an item of a copied field": ("['a']", [{"b": {"f": "$t"}}, {"c": "$b.f"}], "$c contains 'a' and $c[0] == 'a'"),
    "an item alone": ("['b', 'a']", [{"b": {"f": "$t"}}, {"c": "$b.f"}], "$c[0] != 'a'"),
    "a text in a list": ("'a'", [{"b": ["$t-"]}], "'a-' in $b"),
    "a list in a list": ("'a'", [{"b": [["$t"]]}], "['a'] in $b"),
    "a text in a list in a field": ("'a'", [{"b": {"f": ["$t-", "x"]}}], "$b.f contains 'a-'"),
}


@pytest.mark.parametrize(("value", "sets", "question"), ASKED.values(), ids=ASKED)
def test_what_was_put_in_is_what_is_read(value: str, sets: list[Any], question: str) -> None:
    steps = [
        {"id": "other", "type": "tool", "tool": "get", "output_key": "t"},
        {"id": "put", "type": "set", "set": {"t": value}},
        *({"id": f"copy{number}", "type": "set", "set": one} for number, one in enumerate(sets)),
        {"id": "ask", "type": "condition", "condition": question, "then": "end", "otherwise": "act"},
        {"id": "act", "type": "tool", "tool": "book"},
        {"id": "end", "type": "end"},
    ]
    tools = {"get": {"effect": "read"}, "book": {"effect": "write"}}
    rule = {"name": "r", "protects": {"tool": "book"}, "requires": {"step": "end"}}
    program = {"language": 2, "name": "asked", "tools": tools, "guardrails": [rule], "steps": steps}
    report = ProgramValidator(Program.from_dict(program)).validate()
    assert "SW902" not in [one.code for one in report.findings]
    assert [one.verdict for one in report.properties if one.rule == "r"] == [Verdict.PROVED]


@pytest.mark.parametrize("again", ["{f: $b.f}", "{f: $b.f.f}", "{f: [$b.f]}", "{f: $b}", "{g: $b.f, f: $b.g}"])
def test_a_value_that_is_built_of_itself_breaks_nothing(again: str) -> None:
    text = f"""
language: 2
name: itself
tools: {{get: {{effect: read, returns: {{type: array, items: {{type: string}}}}}}, book: {{effect: write}}}}
guardrails: [{{name: r, followed_by: {{first: {{step: begin}}, then: {{tool: book}}}}}}]
steps:
  - {{id: first, type: tool, tool: get, output_key: t}}
  - {{id: put, type: set, set: {{b: {{f: $t}}}}}}
  - {{id: again, type: set, set: {{b: {again}}}}}
  - {{id: join, type: set, set: {{c: "$b.f + ['x']"}}}}
  - {{id: begin, type: set, set: {{}}}}
  - {{id: act, type: tool, tool: book}}
  - {{id: ask, type: condition, condition: "$c contains 'x'", then: end, otherwise: end}}
  - {{id: end, type: end}}
"""
    report = ProgramValidator(Program.from_yaml(text)).validate()
    assert not {"SW408", "SW902", "SW903"} & {one.code for one in report.findings}
