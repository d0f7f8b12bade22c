"""Assigned fields in proofs: an object keeps its other fields, on every layer and for the second checker."""

from __future__ import annotations

from typing import Any

import pytest

from comparing import Comparison, compare, unchecked
from path_programs import path_program
from sizes import size
from stepward.validator import ProgramValidator, Report, Verdict
from stepward.validator.recheck import built as recheck_built
from stepward.validator.recheck import definite, describing, origins
from stepward.validator.recheck.claims import Property as Claim
from stepward.validator.recheck.claims import watcher
from stepward.validator.recheck.reading import Reading
from stepward.validator.recheck.search import is_ruled_out
from stepward.validator.recheck.walking import explored
from stepward.vm import Program
from stepward.vm.expressions.syntax import Built

ORDER = {
    "type": "object",
    "properties": {
        "id": {"type": "string", "enum": ["a", "b"]},
        "n": {"type": "integer", "minimum": 0, "maximum": 9},
        "who": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
    },
    "required": ["id", "n", "who"],
}


def program(
    put: list[dict[str, Any]], when: str, guard: str, *, first: dict[str, Any] | None = None, loops: bool = False
) -> dict[str, Any]:
    """Return a program that asks a question, assigns fields of `$o`, and pays unless a rule forbids it."""
    source = {"id": "get", "type": "tool", "tool": "get", "output_key": "o"}
    last = "again" if loops else "pay"
    following = [*(f"m{number}" for number in range(1, len(put))), last]
    made = [
        {"id": f"m{number}", "type": "set", "set": one, "next_step": target}
        for number, (one, target) in enumerate(zip(put, following, strict=True))
    ]
    asks = {"id": "ask", "type": "condition", "condition": guard, "then": "m0", "otherwise": "stop"}
    again = {"id": "again", "type": "condition", "condition": "$o.n < 10", "then": "m0", "otherwise": "pay"}
    return {
        "language": 2,
        "name": "fields",
        "inputs": {
            "x": {"type": "integer", "minimum": 0, "maximum": 3},
            "s": {"type": "string", "enum": ["a", "b", "q"]},
            "f": {"type": "boolean"},
        },
        "tools": {"get": {"effect": "read", "returns": ORDER}, "pay": {"effect": "write", "idempotent": True}},
        "guardrails": [{"name": "rule", "never": {"tool": "pay"}, "when": when}],
        "steps": [
            source if first is None else {"id": "get", "type": "set", "set": {"o": first}},
            asks,
            *made,
            *([{**again, "max_visits": 3}] if loops else []),
            {"id": "pay", "type": "tool", "tool": "pay", "is_terminal": True},
            {"id": "stop", "type": "end"},
        ],
    }  # fmt: skip


def report(data: dict[str, Any]) -> Report:
    found = ProgramValidator(Program.from_dict(data)).validate()
    assert not [one for one in found.findings if one.code.startswith("SW9")], found.findings
    return found


def verdict(data: dict[str, Any]) -> tuple[Verdict, bool]:
    """Return the verdict on the rule, and whether the machine or the second checker confirms it."""
    found = report(data)
    (rule,) = [one for one in found.properties if one.rule == "rule"]
    if rule.verdict is Verdict.PROVED:
        return rule.verdict, bool(rule.rechecked)
    broken = [one for one in found.findings if one.code == "SW403"]
    return rule.verdict, bool(broken) and all(one.evidence is not None and one.evidence.witness for one in broken)


PROVED, VIOLATED = (Verdict.PROVED, True), (Verdict.VIOLATED, True)
BUILT = {"id": "$s", "n": "$x", "who": {"name": "$s", "age": 1}}


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("put", "when", "guard", "expected"),
    [
        ([{"o.n": "$o.n + 1"}], "$o.id != 'a'", "$o.id == 'a'", PROVED),
        ([{"o.n": "$o.n + 1"}], "$o.who.name != $s", "$o.who.name == $s", PROVED),
        ([{"o.n": "$o.n + 1"}], "$o.n > 5", "$o.n < 5", PROVED),
        ([{"o.n": "$o.n + 1"}], "$o.n > 5", "$o.n < 6", VIOLATED),
        ([{"o.id": "$s"}], "$o.id != 'a'", "$o.id == 'a'", VIOLATED),
        ([{"o.who.age": "$x"}], "$o.who.name == 'q' or $o.who.age != $x", "$o.who.name != 'q'", PROVED),
        ([{"o.who.name": "'q'"}], "$o.who.name == 'q'", "$o.who.name != 'q'", VIOLATED),
        ([{"o.who": {"name": "$s"}}], "$o.who.name != $s", "$f", PROVED),
        ([{"c": "$o"}, {"o.id": "'b'"}], "$c.id != 'a' or $o.id != 'b'", "$o.id == 'a'", PROVED),
        ([{"c": "$o", "o.n": 7}], "$c.n == 7", "$o.n < 7", PROVED),
        ([{"c": "$o", "o.n": 7}], "$c.n == 7", "$o.n < 8", VIOLATED),
        ([{"o.n": "$x", "o.m": "$o.n"}], "$o.m > 2 or $o.n != $x", "$o.n < 3", PROVED),
        ([{"o.big": "$o.n > 3"}], "$o.big", "$o.n < 3", PROVED),
        ([{"o.big": "$o.n > 3"}], "$o.big", "$o.n < 5", VIOLATED),
        ([{"o.said": "$s + '!'"}], "$o.said == 'q!'", "$s != 'q'", PROVED),
    ],
)
def test_what_is_proved_and_what_is_violated(
    put: list[dict[str, Any]], when: str, guard: str, expected: tuple[Verdict, bool]
) -> None:
    assert verdict(program(put, when, guard)) == expected
    if expected == PROVED:  # of an object that `set` builds of less, too
        assert verdict(program(put, when, guard, first=BUILT)) == PROVED


@pytest.mark.parametrize(
    ("put", "when", "guard", "expected"),
    [
        ([{"o.n": "$o.n + 1"}], "$o.id != 'a'", "$o.id == 'a'", PROVED),
        ([{"o.n": "$o.n + 1"}], "$o.n > 10", "$o.n < 9", PROVED),
        ([{"o.n": "$o.n + 1"}], "$o.n > 9", "$o.n < 9", VIOLATED),
        ([{"o.sum": "$o.n", "o.n": "$o.n + 3"}], "$o.sum != $o.n - 3", "$f", PROVED),
    ],
)
def test_in_a_loop(put: list[dict[str, Any]], when: str, guard: str, expected: tuple[Verdict, bool]) -> None:
    assert verdict(program(put, when, guard, loops=True)) == expected


def wrong(found: Comparison) -> list[str]:
    """Return where checker and enumeration part; that a step of a drawn program is never reached is none."""
    return [one for one in found.wrong if "no path leads to" not in one]


@pytest.mark.parametrize("first", range(0, size(12, 600), 12))
def test_every_verdict_is_that_of_the_enumeration(first: int) -> None:
    for seed in range(first, first + 12):
        assert wrong(compare(path_program(seed))) == [], seed


# -- mistakes are found ------------------------------------------------------------------------------------------------

REAL_PART, REAL_FIELD_AT = Built.part, recheck_built.field_at


def old_part(self: Built, name: str) -> Any:
    """Take the field that an object had for the one that it has now."""
    return None if self.base is not None else REAL_PART(self, name)


def old_field_at(tree: Any, fields: tuple[str, ...]) -> Any:
    """Do so in the second checker."""
    if isinstance(tree, Built) and tree.base is not None and fields:
        return REAL_FIELD_AT(tree.base, fields)
    return REAL_FIELD_AT(tree, fields)


SHOWS = program([{"o.id": "'b'"}], "$o.id != 'a'", "$o.id == 'a'")
"""A rule that the assigned field breaks."""


def test_an_engine_that_keeps_the_old_field_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Built, "part", old_part)
    assert wrong(compare(SHOWS, unchecked, is_rechecked=False))
    found = ProgramValidator(Program.from_dict(SHOWS)).validate()
    assert "SW902" in {one.code for one in found.findings}, "the second checker does not accept its proof"


def test_a_second_checker_that_keeps_the_old_field_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Built, "part", old_part)
    for where in (describing, origins):
        monkeypatch.setattr(where, "field_at", old_field_at)
    assert any("UNSOUND" in one for one in wrong(compare(SHOWS)))


FORGOTTEN = {
    "that a copy is another object": program([{"c": "$o"}, {"o.n": 7}], "$c.n != $o.n", "$f"),
    "that a field has another value": program([{"k": "$o.n"}, {"o.n": 7}], "$k != $o.n", "$f"),
    "that a field has another source": program([{"o": {"id": "a", "n": 1}}, {"o.id": "'b'"}], "$o.id == 'b'", "$f"),
}
"""Rules that are broken, because a field is another one behind the assignment."""


@pytest.mark.parametrize("name", FORGOTTEN)
def test_what_is_known_of_a_variable_ends_where_a_field_changes(name: str) -> None:
    assert verdict(FORGOTTEN[name]) == VIOLATED


def is_ruled_out_by_all(data: dict[str, Any]) -> bool:
    """Return whether the second checker rules the rule out at every step, by what it knows of values alone."""
    reading = Reading(Program.from_dict(data), [])
    watched = watcher(Claim("never", "rule", None, None, 1), reading)
    known = explored(reading, watched)
    return not known or is_ruled_out(reading, watched, known, is_wide=True)


@pytest.mark.parametrize("name", FORGOTTEN)
def test_the_second_checker_never_rules_out_what_happens(name: str) -> None:
    assert not is_ruled_out_by_all(FORGOTTEN[name])


def test_a_second_checker_that_forgets_the_change_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(definite, "changed_paths", lambda _: iter(()))
    monkeypatch.setattr(describing, "field_at", old_field_at)
    monkeypatch.setattr(origins, "field_at", old_field_at)
    assert any(map(is_ruled_out_by_all, FORGOTTEN.values()))
