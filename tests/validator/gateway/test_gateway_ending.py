"""Slow: `stepward mcp --http` gets a signal while requests are under way: what comes back, and what is said."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from doors import NEW, OLD, PATIENCE, STEPWARD
from stepward.vm import SQLiteJournal
from stepward.vm.journal.records import read_record

pytestmark = pytest.mark.usefixtures("warm")
TOKEN = "t" * 20
TOOLS = """
import time
from pathlib import Path

def pay(number: int, seconds: float) -> str:
    Path(f"begun{number}").touch()
    time.sleep(float(seconds))
    return "paid"
"""
PROGRAM = """
name: pays
inputs: {seconds: {type: number}}
steps:
  - {id: one, type: tool, tool: pay, args: {number: 1, seconds: $seconds}}
  - {id: two, type: tool, tool: pay, args: {number: 2, seconds: $seconds}}
"""
TURN = "(do (tool/pay {:number 1 :seconds SECONDS}) (tool/pay {:number 2 :seconds SECONDS}))"


class Server:
    """A server in a process of its own, and what one request to it was answered."""

    def __init__(self, folder: Path, process: subprocess.Popen[str]) -> None:
        assert process.stderr is not None
        self.folder, self.process = folder, process
        self.url = process.stderr.readline().removeprefix("serving at ").strip()
        self.answer = ""

    def ask(self, protocol: str, tool: str, **arguments: Any) -> threading.Thread:
        names = {"protocolVersion": protocol, "clientInfo": {"name": "t", "version": "1"}, "clientCapabilities": {}}
        meta = {f"io.modelcontextprotocol/{name}": value for name, value in names.items()}
        body = {"name": tool, "arguments": arguments, **({"_meta": meta} if protocol == NEW else {})}
        sent = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": body}
        headers = {
            "Authorization": f"Bearer {TOKEN}",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": protocol,
            **({"Mcp-Method": "tools/call", "Mcp-Name": tool} if protocol == NEW else {}),
        }

        def asks() -> None:
            self.answer = httpx2.post(self.url, headers=headers, json=sent, timeout=PATIENCE).text

        thread = threading.Thread(target=asks)
        thread.start()
        return thread

    def end(self, *signs: signal.Signals) -> tuple[int, str]:
        """Send signals; return the exit status, and what was written to standard error."""
        for sign in signs:
            self.process.send_signal(sign)
            time.sleep(0.3)
        _, log = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, log


@contextmanager
def server(folder: Path) -> Iterator[Server]:
    (folder / "tools.py").write_text(TOOLS, encoding="utf-8")
    callers = f"callers: [{{name: model, token: {TOKEN}, tools: [pay], effects: [none, write]}}]\n"
    (folder / "callers.yaml").write_text(callers, encoding="utf-8")
    means = ["--tools", "tools.py", "--callers", "callers.yaml", "--journal", "runs.db"]
    command = [STEPWARD, "mcp", *means, "--http", "0"]
    with subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
        try:
            yield Server(folder, process)
        finally:
            process.kill()


def until(file: Path) -> None:
    late = time.monotonic() + PATIENCE
    while not file.exists():
        assert time.monotonic() < late
        time.sleep(0.02)


def asked(one: Server, tool: str, protocol: str, seconds: float) -> threading.Thread:
    if tool == "run_lisp":
        return one.ask(protocol, tool, program=TURN.replace("SECONDS", f"{seconds:.1f}"))
    return one.ask(protocol, tool, program=PROGRAM, inputs={"seconds": seconds})


def kinds(folder: Path) -> list[str]:
    """Return the kinds of the records of the only run, whose lease is given back."""
    with closing(SQLiteJournal(folder / "runs.db")) as journal:
        (row,) = journal.rows()
        assert row.expires <= time.time(), "the lease is given back"
        return [read_record(entry).kind for entry in journal.read(row.run)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tool", "protocol", "seconds", "signs", "said"),
    [
        ("run_program", OLD, 1.5, [signal.SIGINT], "call get_run again"),
        ("run_program", NEW, 1.5, [signal.SIGTERM], "call get_run again"),
        ("run_program", NEW, 3600.0, [signal.SIGINT], "the server ends"),
        ("run_program", NEW, 3600.0, [signal.SIGINT] * 2, "the server ends"),
        ("run_lisp", OLD, 1.5, [signal.SIGTERM], "the turn goes on"),
        ("run_lisp", NEW, 3600.0, [signal.SIGINT], "the server ends"),
    ],
)
def test_a_signal_lets_calls_come_back_and_starts_none_and_prints_nothing(
    tmp_path: Path, tool: str, protocol: str, seconds: float, signs: list[signal.Signals], said: str
) -> None:
    with server(tmp_path) as one:
        asking = asked(one, tool, protocol, seconds)
        until(tmp_path / "begun1")
        ended = one.end(*signs)
        asking.join(PATIENCE)
    assert ended == (130 if signal.SIGINT in signs else 0, "")
    assert said in one.answer
    assert not (tmp_path / "begun2").exists()
    assert kinds(tmp_path) == ["started", "intent", *(["attempt"] if seconds < 2 else [])]


@pytest.mark.slow
def test_a_request_whose_body_never_comes_is_cut_off_without_a_word(tmp_path: Path) -> None:
    with server(tmp_path) as one:
        host = one.url.removeprefix("http://").partition("/")[0]
        with socket.create_connection(("127.0.0.1", int(host.partition(":")[2]))) as stream:
            head = f"POST /mcp HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: 9\r\n\r\n{{"
            stream.sendall(head.encode())
            time.sleep(0.5)
            status, log = one.end(signal.SIGINT)
            answer = stream.recv(1_000).decode()
    assert (status, log) == (130, "")
    assert answer.startswith("HTTP/1.1 503 ")
    assert answer.endswith("the server ends")


@pytest.mark.slow
def test_a_request_that_comes_while_the_server_ends_is_refused(tmp_path: Path) -> None:
    with server(tmp_path) as one:
        asking = asked(one, "run_program", NEW, 2.0)
        until(tmp_path / "begun1")
        one.process.send_signal(signal.SIGTERM)
        time.sleep(0.5)
        late = httpx2.post(one.url, headers={"Authorization": f"Bearer {TOKEN}"}, json={}, timeout=PATIENCE)
        asking.join(PATIENCE)
    assert (late.status_code, late.text) == (503, "the server ends")
    assert json.loads(one.answer)["result"]["isError"] is False
