"""The report of GitLab's code quality: a JSON array with an object for each finding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from stepward.validator.findings import Finding, Severity
from stepward.validator.report.fingerprints import digest, fingerprints
from stepward.validator.report.text import advice, error_lines, json_text, story, values_of

if TYPE_CHECKING:
    from stepward.validator.result import AdvisedError, RunResult

_SEVERITIES: Final = {Severity.ERROR: "major", Severity.WARNING: "minor"}
"""GitLab's names of severities; its `critical` is for tools that know which program matters most."""


def render(result: RunResult) -> str:
    """Return the findings as JSON text."""
    marks = fingerprints(result.findings)
    issues = list(map(_issue, result.findings, marks, values_of(result.findings)))
    return json_text([*issues, _undecided(result.error)] if result.error is not None else issues)


def _undecided(error: AdvisedError) -> dict[str, Any]:
    """Return an issue of the whole project: an empty report would say that everything has been fixed."""
    return {
        "description": "; ".join(error_lines(error)),
        "check_name": "stepward",
        "fingerprint": digest([error.message]),
        "severity": "blocker",
        "location": {"path": ".", "lines": {"begin": 1}},
    }


def _issue(finding: Finding, mark: str, values: Sequence[str]) -> dict[str, Any]:
    lines = {"begin": finding.span.line, "end": finding.span.end_line} if finding.span else {"begin": 1}
    return {
        "description": "; ".join([finding.message, *story(finding, values), *advice(finding)]),
        "check_name": f"{finding.code} {finding.name}",
        "fingerprint": mark,
        "severity": _SEVERITIES[finding.severity],
        "location": {"path": finding.file, "lines": lines},
    }
