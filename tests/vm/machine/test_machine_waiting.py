"""The machine for callers without an event loop: what Ctrl-C does, whose handler it is, and that the loop is real."""

from __future__ import annotations

import asyncio
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from machines import TOOLS, program, tool, unchecked
from stepward.vm import ExecutionVM, MemoryJournal, SQLiteJournal
from stepward.vm.errors import StepwardError
from stepward.vm.journal.store import Lease
from stepward.vm.machine.waiting import notify_first_wait

pytestmark = pytest.mark.usefixtures("interrupted_by_default")

STEPS = program(tool("a", "read"), tool("b", "write"), tools=TOOLS)


def press() -> None:
    signal.raise_signal(signal.SIGINT)


def test_a_tool_finds_the_loop_and_the_task_that_it_would_find_anywhere() -> None:
    async def read() -> None:
        task = asyncio.current_task()
        assert task is not None
        assert task.get_loop() is asyncio.get_running_loop()
        async with asyncio.timeout(9):
            await asyncio.sleep(0)

    vm = unchecked({"read": read, "write": lambda: None})
    assert [vm.run_sync(STEPS).error for _ in range(2)] == ["", ""]


def test_ctrl_c_lets_the_tool_that_runs_come_to_an_await_and_keeps_what_was_done(tmp_path: Path) -> None:
    done: list[str] = []

    async def read() -> str:
        press()
        done.append("read")  # not cut off here
        await asyncio.sleep(60)
        return "never"

    journal = SQLiteJournal(tmp_path / "runs.db")
    vm = unchecked({"read": read, "write": done.append}, journal=journal)
    with pytest.raises(KeyboardInterrupt):
        vm.run_sync(STEPS, run_id="one")
    assert done == ["read"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    (row,) = journal.rows()
    assert (row.status, row.expires) == ("RUNNING", 0.0), "whoever recovers it need not wait for the lease"
    vm.tools = None  # type: ignore[assignment]
    other = unchecked({"read": lambda: "read", "write": lambda: "write"}, journal=journal)
    assert [run.status for run in other.recover_sync()] == ["SUCCESS"]
    journal.close()


def test_ctrl_c_is_notify_first_wait_though_nothing_is_awaited() -> None:
    async def read() -> None:
        press()

    journal = MemoryJournal()
    vm = unchecked({"read": read, "write": read}, journal=journal)
    with pytest.raises(KeyboardInterrupt):
        vm.run_sync(program(tool("a", "read"), tools=TOOLS))
    assert [row.status for row in journal.rows()] == ["SUCCESS"]


def test_a_second_ctrl_c_waits_for_nobody() -> None:
    async def read() -> None:
        press()
        press()
        raise AssertionError("the second one ends it at once")

    with pytest.raises(KeyboardInterrupt):
        unchecked({"read": read, "write": read}).run_sync(STEPS)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_process_that_two_ctrl_c_end_prints_nothing_more_of_it() -> None:
    code = """
import signal
from stepward.vm import ExecutionVM, Program

async def read():
    signal.raise_signal(signal.SIGINT)
    signal.raise_signal(signal.SIGINT)

steps = [{"id": "a", "type": "tool", "tool": "read"}]
program = Program.from_dict({"name": "p", "tools": {"read": {"effect": "read"}}, "steps": steps})
try:
    ExecutionVM({"read": read}, checker=None).run_sync(program)
except KeyboardInterrupt:
    print("stopped")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert (done.stdout, done.stderr) == ("stopped\n", "")


def test_ctrl_c_wakes_a_machine_that_waits_for_a_thread() -> None:
    is_waiting, goes_on = threading.Event(), threading.Event()

    def read() -> None:
        is_waiting.set()
        goes_on.wait(30)

    def press_when_it_sleeps() -> None:
        is_waiting.wait(30)
        time.sleep(0.5)  # a signal just before it sleeps wakes nobody, under `asyncio.Runner` neither
        signal.pthread_kill(main, signal.SIGINT)

    main, thread = threading.get_ident(), threading.Thread(target=press_when_it_sleeps)
    thread.start()
    before = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        unchecked({"read": read, "write": read}).run_sync(STEPS)
    assert time.monotonic() - before < 15
    goes_on.set()
    thread.join()


def test_a_handler_of_the_callers_stays() -> None:
    notify_first_wait_of: list[int] = []

    def mine(number: int, _: object) -> None:
        notify_first_wait_of.append(number)

    async def read() -> None:
        press()

    signal.signal(signal.SIGINT, mine)
    run = unchecked({"read": read, "write": lambda: None}).run_sync(STEPS)
    assert (run.status, notify_first_wait_of) == ("SUCCESS", [signal.SIGINT])
    assert signal.getsignal(signal.SIGINT) is mine


def test_a_handler_that_a_tool_sets_stays() -> None:
    def mine(*_: object) -> None: ...

    async def read() -> None:
        signal.signal(signal.SIGINT, mine)

    assert unchecked({"read": read, "write": lambda: None}).run_sync(STEPS).status == "SUCCESS"
    assert signal.getsignal(signal.SIGINT) is mine


def test_another_thread_than_the_main_one_has_no_handler_and_needs_none() -> None:
    vm, found = unchecked({"read": lambda: None, "write": lambda: None}), []
    thread = threading.Thread(target=lambda: found.append(vm.run_sync(STEPS).status))
    thread.start()
    thread.join()
    assert found == ["SUCCESS"]


class Counting(MemoryJournal):
    """Counts how often a lease was renewed."""

    def __init__(self) -> None:
        super().__init__()
        self.renewals = 0

    def renew(self, lease: Lease, now: float, ttl: float) -> Lease:
        self.renewals += 1
        return super().renew(lease, now, ttl)


@pytest.mark.parametrize("blocks", [True, False])
def test_a_lease_is_renewed_while_a_tool_is_awaited_however_long_nothing_was(blocks: bool) -> None:
    """What is due was due from the beginning: the loop got control late, and the lease does not last longer for it."""
    seen: list[int] = []

    async def read() -> None:
        time.sleep(0.25)  # the loop hears of nothing

    async def write() -> None:
        await asyncio.sleep(0.02)
        seen.append(journal.renewals)
        await asyncio.sleep(0.4)

    journal = Counting()
    journal.blocks = blocks
    vm = unchecked({"read": read, "write": write}, journal=journal, lease_seconds=0.6)
    assert vm.run_sync(STEPS).status == "SUCCESS"
    assert seen == [1], "at once, when something was awaited at last"
    assert journal.renewals > 1
    before = journal.renewals
    time.sleep(0.3)
    assert vm.run_sync(program(tool("a", "read"), tools=TOOLS)).status == "SUCCESS"
    assert journal.renewals == before, "nobody renews the lease of a run that is over"


# -- awaiting, and hearing of it ---------------------------------------------------------------------------------------


def test_what_awaits_nothing_is_not_notify_first_wait() -> None:
    async def nothing() -> int:
        return 5

    async def main() -> int:
        return await notify_first_wait(nothing(), lambda: pytest.fail("it did not wait"))

    assert asyncio.run(main()) == 5


def test_what_awaits_is_notify_first_wait_once_and_gets_answers_errors_and_cancellations() -> None:
    said: list[Any] = []

    async def work(future: asyncio.Future[int]) -> int:
        try:
            said.append(await future)
        except ValueError as error:
            said.append(str(error))
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            said.append("cancelled")
            await asyncio.sleep(0)
        return 5

    async def main(answer: int | ValueError) -> int:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[int] = loop.create_future()
        task = loop.create_task(notify_first_wait(work(future), lambda: said.append("waits")))  # type: ignore[arg-type]
        await asyncio.sleep(0)
        future.set_result(answer) if isinstance(answer, int) else future.set_exception(answer)
        for _ in range(3):
            await asyncio.sleep(0)
        task.cancel()
        return await task  # type: ignore[no-any-return]

    assert asyncio.run(main(1)) == 5
    assert asyncio.run(main(ValueError("two"))) == 5
    assert said == ["waits", 1, "cancelled", "waits", "two", "cancelled"]


@pytest.mark.parametrize("name", sorted(name for name in dir(ExecutionVM) if name.endswith("_sync")))
def test_a_form_without_a_loop_is_refused_at_once_where_one_runs(name: str) -> None:
    vm = unchecked({"read": lambda: 1, "write": lambda: 1})
    given: dict[str, tuple[Any, ...]] = {
        "run_sync": (STEPS,),
        "queue_sync": (STEPS,),
        "continue_run_sync": ("r", STEPS),
        "migration_sync": ("r", STEPS),
        "migrate_sync": ("r", STEPS),
        "recover_all_sync": (),
        "reconcile_sync": ("r", "a", "done"),
        "prunable_sync": (0.0,),
        "prune_sync": (0.0,),
    }

    async def asks() -> None:
        with pytest.raises(StepwardError, match="an event loop runs here: await the form without `_sync`"):
            getattr(vm, name)(*given.get(name, ("r",)))

    asyncio.run(asyncio.wait_for(asks(), 10))
    assert vm.journal.rows() == []


def test_ctrl_c_wakes_a_loop_that_goes_to_sleep() -> None:
    """One after Python's last instruction and before the sleep was noticed only when something else woke the loop.

    That was so for 38 and 58 of 20,000 presses at random times, and for none of 40,000 since signals wake the loop.
    """
    found: list[int] = []

    async def read() -> int:
        await asyncio.sleep(0)
        found.append(signal.set_wakeup_fd(-1))
        signal.set_wakeup_fd(found[-1])
        return 1

    vm = unchecked({"read": read, "write": read})
    vm.run_sync(program(tool("a", "read"), tools=TOOLS))
    assert (len(found), found[0] != -1, signal.set_wakeup_fd(-1)) == (1, True, -1)
    with socket.socket() as theirs:
        theirs.setblocking(False)
        signal.set_wakeup_fd(theirs.fileno())
        vm.run_sync(program(tool("a", "read"), tools=TOOLS))
        assert found[1] == signal.set_wakeup_fd(-1) == theirs.fileno(), "a loop of the caller gets its signals"
    signal.signal(signal.SIGINT, lambda *_: None)
    vm.run_sync(program(tool("a", "read"), tools=TOOLS))
    assert found[2] == -1, "the handler is not ours"
