"""The second checker on copies: a value that copies itself, a sibling or a copy has no other values than its sources.

Each right proof is accepted, and agrees with the enumeration of all runs. Each certificate is refused where a source
gives a value more, by which the rule is broken.
"""

from __future__ import annotations

import json
from itertools import count, product
from typing import Any

import pytest

from brute_force import truth
from comparing import compare
from sizes import MANY
from stepward.validator import ProgramValidator, Verdict
from stepward.validator.findings import Property as Found
from stepward.validator.recheck.blocks import ANYTHING
from stepward.validator.recheck.certificates import digest, parsed, recheck_data
from stepward.validator.recheck.claims import Property, watcher
from stepward.validator.recheck.equivalence import are_equivalent
from stepward.validator.recheck.reading import Reading
from stepward.validator.recheck.search import is_ruled_out
from stepward.validator.recheck.walking import explored
from stepward.vm import Program
from stepward.vm.expressions.parser import parse

Steps = list[dict[str, Any]]


IDS = count()
RULES = ("never", "before", "after")


def sets(*assigned: dict[str, Any]) -> Steps:
    return [{"id": f"m{next(IDS)}", "type": "set", "set": one} for one in assigned]


def looped(again: dict[str, Any]) -> Steps:
    return [
        *sets(PUT),
        {"id": "round", "type": "set", "set": again, "max_visits": 3, "next_step": "more"},
        {"id": "more", "type": "condition", "condition": "$again", "then": "round", "otherwise": "out"},
        {"id": "out", "type": "set", "set": {}, "next_step": "begin"},
    ]


def in_a_body(carry: dict[str, Any], *body: dict[str, Any]) -> Steps:
    each = {"id": "each", "type": "for_each", "items": [1, 2], "as": "item", "max_items": 2}
    return [{**each, "carry": carry, "steps": [*body, {"id": "done", "type": "set", "set": {}}]}]


def computed(read: str) -> Steps:
    return [{"id": "sum", "type": "compute", "args": {"v": read}, "lisp": "data/v", "output_key": "c"}]


PUT = {"b": {"f": "$t"}}
COPIES: dict[str, tuple[Steps, str]] = {
    "itself": (sets({"x": "$t"}, {"x": "$x"}), "$x"),
    "a field of itself": (sets(PUT, {"b": {"f": "$b.f"}}), "$b.f"),
    "twice": (sets(PUT, {"b": {"f": "$b.f"}}, {"b": {"f": "$b.f"}}), "$b.f"),
    "a field deeper": (sets({"b": {"o": {"f": "$t"}}}, {"b": {"o": "$b.o"}}), "$b.o.f"),
    "the deeper field": (sets({"b": {"o": {"f": "$t"}}}, {"b": {"o": {"f": "$b.o.f"}}}), "$b.o.f"),
    "an item": (sets({"b": ["$t"]}, {"b": "[$b[0]]"}), "$b[0]"),
    "a sibling": (sets({"b": {"f": "$t", "g": "$t"}}, {"b": {"f": "$b.g", "g": "$b.f"}}), "$b.f"),
    "a sibling alone": (sets({"b": {"g": "$t"}}, {"b": {"f": "$b.g", "g": "$b.g"}}), "$b.f"),
    "a copy of a copy": (sets(PUT, {"c": "$b"}, {"b": {"f": "$c.f"}}), "$b.f"),
    "a round of copies": (sets(PUT, {"c": "$b"}, {"b": "$c"}), "$b.f"),
    "a round of fields": (sets(PUT, {"c": {"g": "$b.f"}}, {"b": {"f": "$c.g"}}), "$b.f"),
    "a swap": (sets({"x": "$t", "y": "$t"}, {"x": "$y", "y": "$x"}), "$x"),
    "a value that is put in itself": (sets(PUT, {"b": {"f": "$b.f", "old": "$b"}}), "$b.old.f"),
    "in a loop": (looped({"b": {"f": "$b.f"}}), "$b.f"),
    "a value that grows in a loop": (looped({"b": {"f": "$b.f", "old": "$b"}}), "$b.old.f"),
    "a sibling in a loop": (looped({"b": {"f": "$b.f", "g": "$b.f"}}), "$b.f"),
    "carried on": (in_a_body({"b": "$t"}, *sets({"b": "$b"})), "$b"),
    "a carried copy of itself": ([*sets(PUT), *in_a_body({"b": "$b"})], "$b.f"),
    "a carried field": ([*sets(PUT), *in_a_body({"c": {"f": "$b.f"}})], "$c.f"),
    "a carried field of itself": ([*sets(PUT), *in_a_body({"b": {"f": "$b.f"}})], "$b.f"),
    "a field of itself in a body": (in_a_body(PUT, *sets({"b": {"f": "$b.f"}})), "$b.f"),
    "a swap in a body": (in_a_body({"x": "$t", "y": "$t"}, *sets({"x": "$y", "y": "$x"})), "$x"),
    "through compute": (computed("$t"), "$c"),
    "a field of itself, computed": ([*sets(PUT), *computed("$b.f"), *sets({"b": {"f": "$c"}})], "$b.f"),
    "of an output": (sets({"b": {"f": "$first.output"}}, {"b": {"f": "$b.f"}}), "$b.f"),
}

TO_3, TO_4 = ({"type": "integer", "minimum": 0, "maximum": most} for most in (3, 4))
KINDS: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "texts": ({"type": "string", "enum": ["a", "b"]}, {"type": "string", "enum": ["a", "b", "c"]}, "$t contains 'c'"),
    "lists": (
        {"type": "array", "items": {"type": "string", "maxLength": 1}, "maxItems": 1},
        {"type": "array", "items": {"type": "string", "maxLength": 1}, "maxItems": 2},
        "len($t) > 1",
    ),
    "joined lists": (
        {"type": "array", "items": {"type": "string", "maxLength": 1}},
        {"type": ["array", "null"], "items": {"type": "string", "maxLength": 1}},
        "not ($t + ['b'] contains 'b')",
    ),
    "numbers": (TO_3, TO_4, "$t > 3"),
}
"""The type of a value; a type with a value more; and a question that only this value answers with yes, or can't."""


def program(copies: Steps, place: str, spec: dict[str, Any], question: str) -> dict[str, Any]:
    """Return a program that copies what a tool gives, and asks about the copy before it pays."""
    asked = question.replace("$t", place)
    get = {"effect": "read", "returns": spec}
    return {
        "language": 2,
        "name": "copies",
        "inputs": {"again": {"type": "boolean"}},
        "tools": {"get": get, "pay": {"effect": "write", "idempotent": True}},
        "guardrails": [
            {"name": "never", "never": {"tool": "pay"}, "when": asked},
            {"name": "before", "protects": {"tool": "pay"}, "requires": {"step": "ask", "branch": "otherwise"}},
            {"name": "after", "followed_by": {"first": {"step": "begin"}, "then": {"tool": "pay"}}},
        ],
        "steps": [
            {"id": "first", "type": "tool", "tool": "get", "output_key": "t"},
            *({**step, "returns": spec} if step["type"] == "compute" else step for step in copies),
            {"id": "begin", "type": "set", "set": {}},
            {"id": "ask", "type": "condition", "condition": asked, "then": "act", "otherwise": "act"},
            {"id": "act", "type": "tool", "tool": "pay", "on_error": "skip", "next_step": "stop"},
            {"id": "stop", "type": "end"},
        ],
    }


BY_DAY = [(form, list(KINDS)[number % len(KINDS)]) for number, form in enumerate(COPIES)]
CASES = list(product(COPIES, KINDS)) if MANY else BY_DAY


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("form", "kind"), CASES)
def test_right_proofs_are_accepted_and_wrong_ones_refused(form: str, kind: str) -> None:
    (copies, place), (spec, wider, question) = COPIES[form], KINDS[kind]
    data, other = program(copies, place, spec, question), program(copies, place, wider, question)
    found = compare(data)
    assert not found.wrong
    assert not found.counts["skipped"]
    broken = {rule for rule, places in truth(other).broken.items() if places}
    assert broken
    for one in ProgramValidator(Program.from_dict(data), certify=True, recheck=False).validate().properties:
        if one.rule in RULES:
            assert one.verdict is Verdict.PROVED
            assert one.certify is not None
            certificate = parsed(one.certify().to_json())
            assert recheck_data(certificate).is_accepted
            wrong = {**certificate, "program": parsed(json.dumps(other))}
            wrong["digest"] = digest(Program.from_dict(wrong["program"]), ())
            # What a formula says of the program is taken from the engine.
            if one.rule in broken and "formula" not in {part["kind"] for part in wrong["parts"]}:
                assert not recheck_data(wrong).is_accepted, one.rule


def test_more_copies_than_are_followed_are_refused_and_not_followed_for_ever() -> None:
    """Each round puts the value one field deeper: the copies behind `$b.f` have no end."""
    copies = sets({"c": "$t"}, {"b": {"f": "$c"}, "c": "$b.f.f"})
    origins = Reading(Program.from_dict(program(copies, "$b.f", {}, "defined($t)"))).origins
    assert origins.of(("b", "f")) == (ANYTHING, True)


# -- objects without the field that is asked for ---------------------------------------------------------------------

MAYBE = {"type": "object", "properties": {"fine": {"type": "boolean"}}}
GIVEN: dict[str, dict[str, Any]] = {
    "optional": MAYBE,
    "required": {**MAYBE, "required": ["fine"]},
    "empty": {},
    "fine": {"fine": True},
    "other": {"n": 1},
}
"""What a variable gets: a value of a type from a tool, or an object that is written down."""

ANEW = sets({"c": "$t"}, {"b": {"f": "$c"}}, {"c": "$b.f"})
FIELDS: dict[str, tuple[Steps, str]] = {
    "itself": ([], "$t"),
    "a copy": (sets({"c": "$t"}), "$c"),
    "a field": (sets(PUT), "$b.f"),
    "a copied field": (sets(PUT, {"c": "$b.f"}), "$c"),
    "a field of a copy": (sets(PUT, {"c": "$b"}, {"d": "$c.f"}), "$d"),
    "a field of a field": (sets({"b": {"o": {"f": "$t"}}}, {"c": "$b.o"}), "$c.f"),
    "an item": (sets({"b": ["$t"]}, {"c": "$b[0]"}), "$c"),
    "a name that is set again": (ANEW, "$c"),
    "a path": (sets({"b": {"g": 1}}, {"b.f": "$t"}, {"c": "$b.f"}), "$c"),
}
ASKED = ("$x.fine", "not $x.fine", "$x.fine == true", "defined($x.fine)", "defined($x.fine) and $x.fine")


def two_sources(first: str, second: str, form: str, question: str, *, is_always: bool) -> dict[str, Any]:
    """Return a program that gives a variable a value twice, or the second time only on one branch."""
    copies, place = FIELDS[form]
    data = program(copies, place, {}, question.replace("$x", "$t"))
    for name, given in (("first", first), ("second", second)):
        spec = GIVEN[given]
        data["tools"][name] = {"effect": "read", **({"returns": spec} if "type" in spec else {})}
    begun = [
        {"id": name, "type": "tool", "tool": name, "output_key": "t"}
        if "type" in GIVEN[given]
        else {"id": name, "type": "set", "set": {"t": GIVEN[given]}}
        for name, given in (("first", first), ("second", second))
    ]
    way = {"id": "way", "type": "condition", "condition": "$again", "then": "second", "otherwise": "put"}
    begun = [begun[0], *([] if is_always else [way]), begun[1] | {"next_step": "put"}]
    rest = data["steps"][1:]
    data["steps"] = [*begun, {"id": "put", "type": "set", "set": {}, "next_step": rest[0]["id"]}, *rest]
    return data


FEW = [("optional", "empty", form, "$x.fine", True) for form in FIELDS]
FEW += [
    (first, second, list(FIELDS)[number % len(FIELDS)], ASKED[number % len(ASKED)], False)
    for number, (first, second) in enumerate(product(GIVEN, GIVEN))
]
ALL = list(product(GIVEN, GIVEN, FIELDS, ASKED, (True, False)))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("form", FIELDS)
def test_a_missing_field_is_known_of_all_copies(form: str) -> None:
    for first, second, where, question, is_always in ALL if MANY else FEW:
        if where == form:
            data = two_sources(first, second, form, question, is_always=is_always)
            # Where no source has the field, SW201 says it in place of SW202.
            wrong = [one for one in compare(data).wrong if "missed: SW202" not in one and "never exists" not in one]
            assert not wrong, (first, second, question, is_always)


# -- texts that are equal to what they are copied from ---------------------------------------------------------------

EQUAL: dict[str, tuple[Steps, str]] = {
    "a copy": (sets({"c": "$t"}), "$c"),
    "a field": (sets(PUT), "$b.f"),
    "a copied field": (sets(PUT, {"c": "$b.f"}), "$c"),
    "a field of a copy": (sets(PUT, {"c": "$b"}), "$c.f"),
    "a path": (sets({"b": {"g": "$t"}}, {"b.f": "$t"}), "$b.f"),
    "an item": (sets({"b": ["$t"]}), "$b[0]"),
    "the output": ([], "$first.output"),
    "a copy of the output": (sets({"c": "$first.output"}), "$c"),
    "a variable named as a step": (sets({"first": {"output": "$t"}}, {"c": "$first"}), "$c.output"),
}
THEN: dict[str, Steps] = {
    "nothing": [],
    "another field": sets({"b.h": "'x'"}),
    "a new text": sets({"t": "'x'"}),
    "a new field": sets({"b": {"f": "x"}}),
    "the field by its path": sets({"b.f": "'x'"}),
    "a new copy": sets({"c": "'x'"}),
    "another output": [{"id": "other", "type": "tool", "tool": "get", "output_key": "t"}],
    "another output or none": [{"id": "other", "type": "tool", "tool": "get", "output_key": "t", "on_error": "skip"}],
    "earlier values": in_a_body({"t": "$t"}, *sets({"t": "'x'"})),
}
SAME = [(form, "nothing") for form in EQUAL if form != "a variable named as a step"] + [
    ("a field", "another field"),
    ("a path", "another field"),
]
TRIED = list(product(EQUAL, THEN)) if MANY else [*SAME, *((form, then) for form, then in zip(EQUAL, THEN, strict=True))]


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("form", "then"), TRIED)
def test_a_text_is_equal_to_its_copy_until_one_of_them_changes(form: str, then: str) -> None:
    copies, place = EQUAL[form]
    begins_with_object = then in ("another field", "the field by its path") and "b" not in place
    copies = [*(sets({"b": {"g": 1}}) if begins_with_object else []), *copies]
    data = program([*copies, *THEN[then]], place, {"type": "string", "maxLength": 1}, "$t != $t")
    data["steps"] = [one | ({"condition": f"{place} != $t"} if one["id"] == "ask" else {}) for one in data["steps"]]
    data["guardrails"][0]["when"] = f"{place} != $t"
    reading = Reading(Program.from_dict(data))
    watched = watcher(Property("never", "never", None, None, 1), reading)
    is_equal = is_ruled_out(reading, watched, explored(reading, watched), is_wide=True)
    assert not (is_equal and truth(data).broken["never"])
    if (form, then) in SAME:
        assert is_equal
        assert not [text for text in compare(data).wrong if "refused" in text]


ALIKE = {
    "lower($c)": "lower($t)",
    "upper(trim($b.f))": "upper(trim($t))",
    "len($c)": "len($t)",
    "$c + 'x'": "$t + 'x'",
    "'x' + $c + $b.f": "'x' + $t + $c",
    "$m + 1": "$n + 1",
    "$m - 2 * $n": "$n - 2 * $m",
    "-$m": "-$n",
    "lower($t) + $c": "lower($t) + $t",
}
"""Expressions that have one value, because `c` and `b.f` are copies of `t`, and `m` of `n`."""

UNLIKE = {
    "lower($c)": "upper($t)",
    "$c + 'x'": "$t + 'y'",
    "$c + $o": "$t + $c",
    "'x' + $t": "$t + 'x'",
    "$m + 1": "$n - 1",
    "$m - $n": "$n - 1",
    "lower(trim($c))": "lower($t)",
    "$m": "-$n",
}


def asked_of_copies(when: str) -> Found:
    text, number = {"type": "string", "maxLength": 4}, {"type": "integer", "minimum": 0, "maximum": 9}
    put = {"c": "$t", "b": {"f": "$t"}, "m": "$n"}
    made = {
        "language": 2,
        "name": "copies",
        "inputs": {"t": text, "o": text, "n": number},
        "tools": {"pay": {"effect": "write", "idempotent": True}},
        "guardrails": [{"name": "r", "never": {"tool": "pay"}, "when": when}],
        "steps": [{"id": "s", "type": "set", "set": put}, {"id": "act", "type": "tool", "tool": "pay"}],
    }
    return next(one for one in ProgramValidator(Program.from_dict(made)).validate().properties if one.rule == "r")


@pytest.mark.one_in(3)
@pytest.mark.parametrize("left", ALIKE)
def test_equivalent_expressions_of_copies_are_equal(left: str) -> None:
    right = ALIKE[left]
    for when in (f"{left} != {right}", f"not ({right} == {left})"):
        found = asked_of_copies(when)
        assert (found.verdict, found.rechecked) == (Verdict.PROVED, True), when
    assert asked_of_copies(f"{left} == {right}").verdict is Verdict.VIOLATED


@pytest.mark.parametrize("left", UNLIKE)
def test_what_is_computed_otherwise_is_not_taken_for_equal(left: str) -> None:
    right = UNLIKE[left]
    same = {("c",): ("t",), ("m",): ("n",), ("b", "f"): ("t",)}
    trees = [parse(one, 2) for one in (left, right)]
    assert not are_equivalent(trees[0], trees[1], lambda one, other: same.get(one, one) == same.get(other, other))
    assert asked_of_copies(f"{left} != {right}").verdict is not Verdict.PROVED


INPUTS_OF_CALLS = {
    "text": ({"type": "string", "enum": ["a", "b"]}, "b", "c"),
    "number": ({"type": "integer", "minimum": 0}, 1, -1),
    "reference": ({"type": "string", "enum": ["a", "b"]}, "$t", "$o"),
    "list": ({"type": "array", "items": {"type": "integer"}}, [1, 2], ["a"]),
    "built": ({"type": "array", "items": {"type": "string"}}, ["a"], ["$n"]),
    "dollars": ({"type": "string", "maxLength": 1}, "a", "$$5"),
    "default": ({"type": "integer", "default": 3}, None, "x"),
    "lacking": ({"type": "integer"}, 3, None),
    "unknown": ({"type": "boolean"}, "$f", "$n"),
}


@pytest.mark.parametrize("kind", INPUTS_OF_CALLS)
def test_a_call_whose_arguments_fit_does_not_fail_before_it_starts(kind: str) -> None:
    """What follows a failure of such a call is no way into the step that pays."""
    spec, right, wrong = INPUTS_OF_CALLS[kind]

    def fails(value: Any) -> Found:
        named = {"enum": ["a", "b"]}
        called = {"inputs": {"x": spec}, "steps": [{"id": "q", "type": "end", "output": 1}]}
        call = {"id": "c", "type": "call", "program": "p", "args": {} if value is None else {"x": value}}
        made = {
            "language": 2,
            "name": "calls",
            "inputs": {"t": named, "o": {"type": "string"}, "n": {"type": "number"}, "f": {"type": "boolean"}},
            "tools": {"pay": {"effect": "write", "idempotent": True}},
            "programs": {"p": called},
            "guardrails": [{"name": "r", "never": {"tool": "pay"}, "when": "not $done"}],
            "steps": [
                {"id": "s", "type": "set", "set": {"done": False}},
                {**call, "error_step": "act", "next_step": "t"},
                {"id": "t", "type": "set", "set": {"done": True}, "next_step": "act"},
                {"id": "act", "type": "tool", "tool": "pay"},
            ],
        }
        return next(one for one in ProgramValidator(Program.from_dict(made)).validate().properties if one.rule == "r")

    found = fails(right)
    assert (found.verdict, found.rechecked) == (Verdict.PROVED, True)
    assert fails(wrong).verdict is not Verdict.PROVED
