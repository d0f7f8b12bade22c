"""The results of runs that decided nothing: what kept them from it is all that there is to report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from stepward.validator.gate.checking import RunResult
from stepward.validator.gate.settings import AdvisedError

if TYPE_CHECKING:
    from stepward.vm.errors import PolicyError
    from stepward.vm.reading.document import Document

UNUSABLE: Final = 2
"""The exit status of a command that could not decide anything."""


def undecided(error: AdvisedError) -> RunResult:
    """Return the result of a run that ended before anything was decided."""
    return RunResult(error=error, status=UNUSABLE)


def policy_result(error: PolicyError) -> RunResult:
    """Return the result of a run that a policy ends because it is none: what is wrong with it, as findings."""
    from stepward.validator.validator import unreadable
    from stepward.vm.errors import ProgramError
    from stepward.vm.reading.files import read_file

    document: Document | None = None
    try:
        documents = read_file(error.name)
        document = documents[0] if len(documents) == 1 else None
    except (OSError, ProgramError):
        pass
    report = unreadable(error, document)
    return RunResult(
        findings=report.findings,
        failing=frozenset(report.findings),
        sources={error.name: document.text if document else ""},
        error=AdvisedError("a policy can't be used, so nothing was checked"),
        status=UNUSABLE,
    )
