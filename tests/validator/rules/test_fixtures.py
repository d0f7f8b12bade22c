"""Fixture pairs: every bad program beside the output that it must produce.

To add one, drop a program into specs/programs/bad/SWnnn/ (a policy that it needs beside it as NAME.policy.yaml, tools
as NAME.tools.py, a baseline as NAME.baseline.json), run `make fixtures`, and read what was written.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from click.testing import CliRunner

from commands import program_in
from layers import impatient
from paths import PROGRAMS, ROOT
from sizes import MANY
from stepward.validator.cli import main

SUFFIXES = {".yaml", ".json", ".py"}
FEASIBILITY = {"finite abstraction", "explicit search", "block formula"}
"""The layers that ask which runs are feasible: what they prove, the graph and the types alone don't."""


OF_FOLDERS = {"SW702", "SW703"}
"""What is found only if a check covers a folder. An empty one is enough."""


def fixtures(folder: str) -> list[Path]:
    return sorted(
        path
        for path in (PROGRAMS / folder).rglob("*")
        if path.suffix in SUFFIXES and not path.name.endswith((".policy.yaml", ".tools.py", ".baseline.json"))
    )


def output_of(path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(path.parent)
    arguments = ["check", "--isolated", path.name]
    policy = path.with_suffix(".policy.yaml")
    if policy.exists():
        arguments += ["--policy", policy.name]
    tools = path.with_suffix(".tools.py")
    if tools.exists():
        arguments += ["--tools", tools.name]
    baseline = path.with_suffix(".baseline.json")
    if baseline.exists():
        arguments += ["--baseline", baseline.name]
    if path.parent.name not in OF_FOLDERS:
        return CliRunner().invoke(main, arguments, catch_exceptions=False).output
    with TemporaryDirectory() as empty:
        return CliRunner().invoke(main, [*arguments, empty], catch_exceptions=False).output


def name_of(path: Path) -> str:
    return str(path.relative_to(PROGRAMS))


def check_pair(path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    output = output_of(path, monkeypatch)
    expected = path.with_name(path.name + ".out")
    if os.environ.get("STEPWARD_WRITE_FIXTURES"):
        expected.write_text(output, encoding="utf-8")
    assert output == expected.read_text(encoding="utf-8")
    return output


@pytest.mark.one_in(2)
@pytest.mark.parametrize("path", fixtures("bad"), ids=name_of)
def test_a_bad_program_gives_its_expected_output(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not MANY:  # two programs that no layer decides took three quarters of the time
        impatient(monkeypatch)
    assert f"[{path.parent.name}]" in check_pair(path, monkeypatch)


@pytest.fixture(scope="module")
def report() -> dict[str, Any]:
    """The JSON report on all good programs, with every policy."""
    policies = [f"--policy={policy}" for policy in sorted((ROOT / "specs/policies").glob("*.yaml"))]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        arguments = ["check", "--isolated", "--fail-on=warning", "--output-format=json", "specs/programs/good"]
        result = CliRunner().invoke(main, [*arguments, *policies], catch_exceptions=False)
    found: dict[str, Any] = json.loads(result.stdout)
    assert found["summary"]["programs"] == len(fixtures("good"))
    assert (result.exit_code == 0) == (_serious(found["findings"]) == [])
    return found


def _serious(findings: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [one for one in findings if one["severity"] in ("error", "warning")]


@pytest.fixture(scope="module")
def properties(report: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """The properties of every good program, by its file."""
    found: dict[str, list[dict[str, Any]]] = {}
    for entry in report["properties"]:
        found.setdefault(Path(entry["file"]).stem, []).append(entry)
    return found


def test_no_good_program_has_a_finding_under_every_policy(report: dict[str, Any]) -> None:
    assert _serious(report["findings"]) == []


def test_a_good_program_proves_all_its_guardrails(properties: dict[str, list[dict[str, Any]]]) -> None:
    for path in fixtures("good"):
        proved = {entry["rule"] for entry in properties[path.stem] if entry["verdict"] == "proved"}
        assert {rule.name for rule in program_in(path).guardrails} <= proved, path
        unchecked = [
            one["rule"] for one in properties[path.stem] if one["verdict"] == "proved" and not one["rechecked"]
        ]
        assert unchecked == [], path
    others = [entry for entries in properties.values() for entry in entries if entry["verdict"] != "proved"]
    assert [(entry["verdict"], entry["rule"]) for entry in others] == [("violated", "one-message-a-run")], (
        "a rule of a policy, which waives it for this program"
    )


def test_eight_good_programs_hold_by_their_conditions(properties: dict[str, list[dict[str, Any]]]) -> None:
    """A walk over the graph proves something of each of them, and not all."""
    by_conditions = {
        name for name, entries in properties.items() if any(entry["layer"] in FEASIBILITY for entry in entries)
    }
    assert {"loan_decision", "failed_payment_recovery"} <= by_conditions
    assert len(by_conditions) >= 8, sorted(by_conditions)


def test_every_expected_output_has_its_program() -> None:
    for expected in PROGRAMS.rglob("*.out"):
        assert expected.with_suffix("").exists(), f"{expected} belongs to no program"
