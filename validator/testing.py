"""For teams that build programs in code: one line in a pytest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from stepward.validator.files import shown_name
from stepward.validator.findings import Finding, Report
from stepward.validator.result import RunResult
from stepward.validator.validator import ProgramValidator, unreadable, validate_document
from stepward.vm.errors import DocumentError
from stepward.vm.language.policy import Policy
from stepward.vm.language.program import Program
from stepward.vm.reading.files import read_file


def assert_valid(
    program: Program | dict[str, Any] | str | Path, policies: Sequence[Policy] = (), *, allow_warnings: bool = True
) -> None:
    """Fail the test unless the program passes the gate; the message has every finding as `stepward check` prints it.

    That is file, line and column, the excerpt, the path with the values of a witness, and the help. `program` may be
    plain data, or the path of a file; a program that was built in code has the path of a field in place of a line.
    Raises AssertionError; warnings count only with `allow_warnings=False`. Raises OSError for a file that can't be
    read.
    """
    __tracebackhide__ = True
    for report, text in _reports(program, policies):
        findings = report.errors if allow_warnings else report.findings
        if findings:
            what = f"program `{report.program}` does not pass" if report.program else "not a program"
            raise AssertionError(f"{what}:\n\n{_told(findings, report.file, text)}")


def _reports(given: Program | dict[str, Any] | str | Path, policies: Sequence[Policy]) -> Iterator[tuple[Report, str]]:
    """Yield the report of each program that is given, with the text of its file."""
    try:
        match given:
            case Program():
                programs = [given]
            case str() | Path():
                for document in read_file(given):
                    yield validate_document(document, policies), document.text
                return
            case _:
                programs = [Program.from_dict(given)]
    except DocumentError as error:
        yield unreadable(error), ""
        return
    for program in programs:
        text = "" if program.document is None else program.document.text
        yield ProgramValidator(program, policies).validate(), text


def _told(findings: Sequence[Finding], file: str, text: str) -> str:
    from stepward.validator.report.full import render

    name = shown_name(Path(file).absolute()) if text and Path(file).is_file() else file
    shown = tuple(replace(finding, file=name) for finding in findings)
    return render(RunResult(shown, programs=1, programs_with_findings=1, sources={name: text})).rstrip()
