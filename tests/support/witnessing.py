"""Witnesses of the fixtures and of small programs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from paths import BAD
from stepward.validator import Evidence, Finding, ProgramValidator, Report
from stepward.validator.engine.witnesses.witness import Witness
from stepward.vm import Policy, Program

GUARDRAIL_CODES = ("SW401", "SW402", "SW403", "SW404", "SW405", "SW406")
PATH_CODES = ("SW202", "SW302", "SW305", *GUARDRAIL_CODES)
FIXTURES = [
    path for code in PATH_CODES for path in sorted(BAD.glob(f"{code}/*.yaml")) if not path.name.endswith(".policy.yaml")
]
TOOLS = {
    "read": {"effect": "read"},
    "pay": {"effect": "write", "idempotent": True, "args": {"sum": {"type": "number"}}},
}


def check(program: Program, *policies: Policy) -> Report:
    return ProgramValidator(program, policies).validate()


def path_findings(report: Report) -> list[Finding]:
    return [finding for finding in report.findings if finding.code in PATH_CODES and finding.evidence]


def checked(path: Path) -> Report:
    policy = path.with_suffix(".policy.yaml")
    return check(Program.load(path), *([Policy.load(policy)] if policy.exists() else []))


def build(*steps: dict[str, Any], **more: Any) -> Program:
    return Program.from_dict({"name": "shop", "inputs": {}, "tools": TOOLS, **more, "steps": list(steps)})


def tool(name: str, kind: str = "read", **more: Any) -> dict[str, Any]:
    return {"id": name, "type": "tool", "tool": kind, **more}


def only(report: Report, code: str) -> Evidence:
    (finding,) = [finding for finding in report.findings if finding.code == code]
    assert finding.evidence is not None
    return finding.evidence


def witness_of(report: Report, code: str) -> Witness:
    witness = only(report, code).witness
    assert witness is not None
    return witness


def assert_not_doubted(report: Report) -> None:
    assert [finding.message for finding in report.findings if finding.code == "SW901"] == []


REQUIRES = {"name": "rule", "protects": {"tool": "pay"}, "requires": {"step": "check"}}
PAY = tool("pay", "pay", args={"sum": 1})
