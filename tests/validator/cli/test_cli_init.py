"""`stepward init`: each project is green at once, its commands run, and nothing is overwritten."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from paths import ROOT
from sizes import MANY
from stepward.sabotage import campaign
from stepward.sabotage.registry import ATTACKS
from stepward.validator.cli import main
from stepward.validator.cli.init import TEMPLATES, project_of

BIN = Path(sys.executable).parent
DEFAULT = "approval"
"""The project that `stepward init` makes without `--template`."""


def invoke(*words: str) -> Result:
    return CliRunner().invoke(main, words, catch_exceptions=False)


def made(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Make a project, enter it, and return the commands that `init` printed."""
    result = invoke("init", str(folder), "--template", name)
    assert result.exit_code == 0, result.output
    enter, *commands = result.output.split("next:\n")[1].splitlines()
    assert enter.strip() == f"cd {folder}"
    monkeypatch.chdir(folder)
    return [line.strip() for line in commands]


def run_in_shell(line: str) -> subprocess.CompletedProcess[str]:
    path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        line, shell=True, capture_output=True, text=True, check=False, env={**os.environ, "PATH": path}
    )


def run_tests() -> subprocess.CompletedProcess[str]:
    """Run `python -m pytest` without a shell, so that it can begin as a fork."""
    return subprocess.run([sys.executable, "-m", "pytest"], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", TEMPLATES)
def test_a_new_project_has_no_finding_and_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check, _, _, run = made(name, tmp_path / "shop", monkeypatch)
    checked = invoke(*shlex.split(check)[1:])
    assert checked.exit_code == 0
    assert checked.stdout.startswith("1 program: no findings"), checked.output
    ran = invoke(*shlex.split(run)[1:])
    assert ran.exit_code == 0, ran.output
    assert "SUCCESS (declared)" in ran.stdout
    assert invoke("verify", "runs.db").exit_code == 0


@pytest.mark.parametrize("name", TEMPLATES)
def test_every_guardrail_and_rule_of_a_new_project_is_proved(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(name, tmp_path / "shop", monkeypatch)
    data = yaml.safe_load(invoke("check", "--output-format", "json", "--no-cache").stdout)
    program, policy = (yaml.safe_load(next(Path(one).iterdir()).read_text()) for one in ("workflows", "policies"))
    rules = {rule["name"] for rule in [*program["guardrails"], *policy["guardrails"]]}
    assert rules <= {one["rule"] for one in data["properties"] if one["verdict"] == "proved"}


@pytest.mark.slow
@pytest.mark.usefixtures("few_drawn")
@pytest.mark.parametrize("name", TEMPLATES)
def test_the_machine_of_a_new_project_holds(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By day each project meets another quarter of the attacks, together all."""
    _, _, sabotage, _ = made(name, tmp_path / "shop", monkeypatch)
    if not MANY:
        monkeypatch.setattr(campaign, "ATTACKS", ATTACKS[list(TEMPLATES).index(name) :: len(TEMPLATES)])
    few = () if MANY or name == DEFAULT else ("--examples", "1")  # by day one of them as it is printed
    attacked = invoke(*shlex.split(sabotage)[1:], *few)
    assert attacked.exit_code == 0, attacked.output
    assert re.match(r"(release|not known whether to release) `.*`: nothing broke, .*\n  played: [1-9]", attacked.stdout)


@pytest.mark.slow
@pytest.mark.usefixtures("warm")
def test_the_tests_of_new_projects_pass_and_their_files_are_formatted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One process runs those of all projects: each would import everything again."""
    tests = {made(name, tmp_path / name, monkeypatch)[1] for name in TEMPLATES}
    assert tests == {"python -m pytest"}
    monkeypatch.chdir(tmp_path)
    ran = run_tests()
    assert ran.returncode == 0, ran.stdout
    assert all(f"{name}/test_{name.replace('-', '_')}.py" in ran.stdout for name in TEMPLATES), ran.stdout
    linted = run_in_shell(
        "ruff format --isolated --check --line-length 120 . && ruff check --isolated --select I,F,E4,E7,E9 ."
    )
    assert linted.returncode == 0, linted.stdout


@pytest.mark.slow
def test_the_python_of_a_new_project_is_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    together = tmp_path / "together"  # one call for all of them: each would read the types of all libraries again
    together.mkdir()
    for name in TEMPLATES:
        made(name, tmp_path / name, monkeypatch)
        for file in (tmp_path / name).glob("*.py"):
            shutil.copy(file, together / f"{name.replace('-', '_')}_{file.name}")
    assert len(list(together.iterdir())) >= 2 * len(TEMPLATES)
    # From here, and with these options, it finds what `make lint` has kept of our own code.
    typed = run_in_shell(f"cd {ROOT}/.typing && mypy --config-file ../pyproject.toml {together}/*.py")
    assert typed.returncode == 0, typed.stdout


@pytest.mark.slow
def test_the_tests_of_a_new_project_find_a_broken_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, tests, _, _ = made("approval", tmp_path / "shop", monkeypatch)
    program = Path("workflows/approval.yaml")
    program.write_text(program.read_text().replace("$amount <= 500", "$amount <= 50000"))
    ran = run_in_shell(tests)
    assert ran.returncode == 1
    assert "test_a_large_purchase_waits_for_a_manager" in ran.stdout


@pytest.mark.slow
def test_the_hook_of_a_new_project_stops_a_bad_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made("refund", tmp_path / "shop", monkeypatch)
    for line in ("git init -q", "git add -A"):
        assert run_in_shell(line).returncode == 0
    passed = run_in_shell("pre-commit run --all-files")
    assert passed.returncode == 0, passed.stdout + passed.stderr
    program = Path("workflows/refund.yaml")
    program.write_text(
        program.read_text().replace("then: pay", "then: by_hand").replace("otherwise: by_hand", "otherwise: pay")
    )
    stopped = run_in_shell("pre-commit run --all-files")
    assert stopped.returncode == 1
    assert "SW401" in stopped.stdout


@pytest.mark.parametrize("name", TEMPLATES)
def test_the_files_of_a_new_project_are_read_by_who_reads_them(name: str) -> None:
    texts = {file.path: file.text for file in project_of(name)}
    hooks = yaml.safe_load(texts[".pre-commit-config.yaml"])["repos"][0]["hooks"]
    assert [hook["entry"] for hook in hooks] == ["stepward check"]
    steps = yaml.safe_load(texts[".github/workflows/stepward.yml"])["jobs"]["check"]["steps"]
    assert [step["run"] for step in steps if "run" in step][1:] == [
        "stepward check --output-format github",
        "python -m pytest",
    ]
    assert f"policies/{TEMPLATES[name].policy}.yaml" in texts["stepward.toml"]


@pytest.mark.parametrize("taken", ["tools.py", ".github/workflows/stepward.yml", "workflows/approval.yaml"])
def test_no_file_is_overwritten(taken: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    mine = Path(taken)
    mine.parent.mkdir(parents=True, exist_ok=True)
    mine.write_text("mine")
    result = invoke("init")
    assert result.exit_code == 2
    assert f"error: `{taken}` exists, and no file is overwritten" in result.stderr
    assert mine.read_text() == "mine"
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == [tmp_path / taken], "nothing was made"


def test_a_link_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("tools.py").symlink_to(tmp_path / "elsewhere.py")
    assert invoke("init").exit_code == 2
    assert not Path("elsewhere.py").exists()


def test_what_can_not_be_made_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("workflows").write_text("a file")
    result = invoke("init")
    assert result.exit_code == 2
    assert "can't be written" in result.stderr
    assert "Traceback" not in result.output


def test_an_unknown_template_is_refused(tmp_path: Path) -> None:
    result = invoke("init", str(tmp_path), "--template", "refnd")
    assert result.exit_code == 2
    assert "'approval', 'refund', 'agent-loop', 'erasure'" in result.stderr
    assert not list(tmp_path.iterdir())


def test_in_the_current_folder_nobody_has_to_enter_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert invoke("init").output.split("next:\n")[1].splitlines()[0] == "  stepward check"
