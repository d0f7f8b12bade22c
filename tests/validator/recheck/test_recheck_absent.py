"""What the second checker knows of references that never have a value: it accepts what rests on that, and no more."""

from __future__ import annotations

import pytest

from stepward.validator import ProgramValidator, Verdict
from stepward.vm import Program

PROGRAM = """
name: absent
inputs:
  n: {{type: integer}}
  there: {{type: object, properties: {{a: {{type: integer}}}}, required: [a], additionalProperties: false}}
tools:
  get:
    effect: read
    returns: {{type: object, properties: {{a: {{type: integer}}}}, required: [a], additionalProperties: false}}
  pay: {{effect: write, idempotent: true}}
guardrails:
  - {{name: g, never: {{tool: pay}}}}
steps:
  - {{id: first, type: condition, condition: $n > 1, then: got, otherwise: got}}
  - {{id: got, type: tool, tool: get, next_step: made}}
  - {{id: made, type: set, set: {{constant: {{a: 1}}, copy: $got.output}}}}
{steps}
"""
NEVER = {
    "a name that nothing gives": "$nobody",
    "a field of a name that nothing gives": "$nobody.a",
    "the output of a condition": "$first.output",
    "the output of no step": "$nobody.output",
    "a field that an input can't have": "$there.b",
    "a field that an output can't have": "$got.output.b",
    "a field of a field that is a number": "$got.output.a.b",
    "a field that a copy can't have": "$copy.b",
    "a field of a number": "$n.a",
    "a field of an error": "$got.error.a",
    "a field that a constant lacks": "$constant.b",
}
ALWAYS = {
    "a field of an input": "$there.a",
    "a field of an output": "$got.output.a",
    "a field of a copy": "$copy.a",
    "a field of a constant": "$constant.a",
}
USES = {
    "an argument": "  - {{id: bought, type: tool, tool: pay, args: {{x: {0}}}, on_error: skip}}",
    "a text in an argument": "  - {{id: bought, type: tool, tool: pay, args: {{x: 'is {0}'}}, on_error: skip}}",
    "`defined`": """
  - {{id: asked, type: condition, condition: defined({0}), then: bought, otherwise: done}}
  - {{id: bought, type: tool, tool: pay}}
  - {{id: done, type: end, outcome: success}}""",
    "`defined` beside another": """
  - {{id: asked, type: condition, condition: $n > 7 and defined({0}), then: bought, otherwise: done}}
  - {{id: bought, type: tool, tool: pay}}
  - {{id: done, type: end, outcome: success}}""",
    "a comparison": """
  - {{id: asked, type: condition, condition: {0} == 1, then: bought, otherwise: done}}
  - {{id: bought, type: tool, tool: pay}}
  - {{id: done, type: end, outcome: success}}""",
}


def verdict(name: str, use: str) -> Verdict:
    report = ProgramValidator(Program.from_yaml(PROGRAM.format(steps=USES[use].format(name)))).validate()
    assert not [one.message for one in report.findings if one.code in ("SW901", "SW902")]
    (found,) = [one.verdict for one in report.properties if one.rule == "g"]
    return found


@pytest.mark.one_in(3)
@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("name", NEVER.values(), ids=NEVER)
def test_what_never_has_a_value_leads_nowhere(name: str, use: str) -> None:
    assert verdict(name, use) is Verdict.PROVED


@pytest.mark.one_in(3)
@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("name", ALWAYS.values(), ids=ALWAYS)
def test_what_has_a_value_leads_to_the_payment(name: str, use: str) -> None:
    assert verdict(name, use) is Verdict.VIOLATED
