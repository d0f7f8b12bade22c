"""Runs on disk: each contender is a process of its own that does its runs when it is told to.

`python turns.py '{"contender": ..., "folder": ..., ...}'` answers each line of its input with the seconds that its
runs took, by the clock and of CPU; all threads count. At the end of the input it says what it did.
"""

from __future__ import annotations

import asyncio
import gc
import json
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, Final, NamedTuple

from floors import Commit, Course, Database, OnDisk
from machine_peers import DBOSRuns, LangGraphRuns
from runs import STEPS, Tools, chain, run

from stepward.vm import ExecutionVM, MemoryJournal, Program, SQLiteJournal

FLOOR, SYNC, ASYNC = "floor", "run_sync", "run"
LANGGRAPH_SYNC, LANGGRAPH_ASYNC, DBOS = "LangGraph, sync", "LangGraph, async", "DBOS"


class Turn(NamedTuple):
    """Seconds of one run."""

    wall: float
    cpu: float


class Report(NamedTuple):
    """What a contender did in all its turns: runs, calls of the tool, and the steps that it found on the disk after."""

    runs: int
    calls: int
    persisted: int


class Contender:
    """A process that takes turns; `spec` is what it is told."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self.spec = spec
        command = [sys.executable, __file__, json.dumps(spec)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def turn(self, runs: int) -> Turn:
        return Turn(*self._ask(runs))

    def _ask(self, runs: int) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{runs}\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, f"{self.spec['contender']} ended with status {self._process.wait()}"
        return json.loads(answer)

    def end(self) -> Report:
        report = Report(*self._ask(0))
        assert self._process.wait() == 0
        # Every run did its five steps, and they are on the disk.
        assert report.calls == report.persisted == report.runs * STEPS, f"{self.spec['contender']}: {report}"
        return report

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()


@contextmanager
def contenders(specs: Sequence[dict[str, Any]]) -> Iterator[list[Contender]]:
    """Start a process for each spec, and end them all."""
    started = [Contender(spec) for spec in specs]
    try:
        yield started
    finally:
        for contender in started:
            contender.kill()


# -- in the process of a contender -------------------------------------------------------------------------------------


class Floor:
    """Bare SQLite, by the schedule that ours was seen to keep."""

    def __init__(self, spec: dict[str, Any], tools: Tools) -> None:
        ours = Program.from_dict(chain(STEPS, spec["effect"]))
        self.course = course(ours, spec["effect"])
        self.schedule = [Commit(*commit) for commit in spec["schedule"]]
        self.path = Path(spec["folder"]) / "floor.db"
        self.database = Database(self.path)
        self.tools = tools
        self.done: list[str] = []

    def runs(self, count: int) -> None:
        asyncio.run(self._runs(count))

    async def _runs(self, count: int) -> None:
        for _ in range(count):
            floor = OnDisk(self.course, self.schedule, self.database)
            await floor.run(self.tools.noop)
            self.done.append(floor.id)

    def persisted(self) -> int:
        self.database.connection.close()
        with closing(sqlite3.connect(self.path)) as connection:
            records = connection.execute("SELECT record FROM records").fetchall()
        return sum(b'"kind":"attempt"' in record for (record,) in records)


def course(program: Program, effect: str) -> Course:
    """Return what a floor runs in place of our program; its digest is what our records call it by."""
    journal = MemoryJournal()
    done = ExecutionVM(Tools(), journal=journal, checker=None).run_sync(program)
    digest = json.loads(journal.read(done.id)[0].record)["body"]["program"]
    return Course(tuple(str(step.id) for step in program.steps), effect == "write", digest)


class Ours:
    """The machine on its SQLite journal, called from code with or without an event loop."""

    def __init__(self, spec: dict[str, Any], tools: Tools) -> None:
        self.program = Program.from_dict(chain(STEPS, spec["effect"]))
        self.path = Path(spec["folder"]) / f"{spec['contender']}.db"
        self.journal = SQLiteJournal(self.path)
        self.machine = ExecutionVM(tools, journal=self.journal, checker=None)
        self.is_sync = spec["contender"] == SYNC
        self.done: list[str] = []

    def runs(self, count: int) -> None:
        if self.is_sync:
            for _ in range(count):
                done = self.machine.run_sync(self.program)
                assert done.status == "SUCCESS"
                assert done.steps == STEPS
                self.done.append(done.id)
        else:
            asyncio.run(self._runs(count))

    async def _runs(self, count: int) -> None:
        for _ in range(count):
            self.done.append(await run(self.machine, self.program, STEPS))

    def persisted(self) -> int:
        self.journal.close()
        with closing(SQLiteJournal(self.path, create=False)) as journal:
            entries = [entry for done in self.done for entry in journal.read(done)]
        return sum(b'"kind":"attempt"' in entry.record for entry in entries)


class Peer:
    """LangGraph or DBOS."""

    def __init__(self, spec: dict[str, Any], tools: Tools) -> None:
        def step(number: int) -> None:  # noqa: ARG001
            tools.noops += 1

        path = Path(spec["folder"]) / f"{spec['contender']}.db"
        if spec["contender"] == DBOS:
            self.peer: Any = DBOSRuns(path, STEPS, step)
        else:
            durability = "sync" if spec["contender"] == LANGGRAPH_SYNC else "async"
            self.peer = LangGraphRuns(path, STEPS, step, durability)
        self.done: list[str] = []

    def runs(self, count: int) -> None:
        for _ in range(count):
            self.done.append(f"run-{len(self.done)}")
            self.peer.run(self.done[-1])

    def persisted(self) -> int:
        found = sum(self.peer.persisted(done) for done in self.done)
        self.peer.close()
        return found


KINDS: Final[dict[str, Callable[..., Any]]] = {
    FLOOR: Floor,
    SYNC: Ours,
    ASYNC: Ours,
    LANGGRAPH_SYNC: Peer,
    LANGGRAPH_ASYNC: Peer,
    DBOS: Peer,
}


def main() -> None:
    spec = json.loads(sys.argv[1])
    tools = Tools()
    contender = KINDS[spec["contender"]](spec, tools)
    gc.disable()
    for line in sys.stdin:
        count = int(line)
        if not count:
            print(json.dumps(Report(len(contender.done), tools.noops, contender.persisted())), flush=True)
            return
        gc.collect()
        wall, cpu = perf_counter(), process_time()
        contender.runs(count)
        took = Turn((perf_counter() - wall) / count, (process_time() - cpu) / count)
        print(json.dumps(took), flush=True)


if __name__ == "__main__":
    main()
