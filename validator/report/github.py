"""GitHub annotations: a workflow command for each finding, which GitHub shows at its line of a pull request.

GitHub shows at most ten errors and ten warnings of a step of a workflow, so findings that fail the gate come first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from stepward.validator.findings import Finding
from stepward.validator.report.text import advice, error_lines, safe, story, summary, values_of

if TYPE_CHECKING:
    from stepward.validator.result import AdvisedError, RunResult


def render(result: RunResult) -> str:
    """Return a command for each finding, and the summary."""
    error = [_error(result.error)] if result.error is not None else []
    findings = sorted(result.findings, key=lambda finding: finding not in result.failing)
    commands = map(_command, findings, values_of(findings))
    return "".join(f"{line}\n" for line in [*error, *commands, summary(result)])


def _error(error: AdvisedError) -> str:
    text = "\n".join(error_lines(error))
    return f"::error title=stepward::{_data(text)}"


def _command(finding: Finding, values: Sequence[str]) -> str:
    properties = ",".join(f"{name}={_property(value)}" for name, value in _properties(finding))
    text = "\n".join([finding.message, *story(finding, values), *advice(finding)])
    return f"::{finding.severity} {properties}::{_data(text)}"


def _properties(finding: Finding) -> Iterator[tuple[str, str]]:
    yield "file", finding.file
    if finding.span is not None:
        line, column, end_line, end_column = finding.span
        yield "line", str(line)
        yield "endLine", str(end_line)
        # GitHub refuses columns where a finding has several lines.
        if line == end_line:
            yield "col", str(column)
            yield "endColumn", str(end_column)
    yield "title", f"{finding.code} {finding.name}"


def _data(text: str) -> str:
    """Escape characters that would end the command, and those that can't be printed."""
    for sign, code in (("%", "%25"), ("\r", "%0D"), ("\n", "%0A")):
        text = text.replace(sign, code)
    return safe(text)


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
