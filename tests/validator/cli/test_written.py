"""No command writes over a file that it reads: every option that names a file to write, against all it reads."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from commands import CLEAN, put
from stepward.validator.cli import main
from stepward.validator.cli.group import COMMANDS
from stepward.validator.cli.ranges import FileName
from stepward.validator.cli.written import Written

REFUSED = "is read by this command, and is never written over"

WRITES = {
    "check": "--output-file --json-output --sarif-output --gitlab-output --junit-output --write-baseline",
    "graph": "--output",
    "report": "--output",
    "plan": "--output-file",
    "runs export": "--output",
    "runs receipt": "--output",
    "coverage": "--output-file",
    "analyze": "--learn --output",
    "sabotage": "--output-file",
    "manifest": "--output-file",
    "mcp": "--operator",
}

NOT_READ = {
    ("check", "--witnesses"): "a folder that is written",
    ("check", "--certificates"): "a folder that is written",
    ("check", "--baseline"): "a baseline is written over the baseline, and only that",
    ("mcp", "--programs"): "a folder that is written",
    ("sabotage", "--save"): "a folder that is written",
}


def commands(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    """Yield each command with the words that call it."""
    if not isinstance(command, click.Group):
        yield " ".join(path), command
        return
    for name in COMMANDS if not path else command.list_commands(click.Context(command)):
        inner = command.get_command(click.Context(command), name)
        assert inner is not None
        yield from commands(inner, (*path, name))


ALL = dict(commands(main))


def stepward(*words: str) -> Result:
    return CliRunner().invoke(main, words)


def test_every_option_that_names_a_file_to_write_is_known() -> None:
    found = {
        name: " ".join(one.opts[-1] for one in command.params if isinstance(one, Written))
        for name, command in ALL.items()
    }
    assert {name: options for name, options in found.items() if options} == WRITES
    others = {
        f"{name} {one.opts[-1]}"
        for name, command in ALL.items()
        for one in command.params
        if isinstance(one, click.Option) and isinstance(one.type, FileName) and not isinstance(one, Written)
        if "rite" in (one.help or "") or "output" in one.opts[-1]
    }
    assert others == {"check --witnesses", "check --certificates"}, "folders"


def cases() -> Iterator[tuple[str, str, str, str]]:
    """Yield a command, an option that writes, a parameter that reads, and the value of it that names `it.py`."""
    values = {"module": "it", "model": "script:it.py", "MODULE:NAME": "it:program", "MODULE:FUNCTION": "it:probe"}
    for name, options in WRITES.items():
        for option in options.split():
            for one in ALL[name].params:
                is_file = isinstance(one.type, FileName) or one.metavar in ("FILE", "MODULE", "RUNS...")
                own = one.name in values or one.metavar in values
                if isinstance(one, Written) or not (is_file or own) or (name, one.opts[-1]) in NOT_READ:
                    continue
                flag = one.opts[-1] if isinstance(one, click.Option) else ""
                yield name, option, flag, values.get(one.name or "", values.get(one.metavar or "", "it.py"))


@pytest.mark.parametrize(("name", "option", "flag", "value"), list(cases()))
def test_a_file_that_another_parameter_names_is_refused(
    name: str, option: str, flag: str, value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    put("it.py", "x = 1\n")
    result = stepward(*name.split(), option, "it.py", *([flag] if flag else []), value)
    assert (result.exit_code, REFUSED in result.output) == (2, True), result.output
    assert Path("it.py").read_text() == "x = 1\n"


@pytest.mark.parametrize("spelt", ["./runs.db", "folder/../runs.db", "link", "hard", "runs.db-wal", "runs.db.vault"])
def test_other_names_of_the_file_are_refused(spelt: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    put("folder/program.yaml", CLEAN)
    assert stepward("run", "folder/program.yaml", "--journal", "runs.db", "--run-id", "first").exit_code == 0
    Path("link").symlink_to("runs.db")
    os.link("runs.db", "hard")
    for words in (["export", "-o", spelt], ["receipt", "first", "-o", spelt]):  # `runs.db` is the default
        result = stepward("runs", *words)
        assert (result.exit_code, REFUSED in result.output) == (2, True), result.output
    assert stepward("runs", "copy", spelt).exit_code == 2
    assert stepward("runs", "show", "first").exit_code == 0


CONFIGURED = '[tool.stepward]\npolicies = ["policy.yaml"]\nbaseline = "known.json"\n'

FOUND = [
    *((f"check . {option}", file) for option in WRITES["check"].split() for file in ("program.yaml", "policy.yaml")),
    *((f"report . {option}", file) for option in ("-o",) for file in ("program.yaml", "policy.yaml", "known.json")),
    ("check . --json-output", "known.json"),
    ("check . --json-output", "pyproject.toml"),
    ("check . --write-baseline", "pyproject.toml"),
    ("check --fix . --json-output", "program.yaml"),
    ("graph program.yaml --format dot -o", "policy.yaml"),
    ("sabotage program.yaml --output-file", "policy.yaml"),
    ("plan something --model script:replies.yaml -o", "policy.yaml"),
]


@pytest.mark.parametrize(("words", "file"), FOUND)
@pytest.mark.parametrize("is_broken", [False, True], ids=["whole", "broken policy"])
def test_files_that_are_found_and_not_named_are_refused(
    words: str, file: str, is_broken: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    put("program.yaml", CLEAN)
    put("policy.yaml", "policy: {" if is_broken else "policy: shop\n")
    put("known.json", '{"version": 1, "findings": []}')
    put("pyproject.toml", CONFIGURED)
    before = Path(file).read_text()
    result = stepward(*words.split(), file)
    assert result.exit_code == 2, result.output
    assert REFUSED in result.output or is_broken, result.output
    assert Path(file).read_text() == before


CALLS = """\
language: 2
name: outer
programs: {inner: {file: parts/inner.yaml}}
steps: [{id: go, type: call, program: inner}]
"""
INNER = """\
language: 2
inputs: {}
programs: {deep: {inputs: {}, programs: {last: {file: ../last.yaml}}, steps: [{id: l, type: call, program: last}]}}
steps: [{id: d, type: call, program: deep}]
"""
LAST = "language: 2\ninputs: {}\nsteps: [{id: stop, type: end}]\n"

CALLED = [
    *(f"check {paths} {option}" for paths in (".", "program.yaml") for option in WRITES["check"].split()),
    "report . -o",
    "graph program.yaml --format dot -o",
    "sabotage program.yaml --output-file",
    "coverage program.yaml --journal runs.db --output-file",
]


@pytest.mark.parametrize("words", CALLED)
@pytest.mark.parametrize("file", ["parts/inner.yaml", "last.yaml"])
@pytest.mark.parametrize("is_broken", [False, True], ids=["whole", "broken"])
def test_files_of_called_programs_are_refused(
    words: str, file: str, is_broken: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    put("pyproject.toml", "[tool.stepward]\n")
    put("parts/inner.yaml", INNER)
    put("last.yaml", "language: 2" if is_broken else LAST)
    put("program.yaml", CALLS)
    put("empty.yaml", CLEAN)
    assert stepward("run", "empty.yaml", "--journal", "runs.db").exit_code == 0
    Path("empty.yaml").unlink()
    before = Path(file).read_text()
    result = stepward(*words.split(), file)
    assert result.exit_code == 2, result.output
    assert REFUSED in result.output or is_broken, result.output
    assert Path(file).read_text() == before


def test_what_is_not_read_is_written_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    put("program.yaml", CLEAN)
    put("pyproject.toml", CONFIGURED.replace('policies = ["policy.yaml"]\n', ""))
    put("known.json", '{"version": 1, "findings": []}')
    for _ in range(2):  # the report is a file of the folder the second time
        assert stepward("check", ".", "--json-output", "report.json").exit_code == 0
        assert stepward("check", ".", "--write-baseline", "known.json").exit_code == 0
        assert stepward("check", ".", "--baseline", "known.json", "--write-baseline", "known.json").exit_code == 0
