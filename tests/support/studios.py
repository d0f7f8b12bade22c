"""A studio on loopback for tests: its journal, its programs and its server in a thread, and requests to it."""

from __future__ import annotations

import asyncio
import http.client
import json
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from browser import PATIENCE, Browser
from review_pages import HOSTILE, NAME
from stepward.validator.studio.acting import Operator
from stepward.validator.studio.analysis import Analysis
from stepward.validator.studio.disturbances import DISTURBANCES
from stepward.validator.studio.feed import Feed
from stepward.validator.studio.live import Live
from stepward.validator.studio.page import studio_page
from stepward.validator.studio.parts import Programs, StudioParts
from stepward.validator.studio.sandboxes import Sandboxes
from stepward.validator.studio.server import listening, server_of
from stepward.validator.studio.views import Views
from stepward.vm import ExecutionVM, Program, Run, SQLiteJournal, Suspend

TOKEN: Final = "the-token-of-the-operator"
SECRET: Final = "ann@example.com"
HOSTILE_ID: Final = "<img src=x onerror=document.title='run'>"

PAYS: Final[dict[str, Any]] = {
    "name": "pays",
    "inputs": {"amount": {"type": "integer"}, "mail": {"type": "string", "sensitive": True}},
    "tools": {
        "look": {"effect": "read", "returns": {"type": "string"}},
        "ask": {"effect": "none", "suspends": True, "returns": {"type": "boolean"}},
        "pay": {"effect": "write", "idempotent": False, "args": {"amount": {"type": "integer"}},
                "returns": {"type": "string"}},
    },
    "steps": [
        {"id": "look", "type": "tool", "tool": "look", "output_key": "seen", "timeout_seconds": 5},
        {"id": "large", "type": "condition", "condition": "$amount > 50", "then": "ask", "otherwise": "pay"},
        {"id": "ask", "type": "tool", "tool": "ask", "output_key": "agreed", "next_step": "pay"},
        {"id": "pay", "type": "tool", "tool": "pay", "args": {"amount": "$amount"}, "output_key": "receipt",
         "next_step": "done"},
        {"id": "done", "type": "end", "output": "$receipt"},
    ],
}  # fmt: skip


class Tools:
    """The tools of `pays`. `pause` is how many seconds each takes, `paid` what was paid."""

    def __init__(self) -> None:
        self.pause = 0.0
        self.paid: list[int] = []

    async def look(self) -> str:
        await asyncio.sleep(self.pause)
        return HOSTILE

    async def ask(self) -> Suspend:
        return Suspend({"question": HOSTILE})

    async def pay(self, amount: int) -> str:
        await asyncio.sleep(self.pause)
        self.paid.append(amount)
        return "R-1"


class Answer(NamedTuple):
    """What a server answered."""

    status: int
    text: str
    headers: dict[str, str]


class Studio:
    """A studio that is served, and a machine that makes runs in its journal."""

    def __init__(self, folder: Path, journal: SQLiteJournal, port: int) -> None:
        self.folder, self.journal, self.port = folder, journal, port
        self.tools = Tools()
        self.machine = ExecutionVM(self.tools, None, journal, checker=None)
        self.program = Program.from_dict(PAYS)
        self.origin = f"http://127.0.0.1:{port}"

    def run(self, run: str, amount: int) -> Run:
        """Make a run; one of more than 50 waits for an answer."""
        return self.machine.run_sync(self.program, {"amount": amount, "mail": SECRET}, run_id=run, by="ann")

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        """Send a request, and return the answer; a header of an empty text is left out.

        A server that refuses a request before it has read its body may reset the connection, and its answer is lost
        then: the request is sent once more.
        """
        try:
            return self._answer(method, path, body, **headers)
        except ConnectionResetError:
            return self._answer(method, path, body, **headers)

    def _answer(self, method: str, path: str, body: Any, **headers: str) -> Answer:
        said = {"Host": f"127.0.0.1:{self.port}", **{name.replace("_", "-"): text for name, text in headers.items()}}
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)) as connection:
            connection.putrequest(method, path, skip_host=True)
            data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
            for name, text in {**said, "Content-Length": str(len(data))}.items():
                if text:
                    connection.putheader(name, text)
            connection.endheaders(data)
            answer = connection.getresponse()
            return Answer(answer.status, answer.read().decode(), dict(answer.getheaders()))

    def act(self, path: str = "/act", body: Any = None, **headers: str) -> Answer:
        """Send a request as the page does for who has the token."""
        said = {"Content_Type": "application/json", "Authorization": f"Bearer {TOKEN}", "Origin": self.origin}
        return self.ask("POST", path, body, **{**said, **headers})

    def events(self, run: str, last: str = "") -> list[dict[str, Any]]:
        """Return the data of the events of a stream, each with its `id`, up to the first that names a run."""
        found: list[dict[str, Any]] = []
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)) as connection:
            connection.request("GET", "/events", headers={"Last-Event-ID": last} if last else {})
            answer, id = connection.getresponse(), ""
            while not any(row[0] == run for event in found for row in event["runs"]):
                line = answer.readline().decode().rstrip("\n")
                if line.startswith("id: "):
                    id = line.removeprefix("id: ")
                elif line.startswith("data: "):
                    found.append({**json.loads(line.removeprefix("data: ")), "id": id})
        return found


def house_of(studio: Studio) -> StudioParts:
    """Return the parts of a studio, whose operator has the tools of its runs."""
    journal = studio.journal
    views = Views(journal, DISTURBANCES)
    sandboxes = Sandboxes(journal, views.picture_of)
    return StudioParts(
        studio_page("runs.db", ["pays.json"]),
        Live(Feed(journal), (sandboxes,)),
        views,
        Analysis(journal),
        Programs(["pays.json"], lambda _: []),
        Operator(ExecutionVM(studio.tools, None, journal, checker=None), lambda _: None),
        sandboxes,
    )


def until(window: Browser, script: str, *arguments: Any) -> Any:
    """Return what a script gives in a browser as soon as that is true of it."""
    late = time.monotonic() + PATIENCE
    while not (found := window.run(f"return {script}", *arguments)):
        assert time.monotonic() < late, f"never: {script}\n{window.log()}"
        time.sleep(0.05)
    return found


@contextmanager
def served(folder: Path) -> Iterator[Studio]:
    """Serve a studio of an empty journal in a folder, in a thread."""
    with closing(SQLiteJournal(str(folder / "runs.db"))) as journal, listening(0) as sock:
        studio = Studio(folder, journal, sock.getsockname()[1])
        server = server_of(house_of(studio), TOKEN, sock)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]})
        thread.start()
        try:
            yield studio
        finally:
            server.should_exit = True
            thread.join()


def hostile_program() -> Program:
    """Return a program whose names are markup and script."""
    steps = [{"id": "look", "type": "tool", "tool": "look", "output_key": "seen"}]
    return Program.from_dict({"name": NAME, "inputs": {}, "tools": {"look": {"effect": "read"}}, "steps": steps})
