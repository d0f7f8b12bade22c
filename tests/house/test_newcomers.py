"""The judge of the ten tasks accepts a right solution of each, and refuses the untouched start and a wrong one."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import sys
from collections.abc import Sequence
from contextlib import chdir
from pathlib import Path

import pytest
from click.testing import CliRunner

from paths import ROOT
from stepward.validator.cli import main
from stepward.vm import Program

NEWCOMERS = ROOT / "tests/newcomers"
sys.path.insert(0, str(NEWCOMERS))

import gating  # noqa: E402
import judge  # noqa: E402
import trial  # noqa: E402
from behaviour import differences, runs_of  # noqa: E402
from mending import mended, table_of  # noqa: E402
from trial import Done, Trial  # noqa: E402

MENDED = [task for task, check in judge.CHECKS.items() if check is mended]


def stepward(arguments: Sequence[str], folder: Path) -> Done:
    """Run the command in this process: thirty processes would take a minute."""
    with chdir(folder):
        done = CliRunner().invoke(main, list(arguments))
    return Done(done.exit_code, done.stdout)


def tokens(command: str, folder: Path) -> str:
    """Return a command of a solution with the token of each run that it names."""

    def token(match: re.Match[str]) -> str:
        shown = json.loads(stepward(["runs", "show", match[1], "--output-format", "json"], folder).output)
        found: str = shown["run"]["suspensions"][0]["token"]
        return found

    return re.sub(r"TOKEN:(\w+)", token, command)


def solved(task: str, kind: str, folder: Path) -> list[str]:
    """Return what the judge misses of a solution."""
    judge.prepare(task, folder, stepward)
    if kind != "start":
        shutil.copytree(NEWCOMERS / "solutions" / task / kind, folder, dirs_exist_ok=True)
        commands = folder / "commands.txt"
        for command in commands.read_text(encoding="utf-8").splitlines() if commands.exists() else ():
            assert stepward(shlex.split(tokens(command, folder)), folder).status != 2, command
    return judge.missing(task, folder, stepward)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("task", judge.CHECKS)
def test_a_right_solution_is_done(task: str, tmp_path: Path) -> None:
    assert solved(task, "right", tmp_path / "trial") == []


@pytest.mark.one_in(3)
@pytest.mark.parametrize("task", judge.CHECKS)
@pytest.mark.parametrize("kind", ["start", "wrong"])
def test_what_is_not_done_is_refused(task: str, kind: str, tmp_path: Path) -> None:
    assert solved(task, kind, tmp_path / "trial") != []


@pytest.mark.parametrize("task", MENDED)
def test_a_bad_program_differs_where_its_mistake_is_and_nowhere_else(task: str) -> None:
    table = table_of(task)
    program = Program.load(NEWCOMERS / task / table["file"])
    secret = table.get("secret", "")
    wrong = {run.name for run in runs_of(table) if list(differences(program, run, table["writes"], secret))}
    assert wrong == {run.name for run in runs_of(table) if run.is_wrong_at_start}


@pytest.mark.parametrize("task", MENDED)
def test_a_program_without_one_of_its_steps_or_rules_is_refused(task: str, tmp_path: Path) -> None:
    judge.prepare(task, tmp_path / "trial", stepward)
    file = table_of(task)["file"]
    right = Program.load(NEWCOMERS / "solutions" / task / "right" / file).to_dict()
    right["guardrails"] = right["guardrails"][1:]
    (tmp_path / "trial" / file).write_text(json.dumps(right), encoding="utf-8")
    assert "`guardrails` was removed" in "\n".join(judge.missing(task, tmp_path / "trial", stepward))


def test_every_task_is_there_and_says_what_is_wanted() -> None:
    folders = {path.name for path in NEWCOMERS.iterdir() if path.name[:2].isdigit()}
    assert folders == set(judge.CHECKS) == {path.name for path in (NEWCOMERS / "solutions").iterdir()}
    assert len(folders) == 10
    assert all((NEWCOMERS / folder / "task.md").is_file() for folder in folders)


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert judge.main(["11-nothing", str(tmp_path)]) == 2
    assert judge.main(["--prepare", "01-invoice", str(tmp_path / "new")]) == 0
    assert judge.main(["--prepare", "01-invoice", str(tmp_path / "new")]) == 2
    assert judge.main(["01-invoice", str(tmp_path / "new")]) == 1
    assert capsys.readouterr().out == "missing: `invoice.yaml` is missing\n"


def test_the_judge_runs_the_installed_command(tmp_path: Path) -> None:
    folder = tmp_path / "trial"
    judge.prepare("04-parcel", folder)
    (problem,) = Trial("04-parcel", folder, judge.installed).errors("parcel.yaml")
    assert "SW302" in problem


def test_the_caches_of_a_checkout_are_no_part_of_a_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(NEWCOMERS / "10-gate", tmp_path / "tasks/10-gate")
    (tmp_path / "tasks/10-gate/.ruff_cache").mkdir(exist_ok=True)  # this checkout may have one
    (tmp_path / "tasks/10-gate/.ruff_cache/found").write_text("x", encoding="utf-8")
    monkeypatch.setattr(trial, "HERE", tmp_path / "tasks")
    monkeypatch.setattr(judge, "HERE", tmp_path / "tasks")
    judge.prepare("10-gate", tmp_path / "given", stepward)
    assert not (tmp_path / "given/.ruff_cache").exists()
    assert list(gating.changed(Trial("10-gate", tmp_path / "given", stepward))) == []
