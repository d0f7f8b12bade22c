"""The floors: what is left of a run when nothing is decided, checked or bounded. Bare Python, orjson and SHA-256.

All write the records that a run of a chain of no-op steps has, one for its start and one for each step (two, where
the step is a write), chain them by SHA-256, keep them under the id of the run, call the tool, and keep the outputs by
step in a dict. `Small` writes the least that tells what happened. `Same` writes the fields of our records, byte for
byte but for times and ids, takes the times that are in them, and computes the trace hash beside the chain. `OnDisk`
commits the records of `Same` to SQLite, in as many commits, each as durable, as ours were seen to make.
"""

from __future__ import annotations

import sqlite3
import time
import uuid
from collections.abc import Awaitable, Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import orjson

Noop = Callable[[], Awaitable[None]]

RECORD, TRACE, KEY = b"stepward.record.1\n", b"stepward.trace.1\n", b"stepward.idempotency-key.1\n"
START = bytes(32)


class Chained(NamedTuple):
    """A record, and the digest that chains it."""

    record: bytes
    digest: bytes


class Course(NamedTuple):
    """What a floor runs: the steps in order, whether each is a write, and the digest of our program."""

    steps: tuple[str, ...]
    writes: bool
    program: str


class Commit(NamedTuple):
    """One commit: whether it must survive a loss of power, and how many records are new in it."""

    durable: bool
    records: int


class Small:
    """Number, kind, step, output and the digest before: no times, no visits, no attempts, and one chain."""

    def __init__(self, course: Course) -> None:
        self.course = course
        self.id = f"run-{uuid.uuid4().hex}"
        self.kept: list[Chained] = []
        self.state: dict[str, Any] = {}
        self.digest = START

    async def run(self, noop: Noop) -> None:
        keep, state, writes = self.keep, self.state, self.course.writes
        keep("started", "", None)
        for step in self.course.steps:
            if writes:
                keep("intent", step, None)
            state[step] = output = await noop()
            keep("attempt", step, output)

    def keep(self, kind: str, step: str, output: Any) -> None:
        prev, seq = self.digest.hex(), len(self.kept)
        record = orjson.dumps({"kind": kind, "output": output, "prev": prev, "seq": seq, "step": step})
        self.digest = sha256(record).digest()
        self.kept.append(Chained(record, self.digest))


class Same:
    """The fields of our records, in the order of their canonical form, and both hash chains."""

    def __init__(self, course: Course) -> None:
        self.course = course
        self.id = f"run-{uuid.uuid4().hex}"
        self.kept: list[Chained] = []
        self.state: dict[str, Any] = {}
        self.trace = self.digest = START

    async def run(self, noop: Noop) -> None:
        state, writes = self.state, self.course.writes
        self.start()
        for step, following in zip(self.course.steps, (*self.course.steps[1:], None), strict=True):
            if writes:
                self.intend(step)
            started = time.time_ns() // 1000
            state[step] = output = await noop()
            now = time.time_ns() // 1000
            body: dict[str, Any] = {"kind": "success", "next": following, "output": output, "step": step, "visit": 1}
            if following is None:
                end = {"ends": "SUCCESS", "kind": "success", "output": output, "reason": "declared"}
                body = {**end, "step": step, "visit": 1}
            self.keep("attempt", body, {"attempt": 1, "performance": 1, "started": started, "took": now - started}, now)

    def start(self) -> None:
        body = {"inputs": {}, "policies": [], "program": self.course.program, "waived": []}
        note = {"limits": [1 << 20, 16 << 20, 1_000_000], "run": self.id}
        self.keep("started", body, note, time.time_ns() // 1000)

    def intend(self, step: str) -> None:
        """Write an intent, with a key that tells this performance from all others."""
        name = {"performance": 1, "program": self.course.program, "run": self.id, "step": step, "visit": 1}
        note = {"attempt": 1, "key": sha256(KEY + orjson.dumps(name)).hexdigest(), "performance": 1}
        body = {"args": {}, "policies": [], "step": step, "tool": "noop", "visit": 1}
        self.keep("intent", body, note, time.time_ns() // 1000)

    def keep(self, kind: str, body: dict[str, Any], note: dict[str, Any], at: int) -> None:
        text = orjson.dumps(body)
        if kind != "intent":  # what was meant is not what happened
            self.trace = sha256(TRACE + self.trace + kind.encode() + b"\n" + text).digest()
        first = {"at": at, "body": orjson.Fragment(text), "kind": kind, "note": note}
        record = orjson.dumps({**first, "prev": self.digest.hex(), "seq": len(self.kept), "v": 1})
        self.digest = sha256(RECORD + record).digest()
        self.kept.append(Chained(record, self.digest))


class OnDisk(Same):
    """The same, committed to a `Database` by a schedule: each commit is made as soon as its records are there."""

    def __init__(self, course: Course, schedule: Sequence[Commit], database: Database) -> None:
        super().__init__(course)
        self.schedule = iter(schedule)
        self.database = database
        self.due: Commit | None = next(self.schedule)
        self.written = 0

    async def run(self, noop: Noop) -> None:
        await super().run(noop)
        assert self.due is None, "the run ended before its schedule"
        assert self.written == len(self.kept)

    def keep(self, kind: str, body: dict[str, Any], note: dict[str, Any], at: int) -> None:
        super().keep(kind, body, note, at)
        while self.due is not None and len(self.kept) - self.written == self.due.records:
            fresh = [(self.id, seq, *self.kept[seq]) for seq in range(self.written, len(self.kept))]
            self.database.commit(self.id, fresh, self.due.durable)
            self.written = len(self.kept)
            self.due = next(self.schedule, None)


class Database:
    """One SQLite file in write-ahead mode with a line for each run and one for each record, and nothing else."""

    def __init__(self, path: Path) -> None:
        self.connection = sqlite3.connect(path, isolation_level=None)
        self.connection.execute("PRAGMA journal_mode = WAL")
        self.connection.execute("PRAGMA synchronous = FULL")
        self.connection.execute(
            "CREATE TABLE runs (run TEXT PRIMARY KEY, seq INTEGER, digest BLOB, held REAL) WITHOUT ROWID"
        )
        self.connection.execute(
            "CREATE TABLE records (run TEXT, seq INTEGER, record BLOB, digest BLOB, PRIMARY KEY (run, seq))"
            " WITHOUT ROWID"
        )
        self.durable = True

    def commit(self, run: str, fresh: Sequence[tuple[Any, ...]], durable: bool) -> None:
        execute = self.connection.execute
        if durable != self.durable:
            execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
            self.durable = durable
        execute("BEGIN IMMEDIATE")
        if fresh:
            _, seq, _, digest = fresh[-1]
            if seq + 1 == len(fresh):
                execute("INSERT INTO runs VALUES (?, ?, ?, ?)", (run, seq, digest, time.time()))
            else:
                execute("UPDATE runs SET seq = ?, digest = ? WHERE run = ?", (seq, digest, run))
            self.connection.executemany("INSERT INTO records VALUES (?, ?, ?, ?)", fresh)
        else:
            execute("UPDATE runs SET held = 0.0 WHERE run = ?", (run,))
        execute("COMMIT")
