"""Built values in proofs: what a list or an object of `set` holds is what was put in, on every layer."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from brute_force import truth
from built_forms import FORMS, PATH_FORMS, TEXT_FORMS, TEXT_PATHS
from comparing import compare
from stepward.validator import ProgramValidator, Report, Verdict
from stepward.vm import Program

TEXT = {"type": "string", "maxLength": 2}
LETTER = {"type": "string", "enum": ["a", "b", "c"]}
NUMBER = {"type": "integer", "minimum": 0, "maximum": 3}


def program(built: list[dict[str, Any]], when: str, guard: str = "", spec: dict[str, Any] = TEXT) -> dict[str, Any]:
    """Return a program that builds values of `$t`, and pays under a rule that forbids it when `when` holds."""
    made = [{"id": f"m{number}", "type": "set", "set": one} for number, one in enumerate(built)]
    asks = {"id": "ask", "type": "condition", "condition": guard, "then": "pay", "otherwise": "stop"}
    return {
        "language": 2,
        "name": "built",
        "inputs": {"t": spec, "u": LETTER, "n": NUMBER},
        "tools": {"pay": {"effect": "write", "idempotent": True}},
        "guardrails": [{"name": "rule", "never": {"tool": "pay"}, "when": when}],
        "steps": [
            *made,
            *([asks] if guard else []),
            {"id": "pay", "type": "tool", "tool": "pay", "is_terminal": True},
            {"id": "stop", "type": "end"},
        ][: None if guard else -1],
    }


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


@pytest.mark.parametrize(
    ("built", "when", "guard", "expected"),
    [
        ([{"b": {"x": "$u", "y": "c"}}], "$b.x == 'a'", "$u != 'a'", PROVED),
        ([{"b": {"x": "$u", "y": "c"}}], "$b.x == 'a'", "$u != 'b'", VIOLATED),
        ([{"b": {"x": "$t", "n": "$n"}}], "$b.n > 1 and $b.x == 'ab'", "$n < 2", PROVED),
        ([{"b": {"x": "$t", "n": "$n"}}], "$b.n > 1 and $b.x == 'ab'", "$n < 3", VIOLATED),
        ([{"b": {"x": "$t"}}], "$b.x == 'q'", "$b.x != 'q'", PROVED),
        ([{"b": {"x": "$t"}}, {"t2": "$b.x"}], "$t2 == 'q'", "$t != 'q'", PROVED),
        ([{"b": {"x": {"y": "$t"}}}, {"c": {"z": "$b.x"}}], "$c.z.y == 'q'", "$t != 'q'", PROVED),
        ([{"b": {"x": {"y": "$t"}}}, {"c": {"z": "$b.x"}}], "$c.z.y == 'q'", "$t != 'r'", VIOLATED),
        ([{"b": {"x": "$n"}}, {"b": {"x": "$n", "old": "$b.x"}}], "$b.old != $n", "", PROVED),
        ([{"b": {"x": 1}}, {"b": {"x": "$n", "old": "$b.x"}}], "$b.old != 1", "", PROVED),
        ([{"b": {"x": "$n", "y": 7}}, {"b": {"x": "$b.y", "y": "$b.x"}}], "$b.x != 7", "", PROVED),
        ([{"b": ["$u", "$t"]}], "$b[0] == 'a'", "$u != 'a'", PROVED),
        ([{"b": "[$u, 'c']"}], "'a' in $b", "$u != 'a'", PROVED),
        ([{"b": "[$u, 'c']"}], "'a' in $b", "$u != 'b'", VIOLATED),
        ([{"b": "[$t, 'c']"}], "$b contains 'q'", "$t != 'q'", PROVED),
        ([{"b": "[$t, 'c']"}], "len($b) != 2", "", PROVED),
        ([{"b": []}, {"b": "$b + [$t]"}, {"b": "$b + [$t]"}], "len($b) != 2", "", PROVED),
        ([{"b": {"x": "for $t"}}], "not ($b.x starts_with 'for ')", "", PROVED),
        ([{"b": {"x": "for $t"}}], "$b.x == 'for q'", "$t != 'q'", PROVED),
        ([{"b": {"x": "for $t"}}], "$b.x == 'for q'", "", VIOLATED),
        ([{"b": {"x": "is $n"}}], "not ($b.x starts_with 'is ')", "", PROVED),
        ([], "$t in [$u, 'q']", "$t not in ['a', 'b', 'c', 'q']", PROVED),
        ([], "$t in [$u, 'q']", "$t not in ['a', 'b', 'c']", VIOLATED),
        ([], "join([$u, 'x', $u], '') == 'axa'", "$u == 'b'", PROVED),
        ([], "len([$t, $u, 'a']) != 3", "", PROVED),
    ],
)
def test_what_is_proved_and_what_is_violated(
    built: list[dict[str, Any]], when: str, guard: str, expected: tuple[Verdict, bool]
) -> None:
    assert verdict(program(built, when, guard)) == expected


QUESTIONS = ("$t == 'a'", "$t contains 'b'", "len($t) > 1", "$t in ['a', 'ab']", "$t starts_with 'a'")


@pytest.mark.one_in(3)
@pytest.mark.parametrize("number", range(len(FORMS) + len(PATH_FORMS)))
def test_every_form_agrees_with_the_enumeration(number: int) -> None:
    chance, form = Random(f"forms/{number}"), (*FORMS, *PATH_FORMS)[number]
    for _ in range(2):
        asked, guard = chance.sample(QUESTIONS, 2)
        when = asked.replace("$t", form.place)
        agrees(program(list(form.assigned), when, guard))


@pytest.mark.one_in(3)
@pytest.mark.parametrize("number", range(len(TEXT_FORMS) + len(TEXT_PATHS)))
def test_every_form_of_a_text_agrees_with_the_enumeration(number: int) -> None:
    assigned, question = (*TEXT_FORMS, *TEXT_PATHS)[number]
    for guard in Random(f"texts/{number}").sample(QUESTIONS, 2):
        agrees(program(list(assigned), question, guard))


def agrees(data: dict[str, Any]) -> None:
    found = compare(data, lambda _: report(data), is_rechecked=True)
    assert not found.wrong, (data, found.wrong)
    (rule,) = [one for one in report(data).properties if one.rule == "rule"]
    assert (rule.verdict is Verdict.VIOLATED) is bool(truth(data).broken["rule"]), data
