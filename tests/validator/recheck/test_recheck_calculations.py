"""Calculations in rules and conditions: right proofs that were refused once, and steps that fail by too many digits."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from machines import Bench
from stepward.validator import ProgramValidator, Report, Verdict
from stepward.validator.engine.values.overflow import Overflow
from stepward.validator.findings import Property
from stepward.vm import Program

WHEN = """
name: calculated
inputs:
  few: {{type: integer, minimum: 0, maximum: 2}}
  many: {{type: integer, minimum: 0, maximum: 1000}}
  any: {{type: integer}}
tools: {{pay: {{effect: write}}}}
guardrails:
  - {{name: r, never: {{tool: pay}}, when: "{when}"}}
steps:
  - {{id: said, type: llm, prompt: say}}
  - {{id: paid, type: tool, tool: pay}}
"""
NEVER = (
    "$few + 1 > 9",
    "not ($few + 1 > 2 or defined($said.output))",
    "not ($few * 2 > 2 or true)",
    "$few + 1 > 9 and not defined($said.output)",
    "$few + $few > 4",
    "$few == 1 and $few == 2",
    "$many + 1 > 5 and not defined($said.output)",
    "not ($many - 1 > 5 or defined($said.output))",
    "not ($any + 1 > 2 or defined($said.output))",
)
SOMETIMES = ("$few + 1 > 2", "$few + $few > 3", "not ($few + 1 > 2 and defined($said.output))", "$any + 1 > 2")

BETWEEN = """
name: calculated
inputs:
  few: {{type: integer, minimum: 0, maximum: 2}}
  many: {{type: integer, minimum: 0, maximum: 1000}}
  any: {{type: integer}}
  share: {{type: number, minimum: 0, maximum: 1}}
  large: {{type: integer, minimum: 0, maximum: 1000000000000000000}}
tools:
  pay: {{effect: write}}
  log: {{effect: write}}
guardrails:
  - {{name: r, followed_by: {{first: {{tool: pay}}, then: {{tool: log}}}}}}
steps:
  - {{id: paid, type: tool, tool: pay}}
  - {{id: asked, type: condition, condition: "{condition}", then: noted, otherwise: logged}}
  - {{id: noted, type: set, set: {{much: true}}, next_step: logged}}
  - {{id: logged, type: tool, tool: log}}
"""
SHORT = (
    "$few + 1 > 2",
    "$many + 1 > 2",
    "$many * 2 - 1 > $few",
    "-$many < 3",
    "$few > 1 or $many * 3 > 9",
    "$many * 0.19 > 20",
    "$many * 9e990 - 9e900 > $few",
    f"{' * '.join(['$large'] * 50)} > 2",
)
BY_CONSTANTS = (
    "$many * 9e999 > 2",
    "$many + 1e-999 + 1e9 > 2",
    "$many * 1e-600 * 1e-600 > 2",
    f"{' * '.join(['$large'] * 60)} > 2",
    f"-({' * '.join(['$large'] * 60)}) > 2",
)
LONG = ("$any + 1 > 2", "$share + 1 > 2", "$any - $many > 2", "$few > 1 or $any * 2 > 9", *BY_CONSTANTS)
"""Conditions with a result of over 1,000 digits for some value of the types."""

UNMET = ("defined($any) or $any + 1 > 2", "$any > 2 and $any < 1 and $any + 1 > 2")
"""Conditions in which no run gets to the calculation, or in which it is certain before."""


def check(text: str) -> tuple[Verdict, Report]:
    report = ProgramValidator(Program.from_yaml(text)).validate()
    assert not [one.message for one in report.findings if one.code in ("SW901", "SW902")]
    (verdict,) = [one.verdict for one in report.properties if one.rule == "r"]
    return verdict, report


@pytest.mark.one_in(3)
@pytest.mark.parametrize("when", NEVER)
def test_a_rule_that_no_value_breaks_is_proved(when: str) -> None:
    verdict, _ = check(WHEN.format(when=when))
    assert verdict is Verdict.PROVED


@pytest.mark.parametrize("when", SOMETIMES)
def test_a_rule_that_some_value_breaks_is_violated(when: str) -> None:
    verdict, _ = check(WHEN.format(when=when))
    assert verdict is Verdict.VIOLATED


@pytest.mark.parametrize("condition", [*SHORT, *UNMET])
def test_a_condition_over_short_numbers_does_not_fail(condition: str) -> None:
    verdict, _ = check(BETWEEN.format(condition=condition))
    assert verdict is Verdict.PROVED


@pytest.mark.parametrize("condition", LONG)
def test_a_condition_may_fail_by_a_result_of_too_many_digits(condition: str) -> None:
    verdict, report = check(BETWEEN.format(condition=condition))
    assert verdict is Verdict.UNKNOWN
    (why,) = [one.message for one in report.findings if one.code == "SW408"]
    assert "a calculation may have a result of over 1,000 digits, and then its step fails" in why


@pytest.mark.parametrize("condition", LONG)
def test_the_second_checker_knows_that_by_itself(condition: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine for which no result is too long finds proofs, and none of them is accepted."""
    monkeypatch.setattr(Overflow, "may_happen", lambda *_: False)
    report = ProgramValidator(Program.from_yaml(BETWEEN.format(condition=condition))).validate()
    assert Verdict.PROVED not in {one.verdict for one in report.properties if one.rule == "r"}
    assert [one.message for one in report.findings if one.code == "SW902"]


def test_a_product_of_many_bounded_numbers_fails_on_the_machine() -> None:
    """This was proved once."""
    program = Program.from_yaml(BETWEEN.format(condition=BY_CONSTANTS[-2]))
    bench = Bench({"pay": None, "log": None})
    run = bench.run(program, few=0, many=0, share=0, any=0, large=10**18)
    assert (run.status, [one.tool for one in bench.tools.asked]) == ("FAILED", ["pay"])


OF_CONSTANTS = {
    "5e999 * 2 > $n or $seen": Verdict.VIOLATED,
    "$seen or 5e999 * 2 > $n": Verdict.VIOLATED,
    "$seen or 5e999 + 5e999 > $n": Verdict.VIOLATED,
    "$seen or -9e999 - 9e999 < $n": Verdict.VIOLATED,
    "$seen or 1e-600 * 1e-600 < $n": Verdict.VIOLATED,
    "$seen or 1e999 + 9e999 < $n": Verdict.VIOLATED,
    "$seen or 4e999 * 2 > $n": Verdict.PROVED,
    "$seen or 9e999 - 9e999 < $n": Verdict.PROVED,
    "$seen or 1e-600 * 1e600 < $n": Verdict.PROVED,
}


@pytest.mark.parametrize("condition", OF_CONSTANTS)
def test_a_result_of_constants_fails_a_condition_if_it_has_too_many_digits(condition: str) -> None:
    """The names are not told apart by classes: the formula took such a result for a number."""
    program = {
        "name": "t",
        "language": 2,
        "inputs": {"n": {"type": "integer", "minimum": 0, "maximum": 3}},
        "tools": {"pay": {"effect": "write"}, "log": {"effect": "read", "returns": {"type": "boolean"}}},
        "guardrails": [{"name": "r", "followed_by": {"first": {"tool": "pay"}, "then": {"step": "last"}}}],
        "steps": [
            {"id": "s", "type": "set", "set": {"done": False, "seen": False}},
            {"id": "swap", "type": "set", "set": {"done": "$seen", "seen": "$done"}},
            {"id": "p", "type": "tool", "tool": "pay"},
            {"id": "q", "type": "tool", "tool": "log", "output_key": "done", "on_error": "skip"},
            {"id": "c", "type": "condition", "condition": condition, "then": "last", "otherwise": "last"},
            {"id": "last", "type": "tool", "tool": "log"},
        ],
    }
    report = ProgramValidator(Program.from_dict(program)).validate()
    assert not [one.message for one in report.findings if one.code in ("SW901", "SW902")]
    (found,) = [one.verdict for one in report.properties if one.rule == "r"]
    assert found is OF_CONSTANTS[condition]


def test_a_when_that_has_too_many_digits_is_assumed_away_by_both_checkers() -> None:
    """The call fails with another error, so nothing leads to `pay`; the formula proves it, without a look at digits."""
    caught = [{"errors": ["Undefined"], "then": "pay"}]
    program = {
        "name": "t",
        "language": 2,
        "inputs": {"m": {"type": "integer", "minimum": 0, "maximum": 2}},
        "tools": {"pay": {"effect": "write"}},
        "programs": {"fails": {"steps": [{"id": "no", "type": "end", "outcome": "failure"}]}},
        "guardrails": [{"name": "r", "never": {"step": "pay"}, "when": "not ($m * 5e999 > 5e999)"}],
        "steps": [
            {"id": "large", "type": "condition", "condition": "$m > 1", "then": "fail", "otherwise": "last"},
            {"id": "fail", "type": "call", "program": "fails", "args": {}, "catch": caught, "next_step": "last"},
            {"id": "pay", "type": "tool", "tool": "pay", "is_terminal": True},
            {"id": "last", "type": "end"},
        ],
    }
    report = ProgramValidator(Program.from_dict(program)).validate()
    assert not [one.message for one in report.findings if one.code in ("SW901", "SW902")]
    assert [one.verdict for one in report.properties if one.rule == "r"] == [Verdict.PROVED]


TOTALS = {
    "squares": [{"b": "$n * $n"}, {"c": "$b * $b"}, {"d": "$c * $c"}],
    "a share": [{"b": "$n * 0.2"}, {"c": "$b - $n"}],
    "a sum of products": [{"b": 0, "line": "$n * $n"}, {"b": "$b + $line"}],
    "a field": [{"o": {"t": 1}}, {"b": "$o.t * $n"}],
}
TOO_LONG = {
    "squares": [{"b": "$n * $n"}, *({name: f"${before} * ${before}"} for before, name in pairwise("bcdefgh"))],
    "a constant": [{"b": "9e999"}, {"c": "$b + $b"}],
    "twice itself": [{"b": "9e999"}, {"b": "$b * 2"}],
}


@pytest.mark.parametrize("name", [*TOTALS, *(f"{one} of too many digits" for one in TOO_LONG)])
def test_numbers_that_are_computed_of_others_have_the_digits_of_these(name: str) -> None:
    of = name.removesuffix(" of too many digits")
    each = TOTALS[of] if name == of else TOO_LONG[of]
    sets = [{"id": f"s{number}", "type": "set", "set": values} for number, values in enumerate(each)]
    program = {
        "name": "t",
        "language": 2,
        "inputs": {"n": {"type": "integer", "minimum": 0, "maximum": 10**18}},
        "tools": {"pay": {"effect": "write", "idempotent": True}, "log": {"effect": "read"}},
        "guardrails": [{"name": "r", "followed_by": {"first": {"tool": "pay"}, "then": {"tool": "log"}}}],
        "steps": [
            {"id": "p", "type": "tool", "tool": "pay", "on_error": "skip"},
            *sets,
            {"id": "q", "type": "tool", "tool": "log"},
        ],
    }
    report = ProgramValidator(Program.from_dict(program)).validate()
    assert not [one.message for one in report.findings if one.code in ("SW901", "SW902")]
    (found,) = [one.verdict for one in report.properties if one.rule == "r"]
    assert found is (Verdict.PROVED if name == of else Verdict.VIOLATED)


def test_the_machine_fails_there() -> None:
    program = Program.from_yaml(BETWEEN.format(condition="$any + 1 > 2"))
    bench = Bench({"pay": None, "log": None})
    run = bench.run(program, few=0, many=0, share=0, any=10**1000 - 1, large=0)
    assert (run.status, [one.tool for one in bench.tools.asked]) == ("FAILED", ["pay"])


def test_what_was_calculated_before_does_not_fail() -> None:
    before = '- {id: before, type: condition, condition: "$any + 1 > 2", then: paid, otherwise: paid}'
    paid = "- {id: paid, type: tool, tool: pay"
    text = BETWEEN.format(condition="$any + 1 > 2").replace(paid, f"{before}\n  {paid}, next_step: asked")
    verdict, _ = check(text)
    assert verdict is Verdict.PROVED


JOINED = {
    "$t + $u": ("starts_with", "ac"),
    "'a' + $t": ("starts_with", "aa"),
    "$t + 'b' + $u": ("contains", "bc"),
    "$t + ($u + 'd')": ("ends_with", "cd"),
    "$b.f + $t": ("starts_with", "xa"),
}
"""Joined texts of which each part is one of few, and what all of them are."""


@pytest.mark.parametrize("place", ["j", "b.f"])
@pytest.mark.parametrize("joined", JOINED)
def test_texts_that_are_joined_of_few_texts_are_distinguished(joined: str, place: str) -> None:
    word, literal = JOINED[joined]

    def found(first: list[str]) -> Property:
        put = {"id": "put", "type": "set", "set": {"b": {"f": "x"}}}
        joins = {"id": "join", "type": "set", "set": {place: joined}}
        made = {
            "name": "joined",
            "language": 2,
            "inputs": {"t": {"type": "string", "enum": first}, "u": {"type": "string", "enum": ["c"]}},
            "tools": {"pay": {"effect": "write", "idempotent": True}},
            "guardrails": [{"name": "r", "never": {"tool": "pay"}, "when": f"not (${place} {word} '{literal}')"}],
            "steps": [put, joins, {"id": "act", "type": "tool", "tool": "pay"}],
        }
        return next(one for one in ProgramValidator(Program.from_dict(made)).validate().properties if one.rule == "r")

    kept = found(["a", "ab"] if literal in ("aa", "xa") else ["a"])
    assert (kept.verdict, kept.rechecked) == (Verdict.PROVED, True)
    if word == "starts_with":
        assert found(["a", "e"]).verdict is Verdict.VIOLATED


GET = {"id": "get", "type": "tool", "tool": "get", "output_key": "v"}
COPY = {"id": "copy", "type": "set", "set": {"w": "$v"}}
SUMS: dict[str, tuple[list[dict[str, Any]], str]] = {
    "a sum": ([], "$a + 1"),
    "a sum of two": ([], "$a + $b"),
    "a difference": ([], "$a - 1"),
    "a negative number": ([], "-$a - $b"),
    "a product": ([], "$a * $b"),
    "a square": ([], "$a * $a"),
    "a fraction": ([], "$a + 0.5"),
    "a number with a least value": ([], "$m + 1"),
    "a field": ([], "$o.n + 1"),
    "an output": ([GET], "$v + 1"),
    "a copy of an output": ([GET, COPY], "$w + 1"),
    "a copy of a copy": ([GET, COPY, {"id": "c", "type": "set", "set": {"u": "$w"}}], "$u + 1"),
    "limits": ([], "$n + 1"),
    "a copy within limits": ([{"id": "c", "type": "set", "set": {"w": "$n"}}], "$w + 1"),
}
NUMBER = {"type": "number"}


@pytest.mark.parametrize("kind", SUMS)
def test_a_run_is_shown_in_which_a_result_has_too_many_digits(kind: str) -> None:
    before, value = SUMS[kind]
    inputs: dict[str, Any] = {"a": NUMBER, "b": NUMBER, "m": {"type": "integer", "minimum": 3}}
    inputs |= {"n": {"type": "integer", "minimum": 0, "maximum": 9}}
    inputs |= {"o": {"type": "object", "properties": {"n": NUMBER}, "required": ["n"]}}
    data = {
        "language": 2,
        "name": "sums",
        "inputs": inputs,
        "tools": {"get": {"effect": "read", "returns": NUMBER}, "pay": {"effect": "write"}, "tell": {"effect": "read"}},
        "guardrails": [{"name": "r", "followed_by": {"first": {"tool": "pay"}, "then": {"tool": "tell"}}}],
        "steps": [
            *before,
            {"id": "p", "type": "tool", "tool": "pay"},
            {"id": "s", "type": "set", "set": {"t": value}},
            {"id": "q", "type": "tool", "tool": "tell"},
        ],
    }
    found = ProgramValidator(Program.from_dict(data)).validate()
    (said,) = [one for one in found.properties if one.rule == "r"]
    is_kept = "limits" in kind
    assert (said.verdict, said.rechecked) == (Verdict.PROVED if is_kept else Verdict.VIOLATED, is_kept)
