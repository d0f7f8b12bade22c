"""Helps of refused commands name only options that the command has, or that a command beside them has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from commands import CLEAN, put
from stepward.validator.cli import main

ASKED = {
    "verify nosuch.db": "another argument names another journal",
    "replay nosuch.db run": "another argument names another journal",
    "replay runs.db nosuch": "another argument names another journal",
    "replay text.yaml": "a journal and a run of it",
    "replay empty.json": "evidence.witness",
    "runs nosuch --journal runs.db": "`--journal` names another journal",
    "runs --journal nosuch.db": "`--journal` names another journal",
    "coverage clean.yaml --journal nosuch.db": "`--journal` names another journal",
    "run text.yaml": "`stepward check --skip-non-programs`",
    "coverage text.yaml": "`stepward check --skip-non-programs`",
    "sabotage text.yaml": "stepward check",
    "graph text.yaml": "stepward check",
}


@pytest.mark.parametrize("words", ASKED)
def test_a_help_names_what_the_command_has(words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    put("clean.yaml", CLEAN)
    put("text.yaml", "a: 1\n")
    put("empty.json", "")
    assert CliRunner().invoke(main, ["run", "clean.yaml", "--journal", "runs.db"]).exit_code == 0
    command, *rest = words.split()
    result = CliRunner().invoke(main, [command, *rest])
    help = "".join(line for line in result.output.splitlines(keepends=True) if "= help:" in line)
    assert result.exit_code != 0
    assert ASKED[words] in help, result.output
    usage = CliRunner().invoke(main, [command, *(["show"] if command == "runs" else []), "--help"]).output
    own = set(re.findall(r"--[a-z-]+", re.sub(r"`stepward [^`]*`", "", help)))
    assert own <= set(re.findall(r"--[a-z-]+", usage)), help
