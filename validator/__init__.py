"""The top floor: graph, checks, proofs, reports and the command. Importing it imports neither z3 nor hypothesis."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepward.vm.late import late

if TYPE_CHECKING:
    from stepward.validator.analysis.graph import StepGraph as StepGraph
    from stepward.validator.findings import Evidence as Evidence
    from stepward.validator.findings import Finding as Finding
    from stepward.validator.findings import Property as Property
    from stepward.validator.findings import Report as Report
    from stepward.validator.findings import Severity as Severity
    from stepward.validator.findings import Verdict as Verdict
    from stepward.validator.planner.before import Continuing as Continuing
    from stepward.validator.planner.planner import Planned as Planned
    from stepward.validator.planner.planner import Planner as Planner
    from stepward.validator.planner.planner import Proposal as Proposal
    from stepward.validator.planner.refusal import PlanRefused as PlanRefused
    from stepward.validator.testing import assert_valid as assert_valid
    from stepward.validator.validator import ProgramValidator as ProgramValidator
    from stepward.validator.validator import check_program as check_program

_HOMES = {
    "Evidence": "findings",
    "Finding": "findings",
    "Continuing": "planner.before",
    "PlanRefused": "planner.refusal",
    "Planned": "planner.planner",
    "Planner": "planner.planner",
    "ProgramValidator": "validator",
    "Property": "findings",
    "Proposal": "planner.planner",
    "Report": "findings",
    "Severity": "findings",
    "StepGraph": "analysis.graph",
    "Verdict": "findings",
    "assert_valid": "testing",
    "check_program": "validator",
}

__all__ = list(_HOMES)
__getattr__, __dir__ = late(globals(), "stepward.validator.", _HOMES)
