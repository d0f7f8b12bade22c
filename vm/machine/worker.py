"""A worker claims the runs of a store that are due, and drives each until it stops. Any number may share a store."""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from stepward.vm.errors import StepwardError
from stepward.vm.journal.store import JournalError, Lease
from stepward.vm.machine.claims import Claims
from stepward.vm.machine.history import History
from stepward.vm.machine.refusals import NotEquipped, RunRefused
from stepward.vm.machine.run import Run

LONGEST_PAUSE: Final = 30.0
"""The longest time between two tries to reach a store that fails, in seconds."""

AGAIN: Final = 60.0
"""Seconds after which a run that could not be driven for a reason that may pass is tried again."""

COUNTING: Final = 15.0
"""Seconds between two counts of the runs that are due."""

MOST_PASSED: Final = 10_000
"""Maximal number of runs that a worker remembers to pass over; the one passed over first is tried again."""

Say = Callable[[str, Mapping[str, Any]], None]
"""Is told what a worker does: an event, and fields that hold no values of runs."""


class LeftAlone(StepwardError):  # noqa: N818 - a normal outcome, not a fault
    """A run is left alone; `why` is the word for the reason in logs and metrics."""

    def __init__(self, why: str) -> None:
        super().__init__(f"the run is left alone: {why}")
        self.why = why


class Pace(NamedTuple):
    """How a worker works: runs at once, seconds between two looks at the store, seconds that calls have at the end."""

    at_once: int = 4
    poll: float = 1.0
    grace: float = 30.0


class _Passed(NamedTuple):
    seq: int
    until: float | None


class Counts:
    """What a worker has done since its start; read by other threads.

    `taken` counts runs that it claimed and went on with, `stopped` those that it let go, by their status then, `left`
    those that it left alone, by reason, `lost` those that others took over meanwhile, and `failures` the claims for
    which the store could not be used. `driven` is the number of runs under way; `due` that of runs that are due and
    driven by nobody, by the name of their program; `seen` is the time of the last claim, monotonic, None before.
    """

    def __init__(self) -> None:
        self.taken = 0
        self.lost = 0
        self.failures = 0
        self.driven = 0
        self.stopped: Counter[str] = Counter()
        self.left: Counter[str] = Counter()
        self.due: dict[str, int] = {}
        self.seen: float | None = None


class Worker:
    """Drives the runs of a store with a machine.

    `programs` has the digests of the programs whose runs it drives, by name; the runs of others are left alone, counted
    and said once. `say` is told what happens.
    """

    def __init__(
        self,
        machine: Claims,
        programs: Mapping[str, frozenset[str]],
        say: Say,
        pace: Pace = Pace(),  # noqa: B008
    ) -> None:
        self.counts = Counts()
        self._machine = machine
        self._programs = programs
        self._say = say
        self._pace = pace
        self._tasks: set[asyncio.Task[None]] = set()
        self._passed: OrderedDict[str, _Passed] = OrderedDict()
        self._named: set[str] = set()
        self._counted: float | None = None

    async def work(self, stop: asyncio.Event, *, once: bool = False) -> None:
        """Work until `stop` is set, or with `once` until nothing is due any more.

        At the end the calls under way come back for as long as the pace allows; then they are interrupted. A store that
        can't be used is tried again; with `once` JournalError is raised.
        """
        self._machine.stop_with(stop)
        stopping = asyncio.ensure_future(stop.wait())
        try:
            await self._claim_and_drive(stop, stopping, once=once)
        finally:
            stopping.cancel()
            await self._finish()

    async def _claim_and_drive(self, stop: asyncio.Event, stopping: asyncio.Future[Any], *, once: bool) -> None:
        failed = 0
        while not stop.is_set():
            pause = self._pace.poll
            free = self._pace.at_once - len(self._tasks)
            try:
                claimed = await self._claimed(free) if free else []
                failed = 0
            except JournalError:
                self._note_failure(failed)
                if once:
                    raise
                claimed, failed = [], failed + 1
                pause = min(self._pace.poll * 2.0**failed, LONGEST_PAUSE)
            for lease in claimed:
                self._start(lease)
            if len(claimed) == free and free:
                continue
            if once and not self._tasks:
                return
            # A run that has stopped leaves room for the next one.
            await asyncio.wait({*self._tasks, stopping}, timeout=pause, return_when=asyncio.FIRST_COMPLETED)

    def _note_failure(self, failed: int) -> None:
        self.counts.failures += 1
        if not failed:
            self._say("store_failed", {})

    async def _claimed(self, free: int) -> list[Lease]:
        loop = asyncio.get_running_loop()
        await self._count()
        claimed = await self._machine.claim(free, self._programs.keys(), self._still_passed())
        self.counts.seen = loop.time()
        return claimed

    async def _count(self) -> None:
        """Count the runs that are due, now and then, and name the programs of those that are left alone."""
        now = asyncio.get_running_loop().time()
        if self._counted is not None and now < self._counted + COUNTING:
            return
        self.counts.due = await self._machine.due()
        self._counted = now
        for name in sorted(self.counts.due.keys() - self._programs.keys() - self._named):
            self._named.add(name)
            self._say("left", {"program": name, "why": "program", "runs": self.counts.due[name]})

    # -- one run -------------------------------------------------------------------------------------------------------

    def _start(self, lease: Lease) -> None:
        self.counts.driven += 1
        task = asyncio.get_running_loop().create_task(self._drive(lease))
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self.counts.driven -= 1

    async def _drive(self, lease: Lease) -> None:
        """Drive a claimed run until it stops; an error of one run is said, and ends nothing else."""
        began: list[History] = []

        async def require(found: History) -> None:
            began.append(found)
            if await self._machine.version(found) not in self._programs.get(found.plan.program.name, ()):
                raise LeftAlone("version")
            self.counts.taken += 1
            self._say("taken", {"run": lease.run, "program": found.plan.program.name, "fence": lease.fence})

        try:
            run = await self._machine.go_on(lease, require)
        except LeftAlone as error:
            await self._pass_over(lease, began, error.why)
        except NotEquipped:
            await self._pass_over(lease, began, "tools", AGAIN)
        except RunRefused:
            await self._pass_over(lease, began, "refused", AGAIN)
        except JournalError:
            await self._pass_over(lease, began, "journal", AGAIN)
        except Exception as error:  # nothing that a tool or a store does may end the worker
            await self._pass_over(lease, began, type(error).__name__, AGAIN)
        else:
            await self._note_stop(lease, began, run)

    async def _note_stop(self, lease: Lease, began: list[History], run: Run) -> None:
        """Say where a run stands that was driven."""
        fields = {"run": run.id, "program": run.program, "status": run.status, "records": run.seq + 1}
        is_due = run.due is not None and run.due <= self._machine.clock.now() / 1e6
        if run.status == "RUNNING" and is_due and run.held_by is None and not self._machine.is_stopping:
            self.counts.lost += 1
            self._say("lost", fields)
            return
        self.counts.stopped[run.status] += 1
        self._say("stopped", fields)
        if run.held_by is not None:
            self._say("held", {"run": run.id, "breaker": run.held_by})
        elif not run.is_over and began and run.seq == began[-1].last.seq and not self._machine.is_stopping:
            # Its row says that it is due, and it is not: a process of an older version has written it.
            await self._pass_over(lease, began, "nothing")

    # -- what is passed over -------------------------------------------------------------------------------------------

    async def _pass_over(self, lease: Lease, began: list[History], why: str, seconds: float | None = None) -> None:
        """Pass over a run until it has other records, or for some seconds; the first time, say why."""
        try:
            seq = await self._machine.last_seq(lease.run)
        except JournalError:  # the next claim says so
            return
        is_new = lease.run not in self._passed
        until = None if seconds is None else asyncio.get_running_loop().time() + seconds
        self._passed[lease.run] = _Passed(seq, until)
        self._passed.move_to_end(lease.run)
        while len(self._passed) > MOST_PASSED:
            self._passed.popitem(last=False)
        if is_new:
            self.counts.left[why] += 1
            program = {"program": began[-1].plan.program.name} if began else {}
            self._say("left", {"run": lease.run, **program, "why": why})

    def _still_passed(self) -> dict[str, int]:
        now = asyncio.get_running_loop().time()
        return {run: one.seq for run, one in self._passed.items() if one.until is None or now < one.until}

    # -- the end -------------------------------------------------------------------------------------------------------

    async def _finish(self) -> None:
        """Let calls under way come back, and interrupt them when the time for that is over."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=self._pace.grace)
        left = set(self._tasks)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
