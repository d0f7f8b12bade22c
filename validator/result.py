"""The result of a check of files, texts and objects, and the errors that end such a check."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

from stepward.validator.failures import Failure
from stepward.validator.findings import Finding, Property, Severity
from stepward.vm.errors import StepwardError

if TYPE_CHECKING:
    from stepward.validator.analysis.bounds import ProgramBounds

UNUSABLE: Final = 2
"""The exit status of a command that can't be used."""


class AdvisedError(StepwardError):
    """A command can't be executed: `message` says why, and `help` what to do about it."""

    def __init__(self, message: str, help: str = "") -> None:
        self.message = message
        self.help = help
        super().__init__(message)


class Suppressed(NamedTuple):
    """A finding that is silenced: by what kind of entry, and for what reason."""

    finding: Finding
    kind: Literal["comment", "configuration", "baseline", "waiver"]
    reason: str


@dataclass(frozen=True)
class RunResult:
    """The result of a run."""

    findings: tuple[Finding, ...] = ()
    """The findings that are not silenced, waived, hidden or deselected."""
    failing: frozenset[Finding] = frozenset()
    """The findings that fail the gate, each file judged by its own `fail-on`."""
    suppressed: tuple[Suppressed, ...] = ()
    """The findings that comments, the configuration, baselines and waivers remove from `findings`."""
    files: tuple[str, ...] = ()
    """The files that hold programs."""
    properties: tuple[Property, ...] = ()
    bounds: tuple[ProgramBounds, ...] = ()
    """The bounds of each program, in a run that was asked for them."""
    sources: Mapping[str, str] = field(default_factory=dict)
    """The text of each file that one of `findings` is about."""
    programs: int = 0
    programs_with_findings: int = 0
    skipped: int = 0
    """The number of files that are no programs."""
    skipped_files: tuple[str, ...] = ()
    """Their names."""
    excluded: tuple[str, ...] = ()
    """The files and folders that the user named, and that the configuration excludes."""
    not_literal: tuple[str, ...] = ()
    """The file and line of each program in Python that can't be read without running it."""
    hidden: int = 0
    """The number of findings that a baseline hides."""
    stale: tuple[Mapping[str, Any], ...] = ()
    """The entries of baselines that match nothing any more."""
    status: int = 0
    """The exit status of the command, where a command made the run."""
    error: AdvisedError | None = None
    """The error that ended the run before anything was decided."""
    failures: tuple[Failure, ...] = ()
    """The internal errors, each of which ended a part of the run."""

    @property
    def is_failed(self) -> bool:
        """Whether the gate fails."""
        return bool(self.failing)

    def count(self, severity: Severity) -> int:
        """Return how many findings have a severity."""
        return sum(finding.severity is severity for finding in self.findings)


def undecided(error: AdvisedError) -> RunResult:
    """Return the result of a run that ended before anything was decided."""
    return RunResult(error=error, status=UNUSABLE)
