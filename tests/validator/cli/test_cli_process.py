"""`stepward check` as a process: pipes, full disks, closed streams, interrupts, terminals."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import time
from contextlib import closing

import pytest

from commands import BAD, check, put
from commands import CLEAN as GOOD
from paths import STEPWARD

pytestmark = pytest.mark.usefixtures("in_own_folder")


def run(*arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([STEPWARD, *arguments], capture_output=True, text=True, check=False, **options)  # type: ignore[call-overload,no-any-return]


def test_the_installed_command_checks() -> None:
    put("bad.yaml", BAD)
    done = run("check", "bad.yaml")
    assert done.returncode == 1
    assert done.stdout.startswith("error[SW101] missing-target: ")
    assert done.stderr == ""


def test_a_reader_that_stops_reading_is_no_error() -> None:
    put("many.yaml", "steps:\n" + "  - {id: a, type: end, nope: 1}\n" * 600)
    done = subprocess.run(
        f"{STEPWARD} check many.yaml | head -1", shell=True, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("error[SW00")
    assert done.stderr == ""


RUN = "name: p\nsteps: [{id: a, type: set, set: {x: 1}}, {id: end, type: end}]\n"
WAITS = """name: w
tools: {ask: {effect: none, suspends: true}}
steps: [{id: a, type: tool, tool: ask}, {id: end, type: end}]
"""
ASK = "from stepward.vm import Suspend\n\n\ndef ask(**_):\n    return Suspend('well?')\n"

UNREAD = {
    "check bad.yaml": 1,
    "check good.yaml": 0,
    "explain SW401": 0,
    "graph bad.yaml": 0,
    "schema": 0,
    "--help": 0,
    "verify runs.db": 0,
    "verify broken.db": 1,
    "runs --journal runs.db": 0,
    "runs r --journal runs.db": 0,
    "runs w --journal runs.db --follow": 0,
    "runs export r --journal runs.db": 0,
    "runs resume wrong --journal runs.db": 2,
    "coverage run.yaml --journal runs.db --fail-under 100": 0,
    "run run.yaml": 0,
    "run bad.yaml": 2,
}
"""Commands, and their status: one whose output nobody reads has the same."""


@pytest.mark.usefixtures("warm")
def test_a_status_says_the_same_when_nobody_reads_the_output() -> None:
    for name, text in {"bad.yaml": BAD, "good.yaml": GOOD, "run.yaml": RUN, "w.yaml": WAITS, "ask.py": ASK}.items():
        put(name, text)
    run("run", "run.yaml", "--journal", "runs.db", "--run-id", "r")
    run("run", "w.yaml", "--journal", "runs.db", "--run-id", "w", "--tools", "ask.py")
    run("run", "run.yaml", "--journal", "broken.db", "--run-id", "r")
    with closing(sqlite3.connect("broken.db")) as file, file:
        file.execute("UPDATE records SET digest = zeroblob(32) WHERE seq = 1")
    found = {}
    for command in UNREAD:
        reader, writer = os.pipe()
        os.close(reader)
        process = [STEPWARD, *command.split()]
        done = subprocess.run(process, stdout=writer, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
        os.close(writer)
        assert "Traceback" not in done.stderr
        assert "Exception ignored" not in done.stderr
        found[command] = done.returncode
    assert found == UNREAD


def in_a_shell(line: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(line, shell=True, capture_output=True, text=True, check=False)


@pytest.mark.usefixtures("warm")
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
@pytest.mark.parametrize("command", ["check bad.yaml", "explain SW401", "graph bad.yaml"])
def test_a_disk_without_room_is_no_bug_of_ours(command: str) -> None:
    put("bad.yaml", BAD)
    with open("/dev/full", "w") as full:
        done = subprocess.run([STEPWARD, *command.split()], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("error: the output can't be written: no space left on device\n")
    assert "bug" not in done.stderr


@pytest.mark.one_in(2)
@pytest.mark.parametrize("command", ["check bad.yaml {}", "check - {} < bad.yaml"])
@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_streams_may_be_closed(closed: str, command: str) -> None:
    put("bad.yaml", BAD)
    done = in_a_shell(f"{STEPWARD} {command.format(closed)}")
    assert (done.returncode, done.stderr) == (1, "")


def test_an_interrupt_is_quiet() -> None:
    os.mkfifo("pipe.yaml")
    child = subprocess.Popen([STEPWARD, "check", "pipe.yaml"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    with open("pipe.yaml", "wb", buffering=0):  # opens when the child does, and keeps it waiting
        time.sleep(0.2)
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=30)
    assert (child.returncode, out, err) == (130, b"", b"")


@pytest.mark.parametrize("module", ["click", "stepward.validator.cli.output", "stepward.validator.cli.run"])
def test_an_interrupt_while_the_command_is_loaded_is_quiet(module: str) -> None:
    put(
        "sitecustomize.py",
        "import signal, sys\n"
        "class Finder:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name == {module!r}:\n"
        "            signal.raise_signal(signal.SIGINT)\n"
        "sys.meta_path.insert(0, Finder())\n",
    )
    done = run("run", "nothing.yaml", env={**os.environ, "PYTHONPATH": os.getcwd()})
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_output_that_can_not_be_encoded_is_escaped() -> None:
    put("bad.yaml", BAD.replace("gone", "日本"))
    done = run("check", "bad.yaml", env={**os.environ, "PYTHONIOENCODING": "latin-1"})
    assert done.returncode == 1
    assert "`next_step` names `\\u65e5\\u672c`" in done.stdout


def test_a_bug_of_ours_is_told_in_two_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    put("good.yaml", GOOD)

    def burst(*_: object, **__: object) -> None:
        raise ValueError("oh no")

    monkeypatch.setattr("stepward.validator.gate.checking.Run.result", burst)
    result = check("good.yaml")
    assert result.exit_code == 2
    assert result.stderr.startswith("error: internal error: ValueError: oh no\n")
    assert "please report it" in result.stderr
    monkeypatch.setenv("STEPWARD_DEBUG", "1")
    assert isinstance(check("good.yaml", is_caught=True).exception, ValueError)


@pytest.mark.usefixtures("warm")
def test_progress_is_told_on_a_terminal_only_and_cleared_again() -> None:
    for number in range(25):
        put(f"p{number:02}.yaml", GOOD)
    assert run("check").stderr == ""
    ours, theirs = os.openpty()
    done = subprocess.run([STEPWARD, "check"], stdout=subprocess.PIPE, stderr=theirs, text=True, check=True)
    told = os.read(ours, 10_000).decode()
    assert done.stdout == "25 programs: no findings\n"
    assert told.startswith("\r\x1b[K20 files … p19.yaml\r")
    assert told.endswith("\r\x1b[K")
    os.close(ours)
    os.close(theirs)


@pytest.mark.usefixtures("warm")
def test_colors_are_for_terminals_that_want_them() -> None:
    put("bad.yaml", BAD)

    def seen(**variables: str) -> str:
        environment = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "TERM")}
        ours, theirs = os.openpty()
        command, environment = [STEPWARD, "check", "bad.yaml"], environment | {"TERM": "xterm", **variables}
        subprocess.run(command, stdout=theirs, stdin=subprocess.DEVNULL, env=environment, check=False)
        shown = os.read(ours, 10_000).decode()
        os.close(ours)
        os.close(theirs)
        assert "SW101" in shown
        return shown

    assert "\x1b[1m" in seen()
    assert "\x1b[" not in seen(NO_COLOR="1")
    assert "\x1b[" not in seen(TERM="dumb")
    assert "\x1b[" not in run("check", "bad.yaml").stdout
