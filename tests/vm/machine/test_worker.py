"""The worker within one process: what it claims, what it leaves alone, and how it ends."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from machines import end, program, tool
from sizes import size
from stepward.vm import ExecutionVM, MemoryJournal, Program, RunRefused, SQLiteJournal, Suspend
from stepward.vm.journal.store import Journal, JournalError, Lease, LeaseLost
from stepward.vm.machine.clock import SystemClock
from stepward.vm.machine.plan import Plan
from stepward.vm.machine.refusals import NotEquipped
from stepward.vm.machine.worker import Pace, Worker

ONCE = program(tool("a", "write"), end())
TWICE = program(tool("a", "again"), tool("b", "again"), end())

RUNS = size(100, 1_000)
"""The number of runs about which two workers compete."""

FAST = Pace(poll=0.01, grace=5.0)


@pytest.fixture(params=["memory", "sqlite"])
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> Journal:
    return MemoryJournal() if request.param == "memory" else SQLiteJournal(tmp_path / "j.db")


class Told:
    """What a worker said."""

    def __init__(self) -> None:
        self.events: list[tuple[str, dict[str, Any]]] = []

    def __call__(self, event: str, fields: Mapping[str, Any]) -> None:
        json.dumps(fields)
        self.events.append((event, dict(fields)))

    def of(self, event: str, field: str = "run") -> list[Any]:
        return [fields.get(field) for name, fields in self.events if name == event]


class Clock(SystemClock):
    """A clock that can be put ahead."""

    ahead = 0

    def now(self) -> int:
        return super().now() + self.ahead * 1_000_000


def delayed(seconds: float) -> Program:
    retry = [{"errors": ["any"], "max_attempts": 3, "delay_seconds": seconds}]
    return program({"id": "a", "type": "tool", "tool": "again", "retry": retry}, end(), language=2)


def machine(tools: Mapping[str, Callable[..., Any]] | None, journal: Journal, **more: Any) -> ExecutionVM:
    return ExecutionVM(tools or {}, None, journal, checker=None, **more)


def digests(*programs: Program) -> dict[str, frozenset[str]]:
    found: dict[str, frozenset[str]] = {}
    for one in programs:
        found[one.name] = found.get(one.name, frozenset()) | {Plan(one).digest}
    return found


def queued(journal: Journal, what: Program, *runs: str) -> None:
    for run in runs:
        assert machine(None, journal).queue_sync(what, run_id=run).status == "RUNNING"


def drained(worker: Worker) -> Worker:
    """Let a worker do all that is due."""
    asyncio.run(worker.work(asyncio.Event(), once=True))
    return worker


def statuses(journal: Journal) -> dict[str, str]:
    return {row.run: row.status for row in journal.rows()}


def test_a_queued_run_is_written_and_nothing_more(journal: Journal) -> None:
    vm = machine(None, journal)
    run = vm.queue_sync(ONCE, by="ann")
    assert (run.status, run.seq) == ("RUNNING", 0)
    assert journal.due(time.time()) == {ONCE.name: 1}
    assert vm.queue_sync(ONCE, run_id=run.id).id == run.id
    with pytest.raises(RunRefused, match="of another program"):
        vm.queue_sync(TWICE, run_id=run.id)
    with pytest.raises(NotEquipped):
        vm.run_sync(ONCE)


def test_queued_runs_are_driven_in_their_order_and_each_once(journal: Journal) -> None:
    order: list[str] = []
    names = [f"run {number}" for number in range(5)]
    queued(journal, ONCE, *names)
    told = Told()
    vm = machine({"write": lambda: order.append("x")}, journal)
    worker = drained(Worker(vm, digests(ONCE), told, FAST._replace(at_once=1)))
    assert statuses(journal) == dict.fromkeys(names, "SUCCESS")
    assert told.of("taken") == names
    assert len(order) == 5
    assert (worker.counts.taken, worker.counts.stopped, worker.counts.driven) == (5, {"SUCCESS": 5}, 0)
    assert journal.due(time.time() + 1e6) == {}


def test_several_runs_are_driven_at_once(journal: Journal) -> None:
    meeting = threading.Barrier(3, timeout=20)
    queued(journal, ONCE, "a", "b", "c")
    drained(Worker(machine({"write": meeting.wait}, journal), digests(ONCE), Told(), FAST))
    assert set(statuses(journal).values()) == {"SUCCESS"}


def test_an_orphaned_run_is_taken_up_when_its_lease_has_expired(journal: Journal) -> None:
    vm = machine({"again": lambda: 1}, journal, lease_seconds=0.2)

    async def crashed() -> None:
        plan = vm._plan(TWICE)
        driver = await vm._create(plan, "orphan", {})
        assert driver is not None

    asyncio.run(crashed())
    worker = Worker(vm, digests(TWICE), Told(), FAST)
    drained(worker)
    assert worker.counts.taken == 0
    time.sleep(0.25)
    drained(worker)
    assert statuses(journal) == {"orphan": "SUCCESS"}


def test_runs_of_other_programs_and_of_other_versions_are_left_alone_and_said_once(journal: Journal) -> None:
    other = program(tool("a", "again"), end(), name="other")
    queued(journal, ONCE, "mine")
    queued(journal, TWICE, "older")
    queued(journal, other, "foreign 1", "foreign 2")
    assert ONCE.name == TWICE.name
    told = Told()
    worker = Worker(machine({"write": lambda: 1, "again": lambda: 1}, journal), digests(ONCE), told, FAST)
    for _ in range(3):
        drained(worker)
    assert statuses(journal) == {"mine": "SUCCESS", "older": "RUNNING", "foreign 1": "RUNNING", "foreign 2": "RUNNING"}
    assert [journal.head(run).seq for run in ("older", "foreign 1")] == [0, 0]  # type: ignore[union-attr]
    assert all(row.expires <= time.time() for row in journal.rows(["RUNNING"]))
    assert sorted(zip(told.of("left", "program"), told.of("left", "why"), told.of("left"), strict=True)) == [
        (ONCE.name, "version", "older"),
        ("other", "program", None),
    ]
    assert worker.counts.left == {"version": 1}
    assert worker.counts.due["other"] == 2
    # Another worker has that version.
    drained(Worker(machine({"again": lambda: 1}, journal), digests(TWICE, other), Told(), FAST))
    assert set(statuses(journal).values()) == {"SUCCESS"}


def test_a_run_without_its_tools_or_with_damage_is_left_and_stops_nobody(tmp_path: Path) -> None:
    import sqlite3

    journal = SQLiteJournal(tmp_path / "j.db")
    queued(journal, TWICE, "no tools")
    queued(journal, ONCE, "damaged", "whole")
    with sqlite3.connect(tmp_path / "j.db") as connection:
        connection.execute("UPDATE records SET record = x'00' WHERE run = 'damaged'")
    told = Told()
    worker = Worker(machine({"write": lambda: 1}, journal), digests(ONCE, TWICE), told, FAST)
    for _ in range(3):
        drained(worker)
    assert statuses(journal) == {"no tools": "RUNNING", "damaged": "RUNNING", "whole": "SUCCESS"}
    assert dict(zip(told.of("left"), told.of("left", "why"), strict=True)) == {
        "no tools": "tools",
        "damaged": "journal",
    }


def test_a_run_that_waits_for_somebody_is_not_due(journal: Journal) -> None:
    asks = program(tool("a", "ask"), end())
    queued(journal, asks, "run")
    worker = Worker(machine({"ask": lambda: Suspend("well?")}, journal), digests(asks), Told(), FAST)
    drained(worker)
    drained(worker)
    assert (statuses(journal), worker.counts.taken) == ({"run": "SUSPENDED"}, 1)


def test_a_row_that_is_wrongly_due_is_passed_over(journal: Journal) -> None:
    asks = program(tool("a", "ask"), end())
    vm = machine({"ask": lambda: Suspend("well?")}, journal)
    run = vm.run_sync(asks, run_id="run")
    assert run.status == "SUSPENDED"
    told = Told()
    # A process of a version that knows no due times leaves the one before.
    older = journal.head("run")
    assert older is not None
    claims = journal.claim
    journal.claim = lambda holder, now, ttl, limit, programs, passed: (  # type: ignore[method-assign]
        [] if "run" in passed else [journal.acquire("run", holder, now, ttl)]
    )
    drained(Worker(vm, digests(asks), told, FAST))
    journal.claim = claims  # type: ignore[method-assign]
    assert told.of("left", "why") == ["nothing"]


# -- leases ------------------------------------------------------------------------------------------------------------


def test_a_worker_whose_lease_was_stolen_stops_writing(journal: Journal) -> None:
    stolen: list[Lease | None] = []

    def steal() -> int:
        stolen.append(journal.acquire("run", "thief", time.time() + 1e6, 60.0))
        return 1

    queued(journal, TWICE, "run")
    made: list[str] = []
    told = Told()
    tools = {"again": lambda: steal() if not stolen else made.append("b")}
    worker = Worker(machine(tools, journal), digests(TWICE), told, FAST)
    before = journal.head("run")
    drained(worker)
    assert before is not None
    kinds = [json.loads(entry.record)["kind"] for entry in journal.read("run")]
    assert kinds == ["started", "intent"]  # of the first step; its outcome came after the theft
    assert made == []
    assert (told.of("lost"), worker.counts.lost) == (["run"], 1)
    lease = stolen[0]
    assert lease is not None
    with pytest.raises(LeaseLost):
        journal.renew(lease._replace(fence=lease.fence - 1), time.time(), 60.0)


def test_of_two_workers_and_one_due_run_one_drives(tmp_path: Path) -> None:
    journal = SQLiteJournal(tmp_path / "j.db")
    driven: list[str] = []
    queued(journal, ONCE, *[f"run {number}" for number in range(RUNS)])

    async def both() -> None:
        stop = asyncio.Event()
        stores = [SQLiteJournal(tmp_path / "j.db") for _ in range(2)]
        workers = [
            Worker(machine({"write": lambda: driven.append("x")}, store), digests(ONCE), Told(), FAST)
            for store in stores
        ]
        await asyncio.gather(*(worker.work(stop, once=True) for worker in workers))
        assert sum(worker.counts.taken for worker in workers) == RUNS

    asyncio.run(both())
    assert len(driven) == RUNS
    assert set(statuses(journal).values()) == {"SUCCESS"}


# -- the end -----------------------------------------------------------------------------------------------------------


def ended(worker: Worker, when: Callable[[], bool]) -> None:
    """Let a worker work until something is so, and then tell it to end."""

    async def working() -> None:
        stop = asyncio.Event()
        task = asyncio.ensure_future(worker.work(stop))
        for _ in range(2_000):
            if when():
                break
            await asyncio.sleep(0.005)
        stop.set()
        await task

    asyncio.run(working())


def test_at_the_end_a_call_under_way_comes_back_and_the_next_does_not_start(journal: Journal) -> None:
    began = threading.Event()
    calls: list[str] = []

    def slow() -> int:
        began.set()
        time.sleep(0.1)
        calls.append("x")
        return 1

    queued(journal, TWICE, "run", "waits")
    told = Told()
    worker = Worker(machine({"again": slow}, journal), digests(TWICE), told, FAST._replace(at_once=1))
    ended(worker, began.is_set)
    assert calls == ["x"]
    assert told.of("stopped", "status") == ["RUNNING"]
    assert [json.loads(entry.record)["kind"] for entry in journal.read("run")] == ["started", "intent", "attempt"]
    assert all(row.expires <= time.time() for row in journal.rows())
    drained(Worker(machine({"again": lambda: 1}, journal), digests(TWICE), Told(), FAST))
    assert set(statuses(journal).values()) == {"SUCCESS"}


def test_at_the_end_nobody_waits_for_a_delay(journal: Journal) -> None:
    patient = delayed(4)  # short enough to be waited for
    asked = threading.Event()

    def fails() -> None:
        asked.set()
        raise ValueError

    queued(journal, patient, "run")
    ended(Worker(machine({"again": fails}, journal), digests(patient), Told(), FAST), asked.is_set)
    assert statuses(journal) == {"run": "RUNNING"}


def test_a_run_with_a_long_delay_ahead_is_let_go_until_then(journal: Journal) -> None:
    clock = Clock()
    patient, calls = delayed(3600), iter([ValueError("not yet"), None])

    def fails_once() -> None:
        error = next(calls)
        if error is not None:
            raise error

    queued(journal, patient, "run")
    told = Told()
    vm = machine({"again": fails_once}, journal, clock=clock)
    worker = Worker(vm, digests(patient), told, FAST._replace(at_once=1))
    drained(worker)
    due = vm.get_sync("run").due
    assert due is not None
    assert due > time.time() + 3_000
    assert (told.of("stopped", "status"), worker.counts.lost, journal.due(time.time())) == (["RUNNING"], 0, {})
    drained(worker)
    assert worker.counts.taken == 1
    clock.ahead = 3_700
    drained(worker)
    assert statuses(journal) == {"run": "SUCCESS"}
    assert told.of("left") == []


def test_a_short_delay_is_waited_for(journal: Journal) -> None:
    calls = iter([ValueError("not yet"), None])

    def fails_once() -> None:
        error = next(calls)
        if error is not None:
            raise error

    short = delayed(0.05)
    queued(journal, short, "run")
    worker = drained(Worker(machine({"again": fails_once}, journal), digests(short), Told(), FAST))
    assert (statuses(journal), worker.counts.taken) == ({"run": "SUCCESS"}, 1)


def test_at_the_end_a_call_that_does_not_come_back_keeps_its_lease(journal: Journal) -> None:
    began, over = threading.Event(), threading.Event()

    def hangs() -> int:
        began.set()
        over.wait(20)
        return 1

    queued(journal, ONCE, "run")
    ended(Worker(machine({"write": hangs}, journal), digests(ONCE), Told(), Pace(4, 0.01, 0.05)), began.is_set)
    row = journal.row("run")
    assert row is not None
    assert row.expires > time.time()
    over.set()
    for _ in range(1_000):
        row = journal.row("run")
        if row is not None and row.expires == 0.0:
            return
        time.sleep(0.01)
    raise AssertionError("the lease was never given back")


class Failing(MemoryJournal):
    """A store that can't be used for some claims."""

    failing = 3

    def claim(self, *args: Any, **named: Any) -> list[Lease]:
        if self.failing:
            self.failing -= 1
            raise JournalError("the network is down")
        return super().claim(*args, **named)


def test_a_store_that_fails_is_tried_again_and_said_once() -> None:
    journal = Failing()
    queued(journal, ONCE, "run")
    told = Told()
    worker = Worker(machine({"write": lambda: 1}, journal), digests(ONCE), told, FAST)
    ended(worker, lambda: statuses(journal) == {"run": "SUCCESS"})
    assert statuses(journal) == {"run": "SUCCESS"}
    assert (worker.counts.failures, told.of("store_failed")) == (3, [None])
    journal.failing = 1
    with pytest.raises(JournalError, match="the network is down"):
        drained(worker)
