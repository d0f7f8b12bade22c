"""One line per finding: `path:line:column: error SW401 [guardrail-bypassed] message`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepward.validator.findings import Finding
from stepward.validator.report.text import position, safe, summary

if TYPE_CHECKING:
    from stepward.validator.result import RunResult


def render(result: RunResult) -> str:
    """Return a line for each finding, and the summary."""
    return "".join(f"{line}\n" for line in [*map(_line, result.findings), summary(result)])


def _line(finding: Finding) -> str:
    where = finding.file + position(finding.place, finding.span)
    return safe(f"{where}: {finding.severity} {finding.code} [{finding.name}] {finding.message}")
