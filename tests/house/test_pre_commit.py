"""Slow: the real `pre-commit` in a repository of its own, with the hooks as this repository defines them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from commands import BAD
from commands import CLEAN as GOOD
from paths import ROOT

BIN = Path(sys.executable).parent

pytestmark = pytest.mark.slow


def hooks() -> list[dict[str, Any]]:
    """Return the hooks as they are, but run from here: a hook of another language would fetch its packages."""
    defined = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    assert [hook["id"] for hook in defined] == ["stepward", "stepward-project"]
    return [{**hook, "language": "system", "entry": str(BIN / hook["entry"])} for hook in defined]


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    (tmp_path / "flows").mkdir()
    (tmp_path / "flows/good.yaml").write_text(GOOD)
    (tmp_path / "flows/bad.yaml").write_text(BAD)
    (tmp_path / "compose.yaml").write_text("services: {web: {image: x}}\n")
    (tmp_path / "setup.py").write_text("import os\n")
    config = {"repos": [{"repo": "local", "hooks": hooks()}]}
    (tmp_path / ".pre-commit-config.yaml").write_text(yaml.safe_dump(config))
    for command in (["init", "-q"], ["add", "."]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    return tmp_path


def pre_commit(repository: Path, *arguments: str) -> tuple[int, str]:
    environment = {**os.environ, "PRE_COMMIT_HOME": str(repository.parent / "cache"), "PRE_COMMIT_COLOR": "never"}
    command = [sys.executable, "-m", "pre_commit", "run", *arguments]
    done = subprocess.run(command, cwd=repository, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_a_bad_program_stops_the_commit_and_a_file_that_is_none_does_not(repository: Path) -> None:
    status, output = pre_commit(repository)
    assert status == 1
    assert output.count("- exit code: 1") == 2
    assert " --> flows/bad.yaml:4:46" in output
    assert "1 error in 1 of 2 programs (3 files skipped; see `--statistics`)" in output
    assert "compose.yaml" not in output


def test_good_programs_and_other_files_pass(repository: Path) -> None:
    (repository / "flows/bad.yaml").write_text(GOOD)
    subprocess.run(["git", "add", "."], cwd=repository, check=True)
    assert pre_commit(repository)[0] == 0
    status, output = pre_commit(repository, "--files", "compose.yaml")
    assert status == 0, output


def test_only_the_hook_for_the_project_looks_beyond_the_files_of_the_commit(repository: Path) -> None:
    assert pre_commit(repository, "stepward", "--files", "flows/good.yaml")[0] == 0
    assert pre_commit(repository, "stepward-project", "--files", "flows/good.yaml")[0] == 1
