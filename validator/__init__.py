"""The top floor: graph, checks, proofs, reports and the command. Importing it imports neither z3 nor hypothesis."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stepward.validator.analysis.graph import StepGraph as StepGraph
    from stepward.validator.findings import Evidence as Evidence
    from stepward.validator.findings import Finding as Finding
    from stepward.validator.findings import Property as Property
    from stepward.validator.findings import Report as Report
    from stepward.validator.findings import Severity as Severity
    from stepward.validator.findings import Verdict as Verdict
    from stepward.validator.testing import assert_valid as assert_valid
    from stepward.validator.validator import ProgramValidator as ProgramValidator
    from stepward.validator.validator import check_program as check_program

_HOMES = {
    "Evidence": "findings",
    "Finding": "findings",
    "ProgramValidator": "validator",
    "Property": "findings",
    "Report": "findings",
    "Severity": "findings",
    "StepGraph": "analysis.graph",
    "Verdict": "findings",
    "assert_valid": "testing",
    "check_program": "validator",
}

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    """Import a name when it is first used, so that each part of the house costs only that part."""
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    """Return the public names, also those that were not imported yet."""
    return sorted({*globals(), *__all__})
