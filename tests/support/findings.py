"""A finding, a run that found it, text that is hard to write, and the run that a SARIF log tells of."""

from __future__ import annotations

import json
from typing import Any

from sarif_kit.validate import validation_errors

from stepward.validator.findings import Finding, Severity
from stepward.validator.result import RunResult
from stepward.vm.reading.source import Place, Span

HOSTILE = "100% :: a,b: \r\n{0} [x](1) <&>]]> \x00\x1b \u202e \ud800 \uffff"
"""Signs that mean something to one of the formats, or that it has no way to write."""

TWO = """\
name: two
inputs: {amount: {type: number}}
steps:
  - {id: a, type: condition, condition: $amount > 5, then: b, otherwise: gone}
  - {id: b, type: llm, prompt: x, next_step: gone}
"""


def finding(**fields: Any) -> Finding:
    given: dict[str, Any] = {
        "code": "SW101",
        "name": "missing-target",
        "severity": Severity.ERROR,
        "message": "there is no step `gone`",
        "help": "add it",
        "place": Place(("steps", 0, "next_step")),
        "file": "p.yaml",
        "span": Span(4, 44, 4, 48),
    }
    return Finding(**{**given, **fields})


def result(*findings: Finding, **fields: Any) -> RunResult:
    return RunResult(findings, **{"failing": frozenset(findings), "programs": 1, **fields})


def run_of(text: str) -> dict[str, Any]:
    """Return the one run of a log that keeps to the published schema."""
    log = json.loads(text)
    assert validation_errors(log) == []
    (run,) = log["runs"]
    return dict(run)
