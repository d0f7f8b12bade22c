"""Who holds the lease of a run while what is under way: callers that are cancelled or interrupted, tools that go on."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from machines import both, end, program, tool, unchecked
from stepward.vm import ExecutionVM, MemoryJournal, RunBusy, SQLiteJournal, Suspend
from stepward.vm.journal.store import Journal
from stepward.vm.machine.clock import ManualClock

pytestmark = pytest.mark.usefixtures("interrupted_by_default")

ONCE = program(tool("a", "write"), end())
AGAIN = program(tool("a", "again"), end())
LIMITED = program(tool("a", "write", timeout_seconds=0.3), end())


@pytest.fixture(params=["memory", "sqlite"])
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> Journal:
    return MemoryJournal() if request.param == "memory" else SQLiteJournal(tmp_path / "j.db")


def is_leased(journal: Journal) -> bool:
    row = journal.row("run")
    assert row is not None
    return row.expires > time.time()


def until(is_so: Callable[[], bool]) -> None:
    """Wait until something is so."""
    for _ in range(500):
        if is_so():
            return
        time.sleep(0.01)
    raise AssertionError("it never was")


def cancelled(vm: ExecutionVM, what: Any, seconds: float = 0.1) -> None:
    """Run a program in a task that is cancelled after a while."""

    async def caller() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(vm.run(what, run_id="run"), seconds)

    asyncio.run(caller())


@pytest.mark.parametrize("what", [ONCE, AGAIN, LIMITED], ids=["once", "again", "limited"])
def test_a_cancelled_caller_gives_the_lease_back_once_its_coroutine_has_ended(journal: Journal, what: Any) -> None:
    async def hangs() -> None:
        await asyncio.sleep(30)

    vm = unchecked({"write": hangs, "again": hangs}, journal=journal)
    cancelled(vm, what)
    until(lambda: not is_leased(journal))
    other = unchecked({"write": lambda: 1, "again": lambda: 1}, journal=journal)
    assert other.recover_sync("run")[0].status == ("SUCCESS" if what is AGAIN else "IN_DOUBT")


def test_it_is_given_back_at_once_where_the_loop_goes_on() -> None:
    async def hangs() -> None:
        await asyncio.sleep(30)

    journal = MemoryJournal()
    vm = unchecked({"write": hangs}, journal=journal)

    async def caller() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(vm.run(ONCE, run_id="run"), 0.05)
        assert not is_leased(journal)

    asyncio.run(caller())


class Gate:
    """A tool in a thread, which goes on until it is let."""

    def __init__(self) -> None:
        self.begun, self.goes_on = threading.Event(), threading.Event()
        self.effects: list[str] = []

    def __call__(self) -> int:
        self.begun.set()
        assert self.goes_on.wait(30)
        self.effects.append("done")
        return len(self.effects)


def test_a_cancelled_caller_keeps_it_as_long_as_a_tools_thread_runs(journal: Journal) -> None:
    gate = Gate()
    vm = unchecked({"write": gate}, journal=journal, lease_seconds=0.3)
    cancelled(vm, ONCE)
    other = unchecked({"write": gate}, journal=journal)
    for _ in range(10):  # longer than the lease lasts: it is renewed
        with pytest.raises(RunBusy):
            other.recover_sync("run")
        time.sleep(0.1)
    gate.goes_on.set()
    until(lambda: not is_leased(journal))
    assert other.recover_sync("run")[0].status == "IN_DOUBT", "what came of it nobody wrote down"
    assert gate.effects == ["done"]


def test_each_of_several_sub_steps_keeps_it() -> None:
    gates = {"write": Gate(), "again": Gate()}
    journal = MemoryJournal()
    vm = unchecked(gates, journal=journal)
    cancelled(vm, program(both("p", tool("a", "write"), tool("b", "again")), end()))
    for gate in gates.values():
        assert is_leased(journal)
        gate.goes_on.set()
        until(lambda gate=gate: gate.effects == ["done"])  # type: ignore[misc]
    until(lambda: not is_leased(journal))


def test_it_is_kept_no_longer_than_the_call_may_take() -> None:
    gate, journal = Gate(), MemoryJournal()
    cancelled(unchecked({"write": gate}, journal=journal), LIMITED)
    assert is_leased(journal)
    until(lambda: not is_leased(journal))
    assert gate.effects == []
    gate.goes_on.set()


def test_a_tool_that_only_reads_keeps_nothing() -> None:
    gate, journal = Gate(), MemoryJournal()
    cancelled(unchecked({"read": gate}, journal=journal), program(tool("a", "read"), end()))
    assert not is_leased(journal)
    gate.goes_on.set()


def test_a_coroutine_that_does_not_end_when_it_is_cancelled_keeps_it() -> None:
    journal, ended = MemoryJournal(), []

    async def refuses() -> None:
        try:
            await asyncio.sleep(30)
        finally:
            await asyncio.sleep(0.3)
            ended.append(is_leased(journal))

    vm = unchecked({"write": refuses}, journal=journal)

    async def caller() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(vm.run(program(tool("a", "write", timeout_seconds=20), end()), run_id="run"), 0.05)
        await asyncio.sleep(0.6)

    asyncio.run(caller())
    assert ended == [True]
    until(lambda: not is_leased(journal))


def test_ctrl_c_keeps_it_as_long_as_a_tools_thread_runs(journal: Journal) -> None:
    gate = Gate()
    vm = unchecked({"write": gate}, journal=journal)
    main = threading.get_ident()
    presses = threading.Timer(0.3, lambda: signal.pthread_kill(main, signal.SIGINT))
    presses.start()
    with pytest.raises(KeyboardInterrupt):
        vm.run_sync(ONCE, run_id="run")
    with pytest.raises(RunBusy):
        vm.recover_sync("run")
    gate.goes_on.set()
    until(lambda: not is_leased(journal))
    assert vm.recover_sync("run")[0].status == "IN_DOUBT"
    assert gate.effects == ["done"]


def test_ctrl_c_ends_what_was_awaited_with_a_time_limit_and_gives_it_back(journal: Journal) -> None:
    async def hangs() -> None:
        signal.raise_signal(signal.SIGINT)
        await asyncio.sleep(30)

    vm = unchecked({"write": hangs}, journal=journal)
    with pytest.raises(KeyboardInterrupt):
        vm.run_sync(program(tool("a", "write", timeout_seconds=20), end()), run_id="run")
    until(lambda: not is_leased(journal))


def test_who_ends_the_process_lets_go() -> None:
    gate, journal = Gate(), MemoryJournal()
    vm = unchecked({"write": gate}, journal=journal)
    cancelled(vm, ONCE)
    assert is_leased(journal)
    vm.let_go()
    assert not is_leased(journal)
    taken = unchecked({"write": gate}, journal=journal).journal.acquire("run", "somebody", time.time(), 60)
    gate.goes_on.set()
    until(lambda: gate.effects == ["done"])
    time.sleep(0.1)
    assert taken is not None
    assert is_leased(journal), "it is given back once, and not for somebody else"


def test_a_process_that_ends_in_good_order_lets_go(tmp_path: Path) -> None:
    code = f"""
import os, signal, threading, time
from stepward.vm import ExecutionVM, Program, SQLiteJournal
steps = [{{"id": "a", "type": "tool", "tool": "w"}}]
program = Program.from_dict({{"name": "p", "tools": {{"w": {{"effect": "write"}}}}, "steps": steps}})
vm = ExecutionVM({{"w": lambda: time.sleep(60)}}, journal=SQLiteJournal({str(tmp_path / "j.db")!r}), checker=None)
threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    vm.run_sync(program, run_id="run")
except KeyboardInterrupt:
    print("stopped")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert (done.stdout, done.stderr) == ("stopped\n", "")
    assert not is_leased(SQLiteJournal(tmp_path / "j.db"))


@pytest.mark.parametrize("asks", ["create", "acquire"])
def test_a_caller_that_is_cancelled_while_it_asks_for_a_lease_gives_it_back(asks: str, tmp_path: Path) -> None:
    class Slow(SQLiteJournal):
        def create(self, *args: Any) -> Any:
            lease = super().create(*args)
            time.sleep(0.2 * (asks == "create"))
            return lease

        def acquire(self, *args: Any) -> Any:
            lease = super().acquire(*args)
            time.sleep(0.2 * (asks == "acquire"))
            return lease

    journal = Slow(tmp_path / "j.db")
    vm = unchecked({"write": Suspend}, journal=journal)
    waits = program(tool("a", "write"), end(), tools={"write": {"effect": "write", "suspends": True}})

    async def caller() -> None:
        if asks == "acquire":
            await vm.run(waits, run_id="run")
        work = vm.run(waits, run_id="run") if asks == "create" else vm.recover("run")
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(work, 0.1)

    asyncio.run(caller())
    assert not is_leased(journal)


def test_a_lease_that_somebody_else_has_is_not_touched() -> None:
    gate, journal = Gate(), MemoryJournal()
    cancelled(unchecked({"write": gate}, journal=journal, lease_seconds=0.3), ONCE)
    taken = journal.acquire("run", "somebody", time.time() + 10, 3_600)
    assert taken is not None
    time.sleep(0.3)
    gate.goes_on.set()
    time.sleep(0.2)
    row = journal.row("run")
    assert row is not None
    assert row.expires == taken.expires


# -- what tools hand over may not end more than themselves -------------------------------------------------------------


class ExitsError(Exception):
    def __str__(self) -> str:
        raise SystemExit(3)


class Interrupts(dict[str, Any]):
    def items(self) -> Any:
        raise SystemExit(2)


class Pretends:
    @property
    def __class__(self) -> Any:
        raise SystemExit(4)


def raising(error: type[BaseException]) -> Callable[..., Any]:
    async def tool() -> None:
        raise error

    return tool


def giving(value: Any) -> Callable[..., Any]:
    return lambda: value


@pytest.mark.parametrize("limit", [{}, {"timeout_seconds": 5}], ids=["without a limit", "with one"])
@pytest.mark.parametrize(
    "make",
    [
        *[raising(error) for error in (SystemExit, asyncio.CancelledError, ExitsError)],
        giving(Interrupts(a=1)),
        giving([Interrupts(a=1)]),
        giving(Pretends()),
    ],
)
def test_what_a_tool_raises_or_gives_is_an_answer(make: Callable[..., Any], limit: Any) -> None:
    vm = unchecked({"read": make})
    run = vm.run_sync(program(tool("a", "read", **limit), end()), run_id="run")
    assert run.status == "FAILED"
    assert vm.get_sync("run").status == "FAILED"


class Stops(BaseException):
    """What a test framework raises to end a test: it is no answer of a tool."""


@pytest.mark.parametrize("error", [Stops, KeyboardInterrupt])
def test_what_ends_more_than_a_tool_passes_by(error: type[BaseException]) -> None:
    vm = unchecked({"read": raising(error)})
    with pytest.raises(error):
        vm.run_sync(program(tool("a", "read"), end()), run_id="run")
    assert vm.get_sync("run").status == "RUNNING"


def test_a_delivery_that_waits_for_the_lease_of_another_looks_ever_more_seldom() -> None:
    """It read the whole run fifty times a second, for as long as the lease lasted."""

    class Counting(MemoryJournal):
        reads = 0

        def read(self, run: str, *args: Any, **options: Any) -> Any:
            self.reads += 1
            return super().read(run, *args, **options)

    store, clock = Counting(), ManualClock()
    vm = ExecutionVM({"ask": Suspend}, journal=store, clock=clock, checker=None)
    waiting = vm.run_sync(program(tool("a", "ask"), end()), run_id="run")
    began = clock.now()
    assert store.acquire("run", "another", began / 1e6, 60.0) is not None
    store.reads = 0
    assert asyncio.run(vm.resume(waiting.suspensions[0].token, 1)).status == "SUCCESS"
    assert 60 <= (clock.now() - began) / 1e6 < 61, "half a second later than it could, at most"
    assert store.reads < 300
