"""The page on CI: its YAML is what the services read, and its commands are run."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from paths import ROOT
from stepward.validator.cli import main
from stepward.validator.gate import cache
from stepward.validator.rules.registry import RULES

PAGE = (ROOT / "specs/ci.md").read_text(encoding="utf-8")
COMPARISON = (ROOT / "specs/comparison.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def files() -> dict[str, Any]:
    """Return the YAML examples by the file that their first line names."""
    found = {text.splitlines()[0].removeprefix("# "): yaml.safe_load(text) for text in blocks("yaml")}
    assert list(found) == [
        ".github/workflows/gate.yml",
        ".github/workflows/stepward.yml",
        ".gitlab-ci.yml",
        ".pre-commit-config.yaml",
    ]
    return found


def github_steps() -> list[dict[str, Any]]:
    steps: list[dict[str, Any]] = files()[".github/workflows/stepward.yml"]["jobs"]["check"]["steps"]
    return steps


def gitlab_job() -> dict[str, Any]:
    job: dict[str, Any] = files()[".gitlab-ci.yml"]["stepward"]
    return job


def command_lines() -> Iterator[str]:
    smallest = files()[".github/workflows/gate.yml"]["jobs"]["check"]["steps"]
    yield from (step["run"] for step in (*smallest, *github_steps()) if "run" in step)
    yield from (*gitlab_job()["before_script"], *gitlab_job()["script"])
    yield from (
        line.split("  #")[0].split(" #")[0].strip() for block in blocks("console") for line in block.splitlines()
    )


CHECKS = list(dict.fromkeys(line for line in command_lines() if line.startswith("stepward ")))


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a good and a bad program, and what the page names."""
    for folder in ("workflows", "gate"):
        (tmp_path / folder).mkdir()
    shutil.copy(ROOT / "specs/programs/good/customer_refund.yaml", tmp_path / "workflows")
    shutil.copy(ROOT / "specs/programs/bad/SW401/obvious.yaml", tmp_path / "workflows")
    shutil.copy(ROOT / "specs/policies/payments.yaml", tmp_path / "gate")
    (tmp_path / "gate/stepward.toml").write_text("")
    (tmp_path / "stepward-baseline.json").write_text('{"version": 1, "findings": []}')
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("line", CHECKS)
def test_a_command_of_the_page_runs_and_writes_what_it_names(line: str, project: Path) -> None:
    before = set(project.iterdir())
    result = CliRunner().invoke(main, shlex.split(line)[1:], catch_exceptions=False)
    assert result.exit_code == (0 if "--write-baseline" in line else 1), result.output
    assert "SW401" in result.stdout or "--write-baseline" in line
    outputs = re.findall(r"--(?:\w+-output|write-baseline) (\S+)", line)
    assert {path.name for path in set(project.iterdir()) - before} == set(outputs) - {path.name for path in before}
    assert all((project / name).stat().st_size for name in outputs)


def test_the_page_has_all_the_commands_that_it_should() -> None:
    assert len(CHECKS) == 11
    assert all(line.startswith(("stepward check", "python -m pip install ", "jq ")) for line in command_lines())


def test_every_way_of_installing_is_the_same_and_takes_the_variable_that_the_page_explains() -> None:
    ways = {line for line in command_lines() if "pip" in line}
    assert ways == {'python -m pip install "$STEPWARD"'}
    (step,) = (step for step in github_steps() if "pip" in step.get("run", ""))
    assert step["env"] == {"STEPWARD": "${{ vars.STEPWARD }}"}
    about = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert f"`{about['name']} @ git+https://…`" in PAGE
    assert about["requires-python"] == ">=3.11"
    assert "Python 3.11 or newer" in PAGE


def test_the_reports_that_the_services_take_are_those_that_the_commands_write() -> None:
    (upload,) = [step for step in github_steps() if "upload-sarif" in step.get("uses", "")]
    (check,) = [step for step in github_steps() if step.get("run", "").startswith("stepward ")]
    (filter,) = [step for step in github_steps() if step.get("run", "").startswith("jq ")]
    *_, written, _, uploaded = shlex.split(filter["run"])
    assert f"--sarif-output {written}" in check["run"]
    assert f"hashFiles('{written}')" in filter["if"]
    assert uploaded == upload["with"]["sarif_file"]
    assert upload["if"] == f"always() && steps.{filter['id']}.outcome == 'success'"
    assert filter["if"].startswith("always()")
    workflow = files()[".github/workflows/stepward.yml"]
    assert workflow["permissions"] == {"contents": "read", "security-events": "write"}
    assert set(workflow[True]) == {"push", "pull_request"}, "YAML 1.1 reads `on` as true"
    reports = gitlab_job()["artifacts"]["reports"]
    (script,) = gitlab_job()["script"]
    assert f"--gitlab-output {reports['codequality']} --junit-output {reports['junit']}" in script
    assert gitlab_job()["artifacts"]["when"] == "always"


def uploaded_of(*arguments: str) -> list[dict[str, Any]] | None:
    """Return the results that the workflow uploads after a check, or None where it uploads nothing."""
    CliRunner().invoke(main, ["check", "--sarif-output=stepward.sarif", *arguments], catch_exceptions=False)
    (filter,) = [step for step in github_steps() if step.get("run", "").startswith("jq ")]
    if subprocess.run(filter["run"], shell=True, check=False).returncode:  # as the runner does it
        return None
    run = json.loads(Path("open.sarif").read_text(encoding="utf-8"))["runs"][0]
    return list(run["results"])


@pytest.mark.skipif(shutil.which("jq") is None, reason="needs jq on the PATH, as the runners of GitHub have it")
@pytest.mark.usefixtures("project")
def test_what_is_uploaded_is_open_and_was_decided() -> None:
    found = uploaded_of("workflows")
    assert found
    assert len(found) == 1
    CliRunner().invoke(main, ["check", "--write-baseline=stepward-baseline.json", "workflows"])
    assert uploaded_of("--baseline=stepward-baseline.json", "workflows") == []
    assert uploaded_of("--isolated", "workflows/customer_refund.yaml") == []
    assert uploaded_of("nothing") is None
    assert uploaded_of("gate") is None, "an empty report says that all is mended"


def test_what_is_kept_between_jobs_is_the_cache_with_its_secret() -> None:
    (kept,) = [step for step in github_steps() if "actions/cache@" in step.get("uses", "")]
    assert kept["with"]["path"] == cache.FOLDER
    assert gitlab_job()["cache"]["paths"] == [f"{cache.FOLDER}/"]
    (check,) = [step for step in github_steps() if step.get("run", "").startswith("stepward ")]
    assert list(check["env"]) == [cache.SECRET_VARIABLE]
    assert f"{cache.MAX_BYTES >> 20} MiB" in PAGE


def test_the_hooks_are_there() -> None:
    (repository,) = files()[".pre-commit-config.yaml"]["repos"]
    ours = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    assert [hook["id"] for hook in repository["hooks"]] == [hook["id"] for hook in ours]


def test_the_comparison_counts_our_rules_and_gives_every_tool_a_word_on_everything() -> None:
    rows = [line.strip("|").split("|") for line in COMPARISON.splitlines() if line.startswith("| ")]
    assert len(rows) >= 25
    assert all(len(row) == 6 and all(cell.strip() for cell in row[1:]) for row in rows)
    (count,) = [row[1].strip() for row in rows if row[0].strip() == "rules"]
    assert count == str(len(RULES)), "the row `rules` of specs/comparison.md counts our rules"
