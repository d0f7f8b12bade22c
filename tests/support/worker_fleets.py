"""Fleets of `stepward worker` on one journal, whose workers are killed; helpers only, no tests stand here.

A tool of the program notes when a call begins and ends, and in which process. The judge reads these notes and the
journal: no run is lost, stuck or doubled, and none is driven by two processes at once.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from stepward.validator.cli.machine import open_journal
from stepward.vm import ExecutionVM, Program
from stepward.vm.journal.store import Journal

STEPWARD = str(Path(sys.executable).parent / "stepward")

PROGRAM = """\
name: parcels
inputs: {number: {type: integer}}
tools: {book: {effect: write, idempotent: true}}
steps:
  - {id: first, type: tool, tool: book, args: {number: $number}, output_key: one}
  - {id: second, type: tool, tool: book, args: {number: $number}, output_key: two}
  - {id: done, type: end, output: $two}
"""

TOOLS = """\
import json, os, time

NOTES = os.environ["FLEET_NOTES"]

def note(what, context):
    line = json.dumps({"what": what, "run": context.run, "step": context.step, "pid": os.getpid(), "at": time.time()})
    with open(NOTES, "a") as file:
        file.write(line + chr(10))

def book(number, idempotency_key, context):
    note("begin", context)
    time.sleep(float(os.environ.get("FLEET_PAUSE", "0.3")))
    note("end", context)
    return number
"""


class Fleet:
    """Workers on one journal. `prefix` comes before the command of each, by its number."""

    def __init__(self, folder: Path, journal: str, *, lease: float = 1.0, prefix: Sequence[Sequence[str]] = ()) -> None:
        self.folder, self.journal, self.lease, self.prefix = folder, journal, lease, prefix
        self.notes = folder / "notes"
        self.notes.touch()
        (folder / "programs").mkdir()
        (folder / "programs/parcels.yaml").write_text(PROGRAM)
        (folder / "tools.py").write_text(TOOLS)
        self.workers: dict[int, subprocess.Popen[bytes]] = {}
        self.killed: dict[int, float] = {}

    def queue(self, count: int) -> list[str]:
        """Write so many runs for the workers, and return their ids."""
        program = Program.from_yaml(PROGRAM)
        with closing(open_journal(self.journal, create=True)) as journal:
            machine = ExecutionVM(None, None, journal, checker=None)
            return [machine.queue_sync(program, {"number": number}).id for number in range(count)]

    def start(self, number: int, journal: str = "") -> None:
        """Start the worker of a number."""
        command = [*(self.prefix[number] if self.prefix else ()), STEPWARD, "worker"]
        command += ["--journal", journal or self.journal, "--programs", str(self.folder / "programs"), "--isolated"]
        command += ["--tools", str(self.folder / "tools.py"), "--lease", str(self.lease), "--poll", "0.1"]
        with open(self.folder / f"log-{number}", "ab") as log:
            environment = {**os.environ, "FLEET_NOTES": str(self.notes)}
            self.workers[number] = subprocess.Popen(command, stdout=log, stderr=log, env=environment)

    def kill(self, number: int) -> None:
        """Kill a worker, so that it can do nothing more."""
        worker = self.workers[number]
        worker.kill()
        worker.wait()
        self.killed[worker.pid] = time.time()

    def stop(self) -> list[int]:
        """Let all workers end, and return their exit statuses."""
        for worker in self.workers.values():
            worker.terminate()
        return [worker.wait(60) for worker in self.workers.values()]

    def unfinished(self) -> int:
        """Return the number of runs that have not ended."""
        with closing(open_journal(self.journal)) as journal:
            return len(journal.rows(["RUNNING", "SUSPENDED", "IN_DOUBT"]))

    def wait(self, seconds: float = 120.0) -> None:
        """Wait until no run is under way; the judge says what is stuck."""
        limit = time.monotonic() + seconds
        while self.unfinished() and time.monotonic() < limit:
            assert all(worker.poll() is None for worker in self.workers.values()), "a worker ended by itself"
            time.sleep(0.2)


class _Note(NamedTuple):
    what: str
    run: str
    step: str
    pid: int
    at: float


def judge(fleet: Fleet, runs: Sequence[str]) -> list[str]:
    """Return what is wrong with the runs of a fleet."""
    notes = [_Note(**json.loads(line)) for line in fleet.notes.read_text().splitlines()]
    faults = []
    with closing(open_journal(fleet.journal)) as journal:
        found = {row.run: row.status for row in journal.rows()}
        if sorted(found) != sorted(runs):
            faults.append(f"{len(runs)} runs were written, and there are {len(found)}")
        faults += [f"{run} is {status}" for run, status in found.items() if status != "SUCCESS"]
        faults += [fault for run in found for fault in _misrecorded(journal, run)]
    by_run: dict[str, list[_Note]] = defaultdict(list)
    for note in notes:
        by_run[note.run].append(note)
    faults += [fault for many in by_run.values() for fault in _overlaps(many, fleet.killed)]
    return faults


def _misrecorded(journal: Journal, run: str) -> list[str]:
    records: list[dict[str, Any]] = [json.loads(entry.record) for entry in journal.read(run)]
    counts = Counter((record["kind"], record["body"].get("step", "")) for record in records)
    due = {("started", ""): 1, ("ended", "done"): 1}
    due |= {(kind, step): 1 for kind in ("intent", "attempt") for step in ("first", "second")}
    wrong = {name: count for name, count in counts.items() if due.get(name, 0) != count}
    return [f"{run} has records that are doubled or missing: {wrong}"] if wrong or len(counts) != len(due) else []


def _overlaps(notes: Sequence[_Note], killed: dict[int, float]) -> list[str]:
    """Return where a call began while one of another process, which lived, was under way."""
    faults, under_way = [], {}
    for note in sorted(notes, key=lambda note: note.at):
        for pid, began in under_way.items():
            if note.what == "begin" and pid != note.pid and killed.get(pid, note.at + 1) > note.at:
                faults.append(f"{note.run} is driven by {pid} since {began}, and by {note.pid} at {note.at}")
        if note.what == "begin":
            under_way[note.pid] = note.at
        else:
            under_way.pop(note.pid, None)
    return faults


def late_begins(fleet: Fleet, pid: int, after: float) -> list[str]:
    """Return the runs in which a process began a call after a time that somebody else had begun before it."""
    first: dict[tuple[str, str], int] = {}
    late = []
    for note in (_Note(**json.loads(line)) for line in fleet.notes.read_text().splitlines()):
        if note.what == "begin" and first.setdefault((note.run, note.step), note.pid) != note.pid == pid:
            late += [note.run] if note.at > after else []
    return late
