"""What the second checker knows of a value and the fields and items in it, for each pair of a condition and a rule.

A payment is made where the condition holds, and must not be made where the rule says so. Every value is enumerated.
What no value breaks is proved and accepted; what one breaks is never accepted, whatever a certificate says.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from nested_values import OPTIONAL, WAYS, WORLDS, asked, program, truths
from stepward.validator import ProgramValidator, Verdict
from stepward.validator.recheck.checking import Checker
from stepward.validator.recheck.claims import Property as Claim
from stepward.validator.recheck.origins import Origins
from stepward.validator.recheck.reading import Reading
from stepward.vm import Program

PAIRS = [(world, condition) for world, found in WORLDS.items() for condition in asked(found)]


def broken(world: str, condition: str) -> list[bool]:
    """Return for each rule whether some value takes the condition and breaks the rule: it holds, or fails."""
    taken = truths(world, condition)
    return [
        any(one is True and said is not False for one, said in zip(taken, truths(world, rule), strict=True))
        for rule in asked(WORLDS[world])
    ]


REFUSED = [
    ("optional", "an input", "defined($v.p.q)", "not defined($v.p)"),
    ("optional", "an input", "$v == null", "defined($v.l[2])"),
    ("grid", "an input", "defined($v[1][1])", "len($v) < 2"),
    ("kinds", "an argument", "$v == null", "defined($v[0])"),
    ("kinds", "an argument", "defined($v.a)", "defined($v[0].b)"),
]


@pytest.mark.parametrize(("world", "way", "condition", "rule"), REFUSED)
def test_right_proofs_that_were_refused(world: str, way: str, condition: str, rule: str) -> None:
    report = ProgramValidator(Program.from_dict(program(WORLDS[world], WAYS[way], condition, [rule]))).validate()
    (found,) = [one for one in report.properties if one.rule == "r0"]
    assert (found.verdict, found.rechecked) == (Verdict.PROVED, True)


@pytest.mark.one_in(75)
@pytest.mark.parametrize(("way", "world", "condition"), [(way, *pair) for way, pair in product(WAYS, PAIRS)])
def test_what_no_value_breaks_is_proved_and_accepted(way: str, world: str, condition: str) -> None:
    rules = asked(WORLDS[world])
    data = program(WORLDS[world], WAYS[way], condition, rules)
    report = ProgramValidator(Program.from_dict(data)).validate()
    found = {one.rule: (one.verdict, one.rechecked) for one in report.properties}
    for number, is_broken in enumerate(broken(world, condition)):
        wanted = (Verdict.VIOLATED, False) if is_broken else (Verdict.PROVED, True)
        assert found[f"r{number}"] == wanted, (condition, rules[number])


FALSE = {"kind": "formula", "scripts": [{"shows": "all", "text": "(assert false)\n(check-sat)"}]}
"""A formula that says nothing: the second checker accepts it only where its own search shows why."""


def accepted(data: dict[str, Any], number: int, part: dict[str, Any] = FALSE) -> bool:
    claim = Claim("never", f"r{number}", None, None, number + 1)
    return Checker(Reading(Program.from_dict(data)), solves_all=False).verdict(claim, [part]).is_accepted


@pytest.mark.one_in(75)
@pytest.mark.parametrize(("way", "world", "condition"), [(way, *pair) for way, pair in product(WAYS, PAIRS)])
def test_what_a_value_breaks_is_never_accepted(way: str, world: str, condition: str) -> None:
    data = program(WORLDS[world], WAYS[way], condition, asked(WORLDS[world]))
    for number, is_broken in enumerate(broken(world, condition)):
        assert not (is_broken and accepted(data, number)), (condition, asked(WORLDS[world])[number])


def test_a_checker_that_takes_a_field_for_present_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """If every object had each of its fields, `not defined($v.p)` would break nothing."""
    data = program(OPTIONAL, WAYS["an input"], "$v != null", ["not defined($v.p)"])
    assert not accepted(data, 0)
    monkeypatch.setattr(Origins, "may_be_absent_from_object", lambda *_: False)
    assert accepted(data, 0)


JOINED = {"name": "$w", "classes": [{"array": {"below": 1}}, {"array": {"above": 0}}]}
ITEM = {"name": "$w[0]", "classes": ["undefined", {"text": "a"}, {"texts": {}}]}
TABLE = {"kind": "table", "counts_visits": False, "references": [JOINED, ITEM]}


@pytest.mark.parametrize("part", [TABLE, FALSE], ids=["a table", "a formula"])
@pytest.mark.parametrize("rule", ["defined($w[0])", "$w[0] == 'a'", "$w[0] != 'a'"])
@pytest.mark.parametrize("joined", ["$v + ['a', 'b']", "['a'] + $v", "$v + $v"])
def test_a_joined_list_may_have_any_items(joined: str, rule: str, part: dict[str, Any]) -> None:
    """Each of these rules is broken for some list, but for the first item of a list that begins with `a`."""
    world = WORLDS["grid"]._replace(spec={"type": "array", "items": {"type": "string"}, "maxItems": 2})
    way = WAYS["an input"]._replace(steps=({"id": "s", "type": "set", "set": {"w": joined}},))
    is_right = joined.startswith("['a']") and rule == "$w[0] != 'a'"
    assert is_right or not accepted(program(world, way, "len($w) > 0", [rule]), 0, part)
