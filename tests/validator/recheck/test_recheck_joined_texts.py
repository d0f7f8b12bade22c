"""The second checker on texts that the program joins: `'a' + $t` is what `"a$t"` came to, and ends with `$t`.

By hand: what it knows without a look at values, and near misses of which it must not know it.
"""

from __future__ import annotations

from typing import Any

import pytest

from machines import Bench
from stepward.validator import ProgramValidator, Verdict
from stepward.validator.recheck.reading import Reading
from stepward.validator.recheck.rules import NeverWatcher
from stepward.validator.recheck.selectors import matches
from stepward.validator.recheck.walking import explored
from stepward.vm import Program
from stepward.vm.language.guardrails import Never

Sets = list[dict[str, Any]]

FIELD: Sets = [{"b": {"f": "a$t"}}]
SUM: Sets = [{"x": "'a' + $t"}]
BOTH: Sets = [{"b": {"f": "$t, $u"}}]
NUMBER: Sets = [{"b": {"f": "a$n"}}]
LISTS: Sets = [{"x": "$l + ['z']"}]

KNOWN: list[tuple[Sets, str]] = [
    (FIELD, "$b.f != 'a' + $t"),
    (FIELD, "not ($b.f ends_with $t)"),
    (FIELD, "not ($b.f contains $t)"),
    (FIELD, "$b.f not contains 'a' + $t"),
    (FIELD, "not ($b.f starts_with 'a' + $t)"),
    ([{"b": ["a$t"]}], "$b[0] != 'a' + $t"),
    (SUM, "$x != 'a' + $t"),
    (SUM, "not ($x ends_with $t)"),
    ([*SUM, {"y": "$x"}], "$y != 'a' + $t"),
    ([{"s": "$t"}, {"x": "'a' + $s"}], "not ($x ends_with $t)"),
    ([*FIELD, *SUM], "$b.f != $x"),
    (BOTH, "not ($b.f starts_with $t)"),
    (BOTH, "not ($b.f ends_with $u)"),
    (BOTH, "not ($b.f starts_with $t + ', ')"),
    ([{"x": "$n + 1"}], "$x != $n + 1"),
    ([{"x": "lower($t)"}], "$x != lower($t)"),
    ([], "not ('a' + $t ends_with $t)"),
    ([{"s": "'b' + $t"}, {"x": "'a' + $s"}], "not ($x ends_with $t)"),
    ([{"s": "'b' + $t"}, {"x": "'a' + $s"}], "$x != 'a' + 'b' + $t"),
    ([{"s": "$t + $u"}, {"x": "'a' + $s"}], "not ($x contains $s)"),
    ([{"x": "'a' + lower($t)"}], "not ($x ends_with lower($t))"),
    ([{"x": "'a' + ($t + 'b')"}], "not ($x contains $t)"),
    ([{"x": "'a' + $t + $u"}], "not ($x contains $t + $u + '')"),
]
"""What is assigned, and a condition that no run meets."""

NOT_KNOWN: list[tuple[Sets, str]] = [
    (FIELD, "$b.f != 'b' + $t"),
    (FIELD, "$b.f != $t + 'a'"),
    (FIELD, "$b.f != 'a' + $u"),
    (FIELD, "not ($b.f starts_with $t)"),
    (FIELD, "not ($b.f ends_with $u)"),
    (FIELD, "not ('a' + $u ends_with $t)"),
    (FIELD, "not ($t ends_with $b.f)"),
    (BOTH, "not ($b.f starts_with $u)"),
    (BOTH, "not ($b.f ends_with $t + ', ')"),
    (BOTH, "not ($b.f contains $t + $u)"),
    # A piece, or the text, changes behind it.
    ([*FIELD, {"t": "'other'"}], "$b.f != 'a' + $t"),
    ([*FIELD, {"t": "$u"}], "not ($b.f ends_with $t)"),
    ([*FIELD, {"b.f": "$u"}], "$b.f != 'a' + $t"),
    ([*SUM, {"x": "$u"}], "$x != 'a' + $t"),
    ([{"x": "'a' + $t", "t": "'other'"}], "not ($x ends_with $t)"),
    ([*SUM, {"x": "$x + 'z'"}], "$x != 'a' + $t"),
    ([*SUM, {"x": "'b' + $t"}], "$x != 'a' + $t"),
    ([{"t": "'a' + $t"}], "not ($t ends_with $t + 'z')"),
    # A sum of lists contains what no text does.
    (LISTS, "not ($x contains $t)"),
    ([{"x": "$n + 1"}], "$x != $n + 2"),
    ([{"x": "lower($t)"}], "$x != upper($t)"),
    ([{"s": "'b' + $t"}, {"x": "'a' + $s"}, {"s": "$u"}], "not ($x ends_with $s)"),
    ([{"s": "'b' + $t"}, {"x": "'a' + $s"}, {"t": "$u"}], "not ($x ends_with $t)"),
    ([{"x": "'a' + lower($t)"}], "not ($x ends_with $t)"),
]

ALWAYS_PROVED = KNOWN[:7]
"""Those of which the engine finds a proof, too, in a condition and in a rule."""

CHANGED = {"id": "again", "type": "tool", "tool": "get", "output_key": "t"}


def program(assigned: Sets, condition: str, *, rule: bool = False, behind: tuple[Any, ...] = ()) -> Program:
    """Return a program that pays where a condition holds, or under a rule with it."""
    steps = [{"id": f"m{number}", "type": "set", "set": one} for number, one in enumerate(assigned)]
    ask = {"id": "ask", "type": "condition", "condition": condition, "then": "pay", "otherwise": "rest"}
    data = {
        "language": 2,
        "name": "joined",
        "inputs": {
            "t": {"type": "string"},
            "u": {"type": "string"},
            "n": {"type": "integer", "minimum": 0, "maximum": 9},
            "l": {"type": "array", "items": {"type": "string"}},
        },
        "tools": {
            "pay": {"effect": "write", "idempotent": True},
            "get": {"effect": "read", "returns": {"type": "string"}},
        },
        "guardrails": [{"name": "r", "never": {"tool": "pay"}, **({"when": condition} if rule else {})}],
        "steps": [
            *steps,
            *behind,
            *([] if rule else [ask]),
            {"id": "pay", "type": "tool", "tool": "pay", "next_step": "rest"},
            {"id": "rest", "type": "end"},
        ],
    }
    return Program.from_dict(data)


def is_ruled_out(made: Program) -> bool:
    """Return whether the second checker finds by itself, without a look at values, that no rule is broken."""
    reading = Reading(made)
    (rule,) = made.guardrails
    assert isinstance(rule, Never)
    return not explored(reading, NeverWatcher(reading, matches(rule.never, reading), rule.when))


@pytest.mark.parametrize(("assigned", "condition"), KNOWN)
def test_what_the_pieces_of_texts_say_is_known(assigned: Sets, condition: str) -> None:
    assert is_ruled_out(program(assigned, condition))


@pytest.mark.parametrize(("assigned", "condition"), NOT_KNOWN)
def test_what_they_do_not_say_is_not_known(assigned: Sets, condition: str) -> None:
    assert not is_ruled_out(program(assigned, condition))


@pytest.mark.parametrize(("assigned", "condition"), [one for one in KNOWN if one[0] and "$t" in one[1]])
def test_a_piece_that_a_call_changes_is_another_one(assigned: Sets, condition: str) -> None:
    assert not is_ruled_out(program(assigned, condition, behind=(CHANGED,)))


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("assigned", "condition"), KNOWN + NOT_KNOWN)
def test_no_right_proof_of_the_engine_is_refused(assigned: Sets, condition: str) -> None:
    for rule in (False, True):
        report = ProgramValidator(program(assigned, condition, rule=rule)).validate()
        assert not [one for one in report.findings if one.code in ("SW902", "SW903")], report.findings
        (found,) = [one for one in report.properties if one.rule == "r"]
        assert found.verdict is Verdict.PROVED or (assigned, condition) not in ALWAYS_PROVED
        assert found.verdict is not Verdict.PROVED or (assigned, condition) in KNOWN


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("assigned", "condition"), KNOWN + NOT_KNOWN)
def test_runs_agree(assigned: Sets, condition: str) -> None:
    """What is known no run meets; a near miss is one, or a condition that can't be evaluated."""
    made = program(assigned, condition)
    reasons = set()
    for text, other in (("p", "q"), ("", "a"), ("pp", "p")):
        run = Bench({"pay": 1, "get": "other"}).run(made, t=text, u=other, n=3, l=["p"])
        reasons.add(run.reason)
    assert ("guardrail" in reasons) <= ((assigned, condition) in NOT_KNOWN)
