"""The run as JSON, version 1: findings, properties, bounds, summary."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from stepward.validator.findings import Finding, Fix, Property, Severity, Verdict
from stepward.validator.report.text import file_of, json_text
from stepward.vm.reading.source import Span
from stepward.vm.values import exact

if TYPE_CHECKING:
    from stepward.validator.analysis.bounds import ProgramBounds
    from stepward.validator.result import RunResult

VERSION: Final = 1


def render(result: RunResult) -> str:
    """Return the run as JSON text."""
    return json_text(
        {
            "version": VERSION,
            "error": {"message": result.error.message, "help": result.error.help} if result.error else None,
            "findings": [_finding(finding) for finding in result.findings],
            "properties": [_property(entry) for entry in result.properties],
            "bounds": [_bounds(entry) for entry in result.bounds],
            "summary": _summary(result),
        }
    )


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "code": finding.code,
        "name": finding.name,
        "severity": finding.severity,
        "message": finding.message,
        "help": finding.help,
        **_where(finding.file, finding.span),
        "step": finding.step,
        "related": [
            {"message": label.text, **_where(file_of(label, finding), label.span)} for label in finding.related
        ],
        "evidence": finding.evidence.to_data() if finding.evidence else None,
        "fix": _fix(finding.fix) if finding.fix else None,
    }


def _fix(fix: Fix) -> dict[str, Any]:
    edits = [{**edit.span._asdict(), "text": edit.text} for edit in fix.edits]
    return {"title": fix.title, "edits": edits}


def _where(file: str, span: Span | None) -> dict[str, Any]:
    return {"file": file, **(span._asdict() if span else dict.fromkeys(Span._fields))}


def _property(entry: Property) -> dict[str, Any]:
    return {
        "file": entry.file,
        "name": entry.name,
        "rule": entry.rule,
        "verdict": entry.verdict,
        "rechecked": entry.rechecked,
        "layer": entry.evidence.layer,
        "seconds": exact(round(entry.seconds, 6)),
        "evidence": entry.evidence.to_data(witness=False),
    }


def _bounds(entry: ProgramBounds) -> dict[str, Any]:
    return {
        "file": entry.file,
        "program": entry.program,
        "steps": entry.steps.count,
        "model_calls": entry.model_calls.count,
        "model_steps": {step: most.count for step, most in entry.model_steps.items()},
        "tools": {
            name: {"attempts": tool.attempts.count, "performances": tool.performances.count}
            for name, tool in entry.tools.items()
        },
        "reason": entry.reason or None,
        "loops": [list(loop) for loop in entry.loops],
        "shortest": asdict(entry.shortest) if entry.shortest else None,
    }


def _summary(result: RunResult) -> dict[str, Any]:
    codes = Counter(finding.code for finding in result.findings)
    verdicts = Counter(entry.verdict for entry in result.properties)
    return {
        "programs": result.programs,
        "programs_with_findings": result.programs_with_findings,
        "files_skipped": result.skipped,
        "excluded": list(result.excluded),
        "programs_not_literal": len(result.not_literal),
        "not_checked": list(result.not_literal),
        "errors": result.count(Severity.ERROR),
        "warnings": result.count(Severity.WARNING),
        "codes": dict(sorted(codes.items())),
        "verdicts": {verdict: verdicts[verdict] for verdict in Verdict},
        "rechecked": sum(entry.rechecked for entry in result.properties),
        "hidden_by_baseline": result.hidden,
        "stale_baseline": list(result.stale),
    }
