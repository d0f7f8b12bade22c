"""Fixture pairs: every bad program beside the output that it must produce.

To add one, drop a program into specs/programs/bad/SWnnn/ (a policy that it needs beside it as NAME.policy.yaml), run
`make fixtures`, and read what was written.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from stepward.validator.cli import main

ROOT = Path(__file__).parents[1]
PROGRAMS = ROOT / "specs/programs"
SUFFIXES = {".yaml", ".json", ".py"}
WAITING_FOR_THE_ENGINE = {"SW103", "SW402"}
"""Codes that only the engine gives where no constant decides; until then their fixtures say SW408, or nothing."""


def fixtures(folder: str) -> list[Path]:
    return sorted(
        path
        for path in (PROGRAMS / folder).rglob("*")
        if path.suffix in SUFFIXES and not path.name.endswith(".policy.yaml")
    )


def output_of(path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(path.parent)
    arguments = ["check", "--isolated", path.name]
    policy = path.with_suffix(".policy.yaml")
    if policy.exists():
        arguments += ["--policy", policy.name]
    return CliRunner().invoke(main, arguments, catch_exceptions=False).output


def name_of(path: Path) -> str:
    return str(path.relative_to(PROGRAMS))


def check_pair(path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    output = output_of(path, monkeypatch)
    expected = path.with_name(path.name + ".out")
    if os.environ.get("STEPWARD_WRITE_FIXTURES"):
        expected.write_text(output, encoding="utf-8")
    assert output == expected.read_text(encoding="utf-8")
    return output


@pytest.mark.parametrize("path", fixtures("bad"), ids=name_of)
def test_a_bad_program_gives_its_expected_output(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    output = check_pair(path, monkeypatch)
    code = path.parent.name
    waits = code in WAITING_FOR_THE_ENGINE or (code in {"SW303", "SW304"} and f"[{code}]" not in output)
    assert f"[{code}]" in output or "[SW408]" in output or waits


@pytest.mark.parametrize("path", fixtures("unproved"), ids=name_of)
def test_a_program_that_needs_the_engine_is_unproved(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    policies = [f"--policy={policy}" for policy in sorted((ROOT / "specs/policies").glob("*.yaml"))]
    relative = path.relative_to(ROOT)
    result = CliRunner().invoke(main, ["check", "--isolated", "--output-format=concise", str(relative), *policies])
    codes = {line.split(" ")[2] for line in result.output.splitlines() if line.startswith(str(relative))}
    assert codes == {"SW408"}
    assert result.exit_code == 1


@pytest.mark.parametrize("path", fixtures("good"), ids=name_of)
def test_a_good_program_has_no_finding_under_every_policy(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    policies = [f"--policy={policy}" for policy in sorted((ROOT / "specs/policies").glob("*.yaml"))]
    relative = str(path.relative_to(ROOT))
    result = CliRunner().invoke(main, ["check", "--isolated", "--fail-on=warning", relative, *policies])
    assert result.exit_code == 0, result.output


def test_every_expected_output_has_its_program() -> None:
    for expected in PROGRAMS.rglob("*.out"):
        assert expected.with_suffix("").exists(), f"{expected} belongs to no program"
