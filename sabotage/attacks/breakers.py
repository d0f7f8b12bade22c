"""Load on tools that fail: their breakers open, hold runs, and are closed again, in any order."""

from __future__ import annotations

import asyncio
from collections import Counter
from random import Random
from typing import Any, Final

from stepward.sabotage.attack import Attack, Family
from stepward.sabotage.invariants import Invariant, Outcome
from stepward.sabotage.playing.case import Case
from stepward.sabotage.playing.virtual_time import VirtualClock, virtual_time
from stepward.vm.journal.memory import MemoryJournal
from stepward.vm.journal.store import Switch
from stepward.vm.language.program import Program
from stepward.vm.machine.execution import ExecutionVM
from stepward.vm.machine.tools import InDoubt, ToolError

TOOLS: Final = ("get", "get_all")
PROGRAMS: Final = (*TOOLS, "outer")
"""A program for each tool, of its name, and one that calls the program of the first tool."""

FAILURES: Final = ("odd error", "late", "in doubt")
ANSWERS: Final = ("good", "declared error", *FAILURES, *FAILURES)
MOVES: Final = (*["run"] * 8, "open", "close", "close", "cancel")
MOST_MOVES: Final = 40

_CALL: Final = {"id": "one", "type": "tool", "timeout_seconds": 1, "on_error": "skip"}


def _programs() -> dict[str, Program]:
    facts = {name: {"effect": "read", "errors": ["Declined"]} for name in TOOLS}
    found: dict[str, dict[str, Any]] = {
        name: {"name": name, "language": 2, "inputs": {}, "tools": facts, "steps": [{**_CALL, "tool": name}]}
        for name in TOOLS
    }
    inner = {name: value for name, value in found[TOOLS[0]].items() if name not in ("language", "tools")}
    steps = [{"id": "in", "type": "call", "program": TOOLS[0]}]
    outer: dict[str, Any] = {**found[TOOLS[0]], "name": "outer", "programs": {TOOLS[0]: inner}, "steps": steps}
    return {name: Program.from_dict(data) for name, data in (*found.items(), ("outer", outer))}


class _World:
    """Tools that answer as they are told, and count their calls."""

    def __init__(self) -> None:
        self.answer = "good"
        self.called: Counter[str] = Counter()

    def has(self, name: str) -> bool:
        """Return True: there is every tool."""
        return bool(name)

    async def call(self, name: str, args: Any, context: Any) -> Any:
        """Answer a call."""
        del args, context
        self.called[name] += 1
        match self.answer:
            case "declared error":
                raise ToolError("Declined", "no")
            case "odd error":
                raise RuntimeError("it broke")
            case "late":
                await asyncio.sleep(9)
            case "in doubt":
                raise InDoubt("nobody knows")
        return 1


class BreakersSwitched(Attack):
    """Tools fail again and again, or almost. Their breakers open by themselves or by hand, hold the runs that come to
    them, and are closed. A plain model counts, and says which calls are made."""

    family = Family.LOAD
    surface = "tools that fail in a row"
    action = "as often as a breaker allows, and once more; breakers opened and closed by hand"
    invariant = Invariant.BOUNDS
    defence = "a machine counts failures in a row, and whoever comes to an open breaker is held until it is closed"
    severity = "high"
    weight = 4
    draws = True

    def play(self, case: Case) -> Outcome:
        """Compare each move with the model."""
        chance = Random(f"breakers {case.seed()}")
        with virtual_time(case) as clock:
            whole = _Model(case, clock, chance.choice((1, 2, 3)))
            for _ in range(MOST_MOVES):
                whole.move(chance)
        return Outcome.ABSORBED


class _Model:
    """A machine on a store, and a model of its breakers: failures in a row, what is open, and who is held by what."""

    def __init__(self, case: Case, clock: VirtualClock, most: int) -> None:
        self.case = case
        self.clock = clock
        self.world, self.store, self.programs = _World(), MemoryJournal(), _programs()
        self.most = most
        self.failures: Counter[str] = Counter()
        self.open: set[str] = set()
        self.held: dict[str, tuple[str, str]] = {}
        """The program and the breaker of each run that is held."""
        self._renew()

    def _renew(self) -> None:
        """Start another process: it counts anew, and asks the store which breakers are open."""
        options = {"breaks_after": self.most, "clock": self.clock, "random": self.case.random}
        self.machine = ExecutionVM(
            self.world, journal=self.store, checker=None, **{**options, **self.case.weakness.options}
        )
        self.failures.clear()

    def move(self, chance: Random) -> None:
        """Make a move, and compare."""
        match chance.choice(MOVES):
            case "run":
                self._run(chance.choice(PROGRAMS), chance.choice(ANSWERS))
            case "cancel" if self.held:
                self._cancel(chance.choice(sorted(self.held)))
            case "open":
                self._switch(
                    chance.choice([f"tool:{name}" for name in TOOLS] + [f"program:{name}" for name in PROGRAMS])
                )
            case _ if self.open:
                self._close(chance.choice(sorted(self.open)), by_another=chance.random() < 0.5)
        self.case.hold(self.store.opened() == self.open, Invariant.BOUNDS, f"open are {sorted(self.store.opened())}")

    def _breaker_of(self, program: str) -> str | None:
        """Return an open breaker that a program comes to."""
        tool = TOOLS[0] if program == "outer" else program
        asked = [f"tool:{tool}", f"program:{program}", f"program:{tool}"]
        return next((name for name in asked if name in self.open), None)

    def _run(self, program: str, answer: str) -> None:
        case, run = self.case, self.case.run_id()
        case.act(f"run `{program}`, where the tool is {answer}; {self.most} failures open a breaker")
        tool, breaker = TOOLS[0] if program == "outer" else program, self._breaker_of(program)
        self.world.answer, before = answer, self.world.called[tool]
        found = case.do(self.machine.run(self.programs[program], {}, run_id=run))
        self._hold_called(tool, before, breaker is None)
        if breaker is not None:
            is_held = found.held_by in self.open and not found.is_over
            case.hold(is_held, Invariant.BOUNDS, f"a run that comes to an open breaker is {found.status}")
            self.held[run] = program, str(found.held_by)
            return
        case.hold(found.is_over, Invariant.KEPT, f"a run that comes to no open breaker is {found.status}")
        self._count(tool, answer)

    def _count(self, tool: str, answer: str) -> None:
        self.failures[tool] = self.failures[tool] + 1 if answer in FAILURES else 0
        if self.failures[tool] >= self.most:
            self.failures[tool] = 0
            self.open.add(f"tool:{tool}")

    def _hold_called(self, tool: str, before: int, is_due: bool) -> None:
        count = self.world.called[tool] - before
        self.case.hold(count == is_due, Invariant.BOUNDS, f"`{tool}` was called {count} times; open: {self.open}")

    def _cancel(self, run: str) -> None:
        self.case.act("cancel a run that is held")
        before = sum(self.world.called.values())
        found = self.case.do(self.machine.cancel(run))
        self.case.hold(found.status == "CANCELLED", Invariant.ENDINGS, f"a run that was cancelled is {found.status}")
        self.case.hold(before == sum(self.world.called.values()), Invariant.ENDINGS, "a cancelled run calls a tool")
        del self.held[run]

    def _switch(self, name: str) -> None:
        self.case.act(f"somebody opens `{name}`")
        self.store.switch(Switch(name, True, self.clock.now() / 1e6, "", "ann"))
        self.open.add(name)
        self._renew()

    def _close(self, name: str, *, by_another: bool) -> None:
        """Close a breaker. Who was held by it goes on, perhaps to the next one; who is held by another one does not."""
        case = self.case
        case.act(
            f"somebody closes `{name}`, and {'another' if by_another else 'the same'} process takes up what is due"
        )
        self.store.switch(Switch(name, False, self.clock.now() / 1e6, "", "ann"))
        self.open.remove(name)
        if by_another:
            self._renew()
        self.world.answer, before = "good", Counter(self.world.called)
        freed = {run: program for run, (program, by) in self.held.items() if by == name}
        going = [
            TOOLS[0] if program == "outer" else program for program in freed.values() if not self._breaker_of(program)
        ]
        found = {lease.run: case.do(self.machine.go_on(lease)) for lease in case.do(self.machine.claim(MOST_MOVES))}
        said = f"{len(found)} runs went on of {len(freed)} that were held by it"
        case.hold(found.keys() == freed.keys(), Invariant.KEPT, said)
        self.failures.subtract({tool: self.failures[tool] for tool in going})  # each of these calls succeeds
        called = Counter(self.world.called)
        called.subtract(before)
        case.hold(+called == Counter(going), Invariant.KEPT, f"runs that were held called {dict(called)}, not {going}")
        for run, program in freed.items():
            if self._breaker_of(program):
                self.held[run] = program, str(found[run].held_by)
            else:
                del self.held[run]
