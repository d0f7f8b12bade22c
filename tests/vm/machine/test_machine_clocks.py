"""Fast: clocks before 1970 and far ahead, clocks that jump by years, and leases that such clocks have given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from machines import program, tool, unchecked
from stepward.vm import ExecutionVM, MemoryJournal, RunBusy, SQLiteJournal, Suspend
from stepward.vm.journal.store import Journal
from stepward.vm.journal.verify import verify
from stepward.vm.machine.clock import ManualClock

YEAR = 365 * 86_400 * 1_000_000
WAITS = program(tool("w", "write"), tool("s", "ask"), tool("x", "write"))


def machine(journal: Journal, clock: ManualClock, write: Callable[[], Any] = lambda: 1) -> ExecutionVM:
    return unchecked({"write": write, "ask": lambda: Suspend("who?")}, journal=journal, clock=clock)


@pytest.fixture(params=["memory", "sqlite"])
def journal(request: pytest.FixtureRequest, tmp_path: Any) -> Any:
    store: Any = MemoryJournal() if request.param == "memory" else SQLiteJournal(tmp_path / "runs.db")
    yield store
    store.close()


@pytest.mark.parametrize("start", [-(10**15), -1, 0, 2**53 - 3, 2**53, 10**20])
def test_whatever_the_clock_says_a_run_goes_on_and_its_journal_is_whole(journal: Journal, start: int) -> None:
    vm = machine(journal, ManualClock(start))
    waits = vm.run_sync(WAITS, run_id="r")
    ended = vm.resume_sync(waits.suspensions[0].token, 1)
    assert ended.status == "SUCCESS"
    assert verify(journal, "r").faults == ()
    assert vm.recover_sync() == []


@pytest.mark.parametrize("years", [-100, -10, 10, 300])
def test_a_clock_that_jumps_while_a_tool_runs_changes_nothing(journal: Journal, years: int) -> None:
    clock = ManualClock()

    def write() -> None:
        clock.time += years * YEAR

    vm = machine(journal, clock, write)
    ended = vm.resume_sync(vm.run_sync(WAITS, run_id="r").suspensions[0].token, 1)
    assert ended.status == "SUCCESS"
    assert verify(journal, "r").faults == ()


def stranded(journal: Journal, clock: ManualClock) -> ExecutionVM:
    """Have a machine die whose clock is ten years ahead; return one with the right clock."""
    machine(journal, ManualClock(clock.time + 10 * YEAR)).run_sync(WAITS, run_id="r")
    held = journal.acquire("r", "the dead", (clock.time + 10 * YEAR) / 1e6, 60.0)
    assert held is not None
    return machine(journal, clock)


def test_a_lease_of_a_clock_that_was_ahead_is_said_and_passed_over_for_who_names_the_run(journal: Journal) -> None:
    clock = ManualClock()
    vm = stranded(journal, clock)
    token = vm.get_sync("r").suspensions[0].token
    with pytest.raises(RunBusy, match=r"lasts 3,650 more days by this clock: .*recover the run by its name"):
        vm.resume_sync(token, 1)
    with pytest.raises(RunBusy, match="erase it when that has ended"):
        vm.erase_sync("r")
    assert vm.recover_sync() == []
    (ended,) = vm.recover_sync("r")
    assert ended.status == "CANCELLED", "the erasure had asked for it"
    assert vm.erase_sync("r").is_over


def test_after_that_the_lease_is_one_of_this_clock(journal: Journal) -> None:
    clock = ManualClock()
    vm = stranded(journal, clock)
    (waits,) = vm.recover_sync("r")
    assert waits.status == "SUSPENDED"
    assert vm.resume_sync(waits.suspensions[0].token, 1).status == "SUCCESS"
    assert verify(journal, "r").faults == ()


def test_an_honest_lease_is_not_passed_over(journal: Journal) -> None:
    clock = ManualClock()
    vm = machine(journal, clock)
    vm.run_sync(WAITS, run_id="r")
    assert journal.acquire("r", "alive", clock.time / 1e6, 86_000.0) is not None
    with pytest.raises(RunBusy, match="somebody else drives run `r`"):
        vm.recover_sync("r")


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf"), 86_401])
def test_a_lease_is_a_time_of_a_day_at_most(seconds: float) -> None:
    with pytest.raises(ValueError, match="`lease_seconds` is a number of seconds above 0, and 86,400 at most"):
        unchecked({}, lease_seconds=seconds)
