"""The MCP server over standard streams: lines that are no messages, and the end of the input while runs go on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from stepward.vm import SQLiteJournal
from stepward.vm.journal.records import read_record

STEPWARD = str(Path(sys.executable).with_name("stepward"))
pytestmark = pytest.mark.usefixtures("warm")
TOKEN = "t" * 20
TOOLS = """
import time
from pathlib import Path

def pay(seconds: float) -> str:
    Path("begun").touch()
    time.sleep(float(seconds))
    return "paid"
"""
PROGRAM = """
name: pays
language: 2
inputs: {{seconds: {{type: number}}}}
steps:
  {first}
  - {{id: one, type: tool, tool: pay, args: {{seconds: $seconds}}}}
  - {{id: two, type: tool, tool: pay, args: {{seconds: $seconds}}}}
"""


class Client:
    """A client of a server over its standard streams."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process

    def send(self, line: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def ask(self, **message: Any) -> None:
        self.send(json.dumps({"jsonrpc": "2.0", **message}).encode())

    def answer(self) -> Any:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def run(self, program: str, seconds: float) -> None:
        given = {"program": program, "inputs": {"seconds": seconds}, "request": "q"}
        self.ask(id=2, method="tools/call", params={"name": "run_program", "arguments": given})


@contextmanager
def client(folder: Path) -> Iterator[Client]:
    (folder / "tools.py").write_text(TOOLS, encoding="utf-8")
    callers = f"callers: [{{name: model, token: {TOKEN}, tools: [pay], effects: [none, write]}}]\n"
    (folder / "callers.yaml").write_text(callers, encoding="utf-8")
    command = [STEPWARD, "mcp", "--tools", "tools.py", "--callers", "callers.yaml", "--journal", "runs.db"]
    environment = {**os.environ, "STEPWARD_CALLER_TOKEN": TOKEN}
    with subprocess.Popen(
        command, cwd=folder, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as server:
        found = Client(server)
        start = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
        found.ask(id=1, method="initialize", params=start)
        found.ask(method="notifications/initialized")
        assert found.answer()["id"] == 1
        yield found


def test_a_line_that_is_no_message_is_answered_and_the_next_one_is_served(tmp_path: Path) -> None:
    lines = {b"{nope": -32700, b"": -32700, b"\xff\xfe": -32700, b"5": -32600, b"[]": -32600, b'{"id": 3}': -32600}
    with client(tmp_path) as one:
        for line, code in lines.items():
            one.send(line)
            answer = one.answer()
            assert answer == {"jsonrpc": "2.0", "id": None, "error": answer["error"]}
            assert answer["error"]["code"] == code, line
            assert "nope" not in answer["error"]["message"]
        one.ask(id=7, method="ping")
        assert one.answer() == {"jsonrpc": "2.0", "id": 7, "result": {}}
        one.process.communicate(timeout=60)


SLOW = "- {id: rest, type: wait, seconds: 3600}"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("first", "seconds", "kinds"),
    [
        ("", 1.0, ["started", "intent", "attempt"]),
        ("", 3600.0, ["started", "intent"]),
        (SLOW, 0.0, ["started", "waiting"]),
    ],
    ids=["a call that comes back", "a call that does not", "a wait"],
)
def test_the_end_of_the_input_records_what_comes_back_and_gives_the_lease_back(
    tmp_path: Path, first: str, seconds: float, kinds: list[str]
) -> None:
    def begun(journal: SQLiteJournal) -> bool:
        if not first:
            return (tmp_path / "begun").exists()
        return any(len(journal.read(row.run)) == len(kinds) for row in journal.rows())

    with client(tmp_path) as one, closing(SQLiteJournal(tmp_path / "runs.db")) as journal:
        one.run(PROGRAM.format(first=first), seconds)
        deadline = time.monotonic() + 20
        while not begun(journal):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        _, log = one.process.communicate(timeout=60)
        assert one.process.returncode == 0, log
        (row,) = journal.rows()
        assert row.expires <= time.time(), "the lease is given back"
        assert [read_record(entry).kind for entry in journal.read(row.run)] == kinds
