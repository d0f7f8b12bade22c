"""Names that a rule of a policy reads and a program does not have: decided where the rule asks if they are defined."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from machines import Bench
from stepward.validator import ProgramValidator, Verdict
from stepward.vm import Policy, Program

DECIDED = {
    "not defined($ask.output)": Verdict.VIOLATED,
    "not (defined($ask.output) and $ask.output)": Verdict.VIOLATED,
    "not defined($ask.output) or not $ask.output": Verdict.VIOLATED,
    "$args.amount > 100 and not (defined($ask.output) and $ask.output)": Verdict.PROVED,
    "defined($ask.output) and $ask.output": Verdict.PROVED,
    "defined($ask.output.a) and $ask.output.a == 1": Verdict.PROVED,
    "defined($x) and $x > 3": Verdict.PROVED,
    "defined($args.note) and $args.note == 'x'": Verdict.PROVED,
}
OPEN = ("$ask.output", "$x > 3", "defined($ask.output) and $ask.output.a == 1", "$x and defined($x)", "$args.note == 1")


def policy(when: str) -> Policy:
    pay = {"effect": "write", "idempotent": True, "args": {"amount": {"type": "number"}}}
    rule = {"name": "rule", "never": {"tool": "pay"}, "when": when}
    return Policy.from_dict({"policy": "p", "tools": {"pay": pay}, "guardrails": [rule]})


def program(language: int = 2, **more: Any) -> Program:
    steps = [{"id": "pay", "type": "tool", "tool": "pay", "args": {"amount": 5}}]
    return Program.from_dict({"name": "small", "language": language, "inputs": {}, "steps": steps, **more})


def verdict(asked: Program, *policies: Policy) -> tuple[Verdict, bool, set[str]]:
    report = ProgramValidator(asked, policies=policies).validate()
    (rule,) = [one for one in report.properties if one.rule == "rule"]
    return rule.verdict, rule.rechecked, {one.code for one in report.findings}


@pytest.mark.parametrize(("when", "language"), list(product(DECIDED, (1, 2))))
def test_what_is_defined_first_is_decided_as_the_machine_does(when: str, language: int) -> None:
    found, rechecked, codes = verdict(program(language), policy(when))
    assert (found, rechecked) == (DECIDED[when], DECIDED[when] is Verdict.PROVED)
    assert ("SW403" in codes) is (found is Verdict.VIOLATED)
    bench = Bench({"pay": None}, policy=policy(when))
    bench.run(program(language))
    assert bool(bench.tools.steps()) is (found is Verdict.PROVED)


@pytest.mark.parametrize("when", OPEN)
def test_what_is_read_without_a_test_is_left_open(when: str) -> None:
    found, _, codes = verdict(program(), policy(when))
    assert (found, "SW408" in codes) == (Verdict.UNKNOWN, True)


def test_a_rule_of_the_program_itself_has_to_name_what_it_has() -> None:
    rule = {"name": "rule", "never": {"tool": "pay"}, "when": "defined($x) and $x > 3"}
    asked = program(tools={"pay": {"effect": "write", "idempotent": True}}, guardrails=[rule])
    assert verdict(asked)[0] is Verdict.UNKNOWN
