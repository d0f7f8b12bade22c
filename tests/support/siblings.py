"""What tests of siblings need: tools that take time on a clock that never waits, and processes that are killed."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from random import Random
from typing import Any

from stepward.sabotage.drawn.mishaps import MortalStore
from stepward.sabotage.playing.points import Killed
from stepward.vm import ExecutionVM, MemoryJournal, Program, Run, ToolContext
from stepward.vm.machine.clock import ManualClock
from stepward.vm.machine.replay import replay
from stepward.vm.machine.state import Limits

UNLIMITED = Limits()


class Timed:
    """Tools that take some seconds each, on the clock of a loop that never really waits."""

    def __init__(self, seconds: dict[str, float], answer: str = "") -> None:
        self.seconds, self.answer = seconds, answer

    def has(self, name: str) -> bool:
        return bool(name)

    async def call(self, name: str, args: Any, context: ToolContext) -> Any:
        del name, args
        item = f"{context.step}/{context.frame[-1][3]}" if context.frame else ""
        await asyncio.sleep(self.seconds.get(item, self.seconds.get(context.step, 0)))
        return self.answer or context.step


class FastLoop(asyncio.SelectorEventLoop):
    """An event loop whose time jumps to the next timer."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0

    def time(self) -> float:
        return self.now

    def _run_once(self) -> None:
        if not self._ready and self._scheduled:  # type: ignore[attr-defined]
            self.now = max(self.now, self._scheduled[0].when())  # type: ignore[attr-defined]
        super()._run_once()  # type: ignore[misc]


def took(data: Program, seconds: dict[str, float], answer: str = "", limits: Limits = UNLIMITED) -> tuple[Run, float]:
    """Return the run of a program, and how many seconds it took; `seconds` are those of each step, and of each item as
    `step/item`."""
    loop, journal = FastLoop(), MemoryJournal()
    tools = Timed(seconds, answer)
    vm = ExecutionVM(tools, None, journal, checker=None, clock=ManualClock(), limits=limits)
    try:
        run = loop.run_until_complete(vm.run(data, {}, run_id="run"))
    finally:
        loop.close()
    played = replay(journal, "run")
    assert played is not None
    assert played.faults == ()
    return run, loop.now


class Paying:
    """Tools that count under which key each effect happened; some give up the processor first."""

    def __init__(self, chance: Random) -> None:
        self.chance = chance
        self.done: Counter[str] = Counter()
        self.keys: set[str] = set()

    def has(self, name: str) -> bool:
        return bool(name)

    async def call(self, name: str, args: Any, context: ToolContext) -> Any:
        del args
        for _ in range(self.chance.choice((0, 1, 4))):
            await asyncio.sleep(0)
        if name == "again" and context.idempotency_key not in self.keys:
            self.keys.add(context.idempotency_key)
            self.done[context.step] += 1
        return context.step


def killed(seed: int, data: Program, output: Any, effects: Counter[str]) -> int:
    """Kill processes at writes until a run has ended; return how many died.

    The run has to end with this output, and these effects, each with its number.
    """
    chance = Random(seed)
    journal, tools, clock = MemoryJournal(), Paying(chance), ManualClock()
    deaths = 0
    run: Run | None = None
    for number in itertools.count():
        store = MortalStore(journal, chance) if deaths < 3 else journal
        vm = ExecutionVM(tools, None, store, checker=None, clock=clock)
        try:
            if number == 0 or journal.head("run") is None:
                run = vm.run_sync(data, {}, run_id="run")
            else:
                found = asyncio.run(vm.recover())
                run = found[0] if found else vm.get_sync("run")
        except Killed:
            deaths += 1
            clock.time += 120_000_000
            continue
        if run.is_over:
            break
        clock.time += 120_000_000
    assert run is not None
    assert (run.status, run.output) == ("SUCCESS", output)
    assert tools.done == effects
    played = replay(journal, "run")
    assert played is not None
    assert played.faults == ()
    return deaths
