"""`stepward mcp`: options that can't be used, tokens of callers over streams, files of the operator."""

from __future__ import annotations

import asyncio
import builtins
import json
import os
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from doors import OLD, STEPWARD, door_by_streams
from stepward.validator.cli import main

TOKEN = "an-invented-token-of-a-caller"
TOOLS = 'from stepward.vm import tool\n\n\n@tool(effect="read")\ndef look() -> str:\n    return "fine"\n'
CALLERS = f"callers:\n  - {{name: a, token: {TOKEN}, tools: [look]}}\n"
WITH_TOOLS = ["--tools", "tools.py", "--callers", "callers.yaml", "--journal", "runs.db"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("STEPWARD_CALLER_TOKEN", raising=False)
    (tmp_path / "tools.py").write_text(TOOLS)
    (tmp_path / "callers.yaml").write_text(CALLERS)
    (tmp_path / "meant.yaml").write_text(CALLERS.replace("look", "lok"))
    (tmp_path / "open.jsonl").touch(mode=0o644)
    return tmp_path


def mcp(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["mcp", *arguments], catch_exceptions=False)


REFUSED = {
    "--http 0": "--http needs --callers",
    "--http -1 --callers callers.yaml": "is not in the range",
    "--tools tools.py": "--tools needs --callers",
    "--tools tools.py --callers callers.yaml": "--tools needs --journal",
    "--callers none.yaml": "the callers' file `none.yaml` can't be read",
    "--callers tools.py": "can't be read as YAML or JSON",
    "--callers callers.yaml": "there is no `STEPWARD_CALLER_TOKEN`",
    "--tools none.py --callers callers.yaml --journal runs.db --http 0": "`none.py` is no file",
    "--tools tools.py --callers meant.yaml --journal runs.db --http 0": "caller `a` may call `lok`, and there",
    "--policy none.yaml": "none.yaml",
    "--key none": "none",
    "--operator open.jsonl": "others can read `open.jsonl`, and resume tokens go there",
    "--operator none/approvals": "`none/approvals` can't be used: no such file",
    "--operator .": "`.` can't be used",
    "--journal none/runs.db": "none/runs.db",
}


@pytest.mark.parametrize("options", REFUSED)
def test_options_that_can_not_be_used_are_refused_in_words(options: str) -> None:
    result = mcp(*options.split())
    assert result.exit_code == 2
    assert REFUSED[options] in result.output
    assert not Path("runs.db").exists()


def test_a_wrong_token_over_streams_is_refused_and_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEPWARD_CALLER_TOKEN", "a-wrong-token-of-somebody")
    result = mcp("--callers", "callers.yaml")
    assert (result.exit_code, "`STEPWARD_CALLER_TOKEN` is the token of no caller" in result.output) == (2, True)
    assert "a-wrong-token" not in result.output


def test_a_taken_port_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        result = mcp("--callers", "callers.yaml", "--http", str(taken.getsockname()[1]))
    assert (result.exit_code, "can't be used: address already in use" in result.output) == (2, True)


def test_without_the_extra_it_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def absent(name: str, *args: Any, **named: Any) -> Any:
        if name.partition(".")[0] == "mcp":
            raise ModuleNotFoundError("No module named 'mcp'")
        return real(name, *args, **named)

    monkeypatch.setattr(builtins, "__import__", absent)
    result = mcp()
    assert result.exit_code == 2
    assert "python -m pip install 'stepward[mcp]'" in result.output


@pytest.mark.slow
@pytest.mark.usefixtures("warm")
def test_the_token_is_for_the_server_and_not_for_what_its_tools_start(folder: Path) -> None:
    asks_for_it = 'import os; return os.environ.get("STEPWARD_CALLER_TOKEN", "none")'
    (folder / "tools.py").write_text(TOOLS.replace('return "fine"', asks_for_it))
    program = "name: p\ninputs: {}\nsteps:\n  - {id: a, type: tool, tool: look, next_step: z}\n"
    program += "  - {id: z, type: end, output: $a.output}\n"

    async def asks() -> Any:
        async with door_by_streams(WITH_TOOLS, folder, TOKEN, OLD) as front:
            return await front.data("run_program", program=program)

    assert asyncio.run(asks())["output"] == "none"


@pytest.mark.slow
@pytest.mark.usefixtures("warm")
def test_the_journal_says_who_asked_and_under_what(folder: Path) -> None:
    program = "name: p\ninputs: {}\nsteps:\n  - {id: z, type: end}\n"

    async def asks() -> Any:
        async with door_by_streams(WITH_TOOLS, folder, TOKEN, OLD) as front:
            return await front.data("run_program", program=program)

    run = asyncio.run(asks())["run"]
    shown = CliRunner().invoke(main, ["runs", "show", run, "--output-format", "json"], catch_exceptions=False)
    first = json.loads(shown.output)["trace"][0]
    assert first["note"]["envelope"]["caller"] == "a"
    assert first["note"]["envelope"]["gate"].startswith("stepward ")
    assert {"policies", "program"} <= set(first["body"])


@pytest.mark.usefixtures("warm")
def test_the_end_of_the_input_ends_the_server(folder: Path) -> None:
    started = {**os.environ, "STEPWARD_CALLER_TOKEN": TOKEN}
    done = subprocess.run(
        [STEPWARD, "mcp", *WITH_TOOLS], input=b"", cwd=folder, env=started, capture_output=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
