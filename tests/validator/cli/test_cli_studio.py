"""`stepward studio`: options that can't be used, what it prints, and that it ends."""

from __future__ import annotations

import builtins
import json
import signal
import subprocess
import sys
import time
import urllib.request
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from stepward.validator.cli import main
from stepward.vm import ExecutionVM, Program, SQLiteJournal, Suspend
from stepward.vm.journal.records import read_record

PROGRAM = "name: p\ninputs: {}\nsteps:\n  - {id: z, type: end}\n"


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.yaml").write_text(PROGRAM)
    with closing(SQLiteJournal(str(tmp_path / "runs.db"))) as journal:
        ExecutionVM(journal=journal, checker=None).run_sync(Program.from_yaml(PROGRAM), run_id="first")
    return tmp_path


def studio(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["studio", *arguments], catch_exceptions=False)


REFUSED = {
    "--journal none.db": "there is no journal at `none.db`",
    "--port 70000": "is not in the range",
    "--tools none.py": "`none.py` is no file",
    "--policy none.yaml": "none.yaml",
    "none.yaml": "`none.yaml` can't be checked: no such file",
    "--isolated --config x.toml": "--isolated",
}


@pytest.mark.parametrize("options", REFUSED)
def test_options_that_can_not_be_used_are_refused_in_words(options: str) -> None:
    result = studio(*options.split(), *([] if "--port" in options else ["--port", "0"]))
    assert (result.exit_code, REFUSED[options] in result.output) == (2, True), result.output
    assert "token" not in result.output


def test_without_the_extra_it_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def absent(name: str, *args: Any, **named: Any) -> Any:
        if name.partition(".")[0] == "uvicorn":
            raise ModuleNotFoundError("No module named 'uvicorn'")
        return real(name, *args, **named)

    monkeypatch.setattr(builtins, "__import__", absent)
    result = studio()
    assert result.exit_code == 2
    assert "python -m pip install 'stepward[studio]'" in result.output


@pytest.mark.slow
@pytest.mark.usefixtures("warm")
def test_it_serves_a_page_and_ends_when_it_is_interrupted(folder: Path) -> None:
    command = [str(Path(sys.executable).parent / "stepward"), "studio", "--port", "0", "--isolated", "p.yaml"]
    with subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            watch, act = process.stderr.readline().split(), process.stderr.readline().split()
            assert act[-1].startswith(f"{watch[-1]}#token=")
            with urllib.request.urlopen(watch[-1], timeout=30) as answer:
                page = answer.read().decode()
            with urllib.request.urlopen(f"{watch[-1]}program?file=p.yaml", timeout=30) as answer:
                program = answer.read().decode()
        finally:
            process.send_signal(signal.SIGINT)
            rest = process.stderr.read()
        assert process.wait(30) == 130
    assert (rest, "Stepward studio" in page, "No findings." in program) == ("", True, True)


PAYS = """
name: pays
tools:
  ask: {effect: none, suspends: true, returns: {type: boolean}}
  pay: {effect: write, idempotent: false, args: {number: {type: integer}}}
steps:
  - {id: ask, type: tool, tool: ask}
  - {id: one, type: tool, tool: pay, args: {number: 1}}
  - {id: two, type: tool, tool: pay, args: {number: 2}}
"""
TOOLS = """
import time
from pathlib import Path

def ask() -> bool: ...

def pay(number: int) -> None:
    Path(f"begun{number}").touch()
    time.sleep(SECONDS)
"""


@pytest.mark.slow
@pytest.mark.usefixtures("warm")
@pytest.mark.parametrize(
    ("sign", "seconds", "kinds"),
    [
        (signal.SIGINT, 2, ["intent", "attempt"]),
        (signal.SIGTERM, 2, ["intent", "attempt"]),
        (signal.SIGINT, 3600, ["intent"]),
    ],
)
def test_a_signal_lets_a_call_come_back_and_starts_no_other(
    folder: Path, sign: signal.Signals, seconds: int, kinds: list[str]
) -> None:
    with closing(SQLiteJournal(str(folder / "runs.db"))) as journal:
        tools = {"ask": lambda: Suspend({}), "pay": lambda number: None}
        ExecutionVM(tools, journal=journal, checker=None).run_sync(Program.from_yaml(PAYS), run_id="pays")
        before = len(journal.read("pays"))
    (folder / "tools.py").write_text(TOOLS.replace("SECONDS", str(seconds)))
    stepward = str(Path(sys.executable).parent / "stepward")
    command = [stepward, "studio", "--port", "0", "--isolated", "--tools", "tools.py"]
    with subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            process.stderr.readline()
            page, _, token = process.stderr.readline().split()[-1].partition("#token=")
            asked = {"run": "pays", "what": "resume", "step": "ask", "payload": "true", "by": "ann"}
            headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}", "Origin": page[:-1]}
            request = urllib.request.Request(f"{page}act", json.dumps(asked).encode(), headers)
            with urllib.request.urlopen(request, timeout=30) as answer:
                assert answer.status == 202
            with urllib.request.urlopen(f"{page}events", timeout=30):  # a page that is open
                process.send_signal(sign)
                _, rest = process.communicate(timeout=60)
        finally:
            process.kill()
    assert (process.returncode, rest) == (130 if sign == signal.SIGINT else 0, "")
    assert ((folder / "begun1").exists(), (folder / "begun2").exists()) == (True, False)
    with closing(SQLiteJournal(str(folder / "runs.db"))) as journal:
        after = [read_record(entry).kind for entry in journal.read("pays")][before:]
        assert after == ["resumed", *kinds]
        (row,) = [row for row in journal.rows() if row.run == "pays"]
        assert row.expires <= time.time(), "the lease is given back"
