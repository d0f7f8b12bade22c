"""Certificates of the proofs of small programs, one for each kind of proof part."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from small_programs import small_program
from stepward.validator import ProgramValidator, Verdict
from stepward.validator.recheck.certificates import parsed, recheck_data
from stepward.vm import Program

LOAN = """
name: loans
inputs: {income: {type: number, minimum: 0}, sum: {type: integer, minimum: 1, maximum: 90}}
tools:
  rate: {effect: read, returns: {type: string, enum: [low, high]}}
  pay: {effect: write, idempotent: false, args: {sum: {type: integer}}}
guardrails: [{name: low-only, never: {tool: pay}, when: '$risk != "low" or $sum > 50'}]
steps:
  - {id: rate, type: tool, tool: rate, output_key: risk}
  - {id: small, type: condition, condition: $sum <= 50, then: fine, otherwise: stop}
  - {id: fine, type: condition, condition: '$risk == "low"', then: pay, otherwise: stop}
  - {id: pay, type: tool, tool: pay, args: {sum: $sum}}
  - {id: stop, type: end, outcome: failure}
"""


def proofs(program: Program) -> Iterator[dict[str, Any]]:
    """Yield the certificates of a program as they are read back from JSON; none may be missing."""
    for one in ProgramValidator(program, certify=True, recheck=False).validate().properties:
        if one.verdict is Verdict.PROVED:
            assert one.certify is not None
            yield parsed(one.certify().to_json())


def small(seed: int) -> Program:
    return Program.from_dict(small_program(seed))


def written(kind: str) -> dict[str, Any]:
    """Return an accepted certificate of one part of that kind."""
    for data in (one for seed in SEEDS[kind] for one in proofs(small(seed))):
        if [part["kind"] for part in data["parts"]] == [kind]:
            assert recheck_data(data).is_accepted
            return data
    raise AssertionError(f"no certificate is a {kind}")


SEEDS = {
    "cut": [0, 1],
    "table": [7, 9],
    "states": [707, 391, 423],
    "budget": [616, 1274],
    "formula": [459],
    "cases": [0],
}


def yaml_of(text: str) -> dict[str, Any]:
    import yaml

    data = yaml.safe_load(text)
    assert isinstance(data, dict)
    return data
