"""Fast: `compute` steps in proofs: any value of their type, witnesses that suppose one, secrets and texts."""

from __future__ import annotations

from typing import Any

import pytest

from stepward.validator import ProgramValidator, Verdict
from stepward.validator.engine.witnesses.replay import replay
from stepward.validator.engine.witnesses.witness import Witness
from stepward.validator.report.values import Values
from stepward.vm import ExecutionVM, Program

PAYS = """
name: pays
language: 2
inputs:
  orders: {type: array, items: {type: object, properties: {amount: {type: number}}, required: [amount]}}
tools:
  pay: {effect: write, idempotent: true, args: {amount: {type: number}}, returns: {type: boolean}}
  approve: {effect: read, returns: {type: boolean}}
guardrails:
  - {name: small, never: {tool: pay}, when: $args.amount > 100}
  - {name: approved, protects: {tool: pay}, requires: {tool: approve}}
steps:
  - id: total
    type: compute
    args: {orders: $orders}
    lisp: "(sum-by :amount data/orders)"
    returns: {type: number}
    output_key: sum
  - {id: big, type: condition, condition: $sum > LIMIT, then: refuse, otherwise: ask}
  - {id: ask, type: tool, tool: approve, next_step: go}
  - {id: go, type: tool, tool: pay, args: {amount: $sum}}
  - {id: refuse, type: end, outcome: failure}
"""


def test_a_condition_on_a_computed_value_proves_a_guardrail_and_the_second_checker_agrees() -> None:
    report = ProgramValidator(Program.from_yaml(PAYS.replace("LIMIT", "100"))).validate()
    assert report.findings == ()
    assert {one.verdict for one in report.properties} == {"proved"}


def test_a_violation_supposes_a_value_and_the_machine_confirms_it() -> None:
    report = ProgramValidator(Program.from_yaml(PAYS.replace("LIMIT", "200"))).validate()
    (finding,) = [one for one in report.findings if one.code == "SW403"]
    assert finding.evidence is not None
    witness = finding.evidence.witness
    assert witness is not None
    (supposed,) = [answer for answer in witness.script if answer.step == "total"]
    assert 100 < supposed.value <= 200
    assert replay(witness).confirmed
    assert replay(Witness.from_json(witness.to_json())).confirmed
    assert Values().of(finding) == [f"sum = {supposed.value} (supposed)"]


def test_a_witness_supposes_nothing_where_the_machine_computes_the_same_run() -> None:
    text = PAYS.replace("LIMIT", "100").replace("then: refuse, otherwise: ask", "then: refuse, otherwise: go")
    report = ProgramValidator(Program.from_yaml(text)).validate()
    (finding,) = [one for one in report.findings if one.code == "SW401"]
    assert finding.evidence is not None
    assert finding.evidence.witness is not None
    assert [answer.step for answer in finding.evidence.witness.script] == []


FAILS = """
name: fails
language: 2
inputs: {a: {type: string}}
tools: {pay: {effect: write, idempotent: true}, tell: {effect: write, idempotent: true}}
guardrails: [{name: told, followed_by: {first: {tool: pay}, then: {tool: tell}}}]
steps:
  - {id: go, type: tool, tool: pay}
  - {id: length, type: compute, args: {a: $a}, lisp: "(parse-long data/a)", returns: {type: integer}CATCH}
  - {id: say, type: tool, tool: tell, on_error: skip}
"""


def test_an_expression_may_always_fail_and_a_witness_shows_it() -> None:
    report = ProgramValidator(Program.from_yaml(FAILS.replace("CATCH", ""))).validate()
    found = {one.code: one for one in report.findings if one.code == "SW405" and one.step == "length"}
    assert found["SW405"].evidence is not None
    assert found["SW405"].evidence.witness is not None
    assert replay(found["SW405"].evidence.witness).confirmed
    caught = ProgramValidator(Program.from_yaml(FAILS.replace("CATCH", ", on_error: skip"))).validate()
    assert not [one for one in caught.findings if one.step == "length"]


SECRET = """
name: secret
language: 2
inputs: {iban: {type: string, sensitive: true}}
steps:
  - {id: bank, type: compute, args: {x: {deep: ["$iban"]}}, lisp: "(str data/x)", output_key: bank}
  - {id: copy, type: set, set: {other: $bank}}
  - {id: ask, type: llm, prompt: "Which bank is $other?"}
"""


def test_a_secret_is_followed_through_a_computation() -> None:
    found = [one for one in ProgramValidator(Program.from_yaml(SECRET)).validate().findings if one.code == "SW208"]
    assert [one.step for one in found] == ["ask"]


TEXT = """
name: mail
language: 2
inputs: {question: {type: string}}
tools: {send: {effect: write, idempotent: true, args: {text: {type: string}}}}
steps:
  - {id: draft, type: llm, prompt: "Answer: $question", output_key: reply}
  - {id: nice, type: compute, args: {r: $reply}, lisp: "(upper-case data/r)", returns: {type: TYPE}, output_key: nice}
  - {id: go, type: tool, tool: send, args: {text: "It is $nice"}}
"""


@pytest.mark.parametrize(("kind", "codes"), [("string", ["SW209"]), ("integer", [])])
def test_free_text_is_followed_through_a_computation_that_may_give_a_text(kind: str, codes: list[str]) -> None:
    report = ProgramValidator(Program.from_yaml(TEXT.replace("TYPE", kind))).validate()
    assert [one.code for one in report.findings if one.code == "SW209"] == codes


RULES: dict[str, dict[str, Any]] = {
    "requires": {"requires": {"step": "a"}, "protects": {"step": "c"}},
    "never": {"never": {"step": "c"}, "when": "not defined($a.output)"},
    "exclusive": {"exclusive": [{"step": "c"}, {"step": "bad"}]},
}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("fails", [True, False])
def test_a_compute_step_that_fails_has_not_started(rule: str, fails: bool) -> None:
    """Proof and machine agree: rules are asked when it has a value."""
    steps = [
        {"id": "a", "type": "tool", "tool": "look", "error_step": "c", "next_step": "done"},
        {"id": "c", "type": "compute", "args": {"x": "$a.output" if fails else 1}, "lisp": "(+ 1 data/x)"}
        | {"returns": {"type": "integer"}, "error_step": "bad", "next_step": "bad"},
        {"id": "bad", "type": "end", "outcome": "failure"},
        {"id": "done", "type": "end"},
    ]
    tools = {"look": {"effect": "read", "returns": {"type": "integer"}}}
    data = {"name": "p", "language": 2, "inputs": {}, "tools": tools, "guardrails": [{"name": "r", **RULES[rule]}]}
    program = Program.from_dict({**data, "steps": steps})
    (verdict,) = [one.verdict for one in ProgramValidator(program).validate().properties if one.rule == "r"]

    def look() -> int:
        raise ValueError("no")

    run = ExecutionVM({"look": look}, checker=None).run_sync(program, {})
    assert (verdict is Verdict.PROVED, run.reason) == (fails, "declared" if fails else "guardrail")
