"""`stepward worker` and `stepward run --queue`: what they print, refuse and serve, and how the worker ends."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from stepward.validator.cli import main
from stepward.validator.cli.worker_status import is_healthy, metrics_text, status_served
from stepward.vm.machine.worker import Counts
from worker_fleets import PROGRAM, STEPWARD

pytestmark = pytest.mark.usefixtures("in_own_folder", "warm", "_with_a_program")

TOOLS = "def book(number, idempotency_key):\n    print('a tool prints', number)\n    return number\n"


@pytest.fixture
def _with_a_program(in_own_folder: None) -> None:
    Path("programs").mkdir()
    Path("programs/parcels.yaml").write_text(PROGRAM)
    Path("tools.py").write_text(TOOLS)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments), catch_exceptions=False)


def queue(*arguments: str) -> Result:
    return run("run", "programs/parcels.yaml", "--queue", "--input", "number=733731", *arguments)


def work(*arguments: str) -> Result:
    where = ["--journal", "runs.db", "--programs", "programs"]
    return run("worker", *where, *(arguments or ("--once", "--tools", "tools.py")))


def lines(output: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in output.splitlines()]


def test_a_queued_run_is_driven_by_a_worker() -> None:
    named = queue("--journal", "runs.db", "--run-id", "mine")
    assert (named.exit_code, named.stdout) == (0, "mine\n")
    result = json.loads(queue("--journal", "runs.db", "--output-format", "json").stdout)["run"]
    assert (result["program"], result["status"]) == ("parcels", "RUNNING")
    done = work()
    assert done.exit_code == 0
    log = lines(done.stdout)
    assert [line["event"] for line in log] == ["started", "taken", "taken", "stopped", "stopped", "ended"]
    assert {line["run"] for line in log if "run" in line} == {"mine", result["id"]}
    assert [line["status"] for line in log if line["event"] == "stopped"] == ["SUCCESS", "SUCCESS"]
    assert "733731" not in done.stdout
    assert "a tool prints 733731" in done.stderr
    assert [line["event"] for line in lines(work().stdout)] == ["started", "ended"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "--queue needs the journal of the workers: add --journal"),
        (["--journal", "runs.db", "--tools", "tools.py"], "--tools is for whoever drives the run"),
        (["--journal", "runs.db", "--model", "x"], "--model is for whoever drives the run"),
    ],
)
def test_what_does_not_go_with_queue_is_said(arguments: list[str], says: str) -> None:
    result = queue(*arguments)
    assert result.exit_code == 2
    assert says in result.stderr
    assert not Path("runs.db").exists()


def test_a_program_that_does_not_pass_the_gate_is_not_queued() -> None:
    Path("programs/parcels.yaml").write_text(PROGRAM.replace("$two", "$three"))
    result = queue("--journal", "runs.db")
    assert result.exit_code == 2
    assert "does not pass the gate" in result.stderr
    assert not Path("runs.db").exists()


def test_a_worker_that_could_do_nothing_does_not_start() -> None:
    refused = work("--once")
    assert refused.exit_code == 2
    assert "the program calls tool `book`, and there is no `--tools`" in refused.stderr
    Path("programs/other.yaml").write_text("name: other\ninputs: {}\nsteps:\n  - {id: a, type: llm}\n")
    refused = work("--once", "--tools", "tools.py")
    assert refused.exit_code == 2
    assert "`programs/other.yaml` can't be run: SW002" in refused.stderr
    Path("programs/other.yaml").unlink()
    Path("programs/parcels.yaml").unlink()
    refused = work()
    assert refused.exit_code == 2
    assert "there is no program in `programs`" in refused.stderr
    assert not Path("runs.db").exists()


CALLED = """\
name: booking
language: 2
inputs: {number: {type: integer}}
tools: {book: {effect: write, idempotent: true}}
steps:
  - {id: first, type: tool, tool: book, args: {number: $number}}
  - {id: done, type: end, output: $first.output}
"""
CALLS = """\
name: parcels
language: 2
inputs: {number: {type: integer}}
tools: {book: {effect: write, idempotent: true}}
programs: {booking: {file: booking.yaml}}
steps:
  - {id: one, type: call, program: booking, args: {number: $number}}
  - {id: two, type: call, program: booking, args: {number: 7}}
  - {id: done, type: end, output: [$one.output, $two.output]}
"""


def test_a_program_that_calls_others_is_driven_in_one_version() -> None:
    """The file of a called program is a program of the folder, too, and belongs to the version of its caller."""
    Path("programs/booking.yaml").write_text(CALLED)
    Path("programs/parcels.yaml").write_text(CALLS)
    assert queue("--journal", "runs.db").exit_code == 0
    Path("programs/booking.yaml").write_text(CALLED.replace("output: $first.output", "output: other"))
    log = lines(work().stdout)
    assert [line["event"] for line in log] == ["started", "left", "ended"]
    assert log[0]["programs"] == ["booking", "parcels"]
    Path("programs/booking.yaml").write_text(CALLED)
    done = work()
    assert [line["event"] for line in lines(done.stdout)] == ["started", "taken", "stopped", "ended"]
    assert [line for line in done.stderr.splitlines() if "prints" in line] == [
        "a tool prints 733731",
        "a tool prints 7",
    ]


def test_a_policy_for_a_called_program_only_stops_the_worker() -> None:
    Path("programs/booking.yaml").write_text(CALLED)
    Path("programs/parcels.yaml").write_text(CALLS)
    Path("desk.yaml").write_text("policy: desk\napplies_to: [booking]\n")
    refused = work("--once", "--tools", "tools.py", "--policy", "desk.yaml")
    assert refused.exit_code == 2
    assert "SW110 policy `desk` applies to the called program `booking`, and not to this one" in refused.stderr


def test_a_port_that_is_taken_is_said() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = work("--once", "--tools", "tools.py", "--status-port", str(port))
    assert refused.exit_code == 2
    assert f"port {port} can't be used: address already in use" in refused.stderr


def test_metrics_are_in_the_text_format_and_name_no_values() -> None:
    counts = Counts()
    counts.taken, counts.due = 3, {'a "program"\\\n': 2}
    counts.stopped.update(["SUCCESS", "SUCCESS", "FAILED"])
    text = metrics_text(counts)
    assert text.endswith("\n")
    samples = [line for line in text.splitlines() if not line.startswith("#")]
    assert "stepward_worker_taken_total 3" in samples
    assert 'stepward_worker_stopped_total{status="SUCCESS"} 2' in samples
    assert r'stepward_due{program="a \"program\"\\\n"} 2' in samples
    for line in text.splitlines():
        name = line.split()[2] if line.startswith("#") else line.split("{")[0].split()[0]
        assert f"# TYPE {name} " in text
        assert f"# HELP {name} " in text


def fetched(port: int, path: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=20) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_a_worker_that_could_not_claim_lately_is_not_healthy() -> None:
    counts = Counts()
    with status_served(0, counts) as port:
        assert fetched(port, "/health") == (503, '{"healthy": false}')
        counts.seen = time.monotonic()
        assert fetched(port, "/health") == (200, '{"healthy": true}')
        assert fetched(port, "/metrics")[0] == 200
        assert fetched(port, "/else")[0] == 404
    assert not is_healthy(counts, time.monotonic() + 100)


@pytest.mark.parametrize("sign", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_worker_cleanly(sign: signal.Signals) -> None:
    Path("tools.py").write_text(
        "import time\ndef book(number, idempotency_key):\n    time.sleep(0.3)\n    return number\n"
    )
    queue("--journal", "runs.db", "--run-id", "mine")
    command = [STEPWARD, "worker", "--journal", "runs.db", "--programs", "programs", "--tools", "tools.py"]
    child = subprocess.Popen([*command, "--status-port", "0"], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    first = json.loads(child.stdout.readline())
    assert first["event"] == "started"
    assert json.loads(child.stdout.readline())["event"] == "taken"
    assert fetched(first["status_port"], "/health")[0] == 200
    assert "stepward_worker_driven 1" in fetched(first["status_port"], "/metrics")[1]
    child.send_signal(sign)
    rest = lines(child.communicate(timeout=60)[0])
    assert child.returncode == 0
    assert [(line["event"], line.get("status")) for line in rest] == [("stopped", "RUNNING"), ("ended", None)]
    assert [line["event"] for line in lines(work().stdout)][1:-1] == ["taken", "stopped"]
