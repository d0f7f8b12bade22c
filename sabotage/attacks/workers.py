"""Time: workers claim the runs of a store, drive as many at once as they may, and are stopped."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from functools import cache
from random import Random
from typing import Any, Final

from stepward.sabotage.attack import Attack, Family
from stepward.sabotage.invariants import Breach, Invariant, Outcome
from stepward.sabotage.playing.case import Case
from stepward.sabotage.playing.virtual_time import VirtualClock, virtual_time
from stepward.vm.journal.memory import MemoryJournal
from stepward.vm.journal.store import Lease
from stepward.vm.language.program import Program
from stepward.vm.machine.execution import ExecutionVM
from stepward.vm.machine.plan import Plan
from stepward.vm.machine.tools import ToolContext
from stepward.vm.machine.worker import Pace, Worker

KINDS: Final = ("driven", "driven", "driven", "driven", "another version", "without tools", "of nobody")
MOST_CLAIMS: Final = 300
LONGEST: Final = 3.0
"""Seconds of the longest call; a worker gives calls more time than that when it is stopped."""


class _Counted(MemoryJournal):
    """A store that is not asked for runs for ever."""

    claims = 0

    def claim(self, *args: Any) -> list[Lease]:
        """Lease runs that are due."""
        self.claims += 1
        if self.claims > MOST_CLAIMS:
            raise Breach(Invariant.BOUNDS, f"workers ask {MOST_CLAIMS} times for a few runs")
        return super().claim(*args)


@cache
def _programs() -> dict[str, Program]:
    """Return a program for each kind of run: two of them have one name."""

    def program_of(name: str, tool: str, *more: str) -> Program:
        steps = [{"id": step, "type": "tool", "tool": tool} for step in ("one", "two", *more)]
        tools = {tool: {"effect": "write"}}
        return Program.from_dict({"name": name, "tools": tools, "steps": steps})

    return {
        "driven": program_of("parcels", "book"),
        "another version": program_of("parcels", "book", "three"),
        "without tools": program_of("letters", "missing"),
        "of nobody": program_of("others", "book"),
    }


class _World:
    """A tool that takes a while. It notes its calls, and the most runs in which one was under way at a time."""

    def __init__(self, clock: VirtualClock, chance: Random) -> None:
        self.clock, self.chance = clock, chance
        self.calls: list[tuple[str, str, int]] = []
        self.done: Counter[tuple[str, str]] = Counter()
        self.under_way: set[str] = set()
        self.most = 0

    def has(self, name: str) -> bool:
        """Return whether there is a tool."""
        return name != "missing"

    async def call(self, name: str, args: Mapping[str, Any], context: ToolContext) -> int:
        """Take a while."""
        del name, args
        self.calls.append((context.run, context.step, self.clock.now()))
        self.under_way.add(context.run)
        self.most = max(self.most, len(self.under_way))
        await asyncio.sleep(self.chance.choice((0.0, 0.5, LONGEST)))
        self.under_way.discard(context.run)
        self.done[context.run, context.step] += 1
        return 1


class WorkersStopped(Attack):
    """Workers share a store with runs of their programs, of other versions and programs, and without tools. They are
    stopped in the midst, or when nothing is due any more, and others come after them."""

    family = Family.TIME
    surface = "workers of a store"
    action = "with runs that are not theirs, few at a time, and stopped in the midst"
    invariant = Invariant.DRIVER
    defence = (
        "a worker takes the runs of its versions in their order, as many at once as it may, and no call after its stop"
    )
    severity = "high"
    weight = 2
    draws = True

    def play(self, case: Case) -> Outcome:
        """Let workers work in turns, and compare what was called with what they had to do."""
        chance = Random(f"workers {case.seed()}")
        with virtual_time(case) as clock:
            yard = _QueuedRuns(case, clock, chance)
            yard.queue()
            if chance.random() < 0.7:
                yard.work(chance.choice((1, 2)), stop=chance.choice((0.2, 2.0, 4.0, 6.5)))
            yard.work(chance.choice((1, 1, 2)), stop=None)
            yard.judge()
        return Outcome.ABSORBED


class _QueuedRuns:
    """A store, its runs by their kind in the order in which they were queued, and the tools of the workers."""

    def __init__(self, case: Case, clock: VirtualClock, chance: Random) -> None:
        self.case, self.clock, self.chance = case, clock, chance
        self.store = _Counted()
        self.world = _World(clock, chance)
        self.runs: dict[str, str] = {}

    def machine(self) -> ExecutionVM:
        """Return the machine of a process."""
        return self.case.machine(self.world, None, self.store, clock=self.clock)

    def queue(self) -> None:
        """Queue runs, each later than the one before."""
        for number in range(self.chance.randint(4, 8)):
            kind, run = self.chance.choice(KINDS), f"r{number}"
            self.case.act(f"queue `{run}`, which is {kind}")
            self.case.do(self.machine().queue(_programs()[kind], run_id=run))
            self.runs[run] = kind
            self.clock.time += 1

    def work(self, count: int, *, stop: float | None) -> None:
        """Let so many workers work beside each other, until a time, or until nothing is due."""
        case, at_once = self.case, self.chance.choice((1, 2, 3))
        case.act(f"{count} workers with {at_once} runs at once are stopped after {stop} seconds")
        self.world.most, before = 0, len(self.world.calls)
        began = self.clock.now()
        log, workers = case.do(self._beside(count, at_once, stop))
        calls = self.world.calls[before:]
        case.hold(self.world.most <= count * at_once, Invariant.BOUNDS, f"{self.world.most} runs are driven at once")
        case.hold(not self.world.under_way, Invariant.KEPT, f"{self.world.under_way} are under way after the end")
        if stop is not None:
            late = [call for call in calls if call[2] > began + stop * 1e6]
            case.hold(not late, Invariant.DRIVER, f"calls start after the stop: {late}")
        if count == 1:
            self._hold_told(log, workers[0], {call[0] for call in calls}, is_whole=stop is None)
        firsts = [run for run, step, _ in calls if step == "one"]
        in_order = firsts == sorted(firsts) if count == 1 else sorted(set(firsts)) == sorted(firsts)
        case.hold(in_order, Invariant.DRIVER, f"runs are begun in this order: {firsts}")
        leased = [
            row.run for row in self.store.rows() if row.expires > self.clock.now() / 1e6 and row.status == "RUNNING"
        ]
        case.hold(not leased, Invariant.DRIVER, f"{leased} are still leased to workers that have ended")

    async def _beside(self, count: int, at_once: int, stop: float | None) -> tuple[list[tuple[str, Any]], list[Worker]]:
        event, log = asyncio.Event(), list[tuple[str, Any]]()
        versions = {one.name: frozenset({Plan(one).digest}) for one in map(_programs().get, WANTED) if one is not None}
        workers = [
            Worker(self.machine(), versions, lambda what, how: log.append((what, how)), Pace(at_once, 1.0, 9.0))
            for _ in range(count)
        ]
        if stop is not None:
            asyncio.get_running_loop().call_later(stop, event.set)
        await asyncio.gather(*(worker.work(event, once=stop is None) for worker in workers))
        return log, workers

    def _hold_told(self, log: list[tuple[str, Any]], worker: Worker, driven: set[str], *, is_whole: bool) -> None:
        """Check what a worker counts and says: each of its runs is taken once, and each other one left once."""
        case, counts = self.case, worker.counts
        runs_taken = [how["run"] for what, how in log if what == "taken"]
        case.hold(
            len(runs_taken) == len(set(runs_taken)) == counts.taken,
            Invariant.HISTORY,
            f"{counts.taken} taken: {runs_taken}",
        )
        case.hold(driven <= set(runs_taken), Invariant.HISTORY, f"{driven} are driven, and {runs_taken} taken")
        left = sorted((how["run"], how["why"]) for what, how in log if what == "left" and "run" in how)
        due = {"another version": "version", "without tools": "tools"}
        expected = sorted((run, due[kind]) for run, kind in self.runs.items() if kind in due)
        is_told = left == expected if is_whole else set(left) <= set(expected) and len(set(left)) == len(left)
        case.hold(is_told, Invariant.HISTORY, f"{left} are left alone, and not {expected}")
        counted = sorted(counts.left.elements()) == sorted(why for _, why in left) and counts.driven == 0
        case.hold(counted, Invariant.HISTORY, f"{dict(counts.left)} are counted as left, {counts.driven} as driven")
        stopped = [how["status"] for what, how in log if what == "stopped"]
        case.hold(Counter(stopped) == counts.stopped, Invariant.HISTORY, f"{dict(counts.stopped)} have stopped")

    def judge(self) -> None:
        """Check that each run of the workers has succeeded, with each call made once, and that no other has begun."""
        case = self.case
        driven = [run for run, kind in self.runs.items() if kind == "driven"]
        status = {row.run: row.status for row in self.store.rows()}
        due = {run: "SUCCESS" if kind == "driven" else "RUNNING" for run, kind in self.runs.items()}
        case.hold(status == due, Invariant.KEPT, f"the runs are {status}, and not {due}")
        calls = Counter((run, step) for run, step, _ in self.world.calls)
        expected = Counter((run, step) for run in driven for step in ("one", "two"))
        case.hold(calls == expected, Invariant.ONCE, f"the calls are {dict(calls)}")


WANTED: Final = ("driven", "without tools")
"""The programs of the workers."""
