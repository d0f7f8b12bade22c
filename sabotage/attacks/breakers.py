"""Load on tools that fail: their breakers open, hold runs, and are closed again, in any order and amid calls."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from functools import cache
from random import Random
from typing import Any, Final, TypeVar

from stepward.sabotage.attack import Attack, Family
from stepward.sabotage.invariants import Breach, Invariant, Outcome
from stepward.sabotage.operations.stores import Files
from stepward.sabotage.playing.case import Case
from stepward.sabotage.playing.every_tool import EveryTool
from stepward.sabotage.playing.virtual_time import VirtualClock, virtual_time
from stepward.vm.journal.memory import MemoryJournal
from stepward.vm.journal.store import Journal, Switch
from stepward.vm.language.program import Program
from stepward.vm.machine.execution import ExecutionVM
from stepward.vm.machine.models import ModelReply, ModelRequest
from stepward.vm.machine.run import Run
from stepward.vm.machine.tools import InDoubt, ToolContext, ToolError

T = TypeVar("T")

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


class _World(EveryTool):
    """Tools that answer as they are told, and a model; they count their calls."""

    def __init__(self) -> None:
        self.answer = "good"
        self.called: Counter[str] = Counter()

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Say something."""
        del request
        self.called["a model"] += 1
        return ModelReply("well")

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
        self.machine = self.case.machine(self.world, journal=self.store, breaks_after=self.most, clock=self.clock)
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
        names = [f"tool:{tool}", f"program:{program}", f"program:{tool}"]
        return next((name for name in names if name in self.open), None)

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
        message = f"{len(found)} runs went on of {len(freed)} that were held by it"
        case.hold(found.keys() == freed.keys(), Invariant.KEPT, message)
        self.failures.subtract({tool: self.failures[tool] for tool in going})  # each of these calls succeeds
        called = Counter(self.world.called)
        called.subtract(before)
        case.hold(+called == Counter(going), Invariant.KEPT, f"runs that were held called {dict(called)}, not {going}")
        for run, program in freed.items():
            if self._breaker_of(program):
                self.held[run] = program, str(found[run].held_by)
            else:
                del self.held[run]


WRITES: Final = ("pay", "ship")
TWO: Final = "two at once"
RULED: Final = "one after another, under a rule"
MOST_ASKED: Final = 300
PLACES: Final = 6
"""The calls of writes of each program below."""


def _write(name: str, tool: str, number: object) -> dict[str, Any]:
    return {"id": name, "type": "tool", "tool": tool, "args": {"n": number}}


@cache
def _shapes() -> dict[str, Program]:
    """Return programs that make six writes, three of each tool, in the ways in which calls start beside others."""
    parts = [_write(f"w{number}", WRITES[number % 2], number // 2) for number in range(PLACES)]
    after = [
        {**part, **({"depends_on": [f"w{number - 3}"]} if number > 2 else {})} for number, part in enumerate(parts)
    ]
    branches = {name: {"steps": parts[at : at + 2]} for at, name in ((0, "a"), (2, "b"), (4, "c"))}
    inner = [_write("first", WRITES[0], "$at"), _write("second", WRITES[1], "$at")]
    beside = {"type": "for_each", "items": [0, 1, 2], "as": "at", "max_concurrency": 2, "steps": inner}
    shapes: dict[str, dict[str, Any]] = {
        "at once": {"type": "parallel", "parallel_steps": parts},
        TWO: {"type": "parallel", "parallel_steps": parts, "max_concurrency": 2},
        "one after another": {"type": "parallel", "parallel_steps": after},
        RULED: {"type": "parallel", "parallel_steps": [*parts[:2], {**parts[2], "depends_on": ["w1"]}]},
        "in branches": {"type": "parallel", "branches": branches},
        "in items": beside,
    }
    tools = {name: {"effect": "write", "args": {"n": {"type": "integer"}}} for name in WRITES}
    rule = {"name": "once", "at_most_once": {"tool": WRITES[0]}}
    data: dict[str, Any] = {"name": "writes", "language": 2, "tools": tools}
    return {
        name: Program.from_dict(
            {**data, "steps": [{"id": "all", **step}], "guardrails": [rule] if name == RULED else []}
        )
        for name, step in shapes.items()
    }


class _Slow(ExecutionVM):
    """A machine whose store takes a while, as one that blocks does in its thread: meanwhile others go on, and what it
    said of breakers is stale at once."""

    pauses: Callable[[], int]
    asked = 0

    async def _io(self, function: Callable[..., T], *args: Any) -> T:
        self.asked += 1
        if self.asked > MOST_ASKED:
            raise Breach(
                Invariant.BOUNDS, f"the store is asked more than {MOST_ASKED} times in a run of {PLACES} calls"
            )
        for _ in range(self.pauses()):
            await asyncio.sleep(0)
        try:
            return self._setup.breakers.beside(function, *args)
        finally:
            self._setup.breakers.forget()


class _Writer(EveryTool):
    """Tools that take a while, and note their calls. At call `at` one breaker is opened."""

    def __init__(self, case: Case, store: MemoryJournal, chance: Random) -> None:
        self.case, self.store, self.chance = case, store, chance
        self.done: list[tuple[str, int]] = []
        self.under_way = self.later = 0
        """The calls that have not come back; those of the tool whose breaker is open, since it opened."""
        self.at = chance.choice((1, 2, 3, 99))
        self.name = f"tool:{chance.choice(WRITES)}"

    async def call(self, name: str, args: Any, context: ToolContext) -> int:
        """Make a write."""
        del context
        self.done.append((name, args["n"]))
        self.later += self.name == f"tool:{name}" and self.name in self.store.opened()
        self.under_way += 1
        if len(self.done) == self.at:
            self.store.switch(Switch(self.name, True, 0.0, "", "ann"))
        await asyncio.sleep(self.chance.choice((0, 0.1, 1.0)))
        self.under_way -= 1
        return 1


class BreakersAtOnce(Attack):
    """What a machine knows of open breakers is stale before each call that starts beside others: as sub-steps, in
    branches, in items. The store is slow, and a breaker may open in the midst."""

    family = Family.LOAD
    surface = "calls at once, at breakers"
    action = "what is known of breakers grows stale before each call, and one opens in the midst"
    invariant = Invariant.ONCE
    defence = "a call is decided on once, however long the store takes to say which breakers are open"
    weight = 2
    draws = True

    def play(self, case: Case) -> Outcome:
        """Play a run of each shape, close the breaker that opened, and compare what was written."""
        seed = case.seed()
        for shape in case.each("shape", list(_shapes())):
            with virtual_time(case) as clock:
                self._play(case, clock, Random(f"beside {seed} {shape}"), shape)
        return Outcome.ABSORBED

    def _play(self, case: Case, clock: VirtualClock, chance: Random, shape: str) -> None:
        store = MemoryJournal()
        writer = _Writer(case, store, chance)
        options = {"clock": clock, "random": case.random, **case.weakness.options}
        machine = _Slow(writer, journal=store, checker=None, **options)
        machine.pauses = lambda: chance.choice((0, 0, 1, 3, 20))
        case.act(f"run calls {shape}, where `{writer.name}` opens at call {writer.at}")
        run: Run = case.do(machine.run(_shapes()[shape], {}, run_id=case.run_id()))
        opened = store.opened()
        case.hold(run.is_over or bool(opened), Invariant.BOUNDS, f"with open breakers {opened} a run is {run.status}")
        if shape == TWO:  # the other one may have been on its way
            case.hold(writer.later < 2, Invariant.BOUNDS, f"an open breaker lets {writer.later} calls start")
        case.hold(writer.under_way == 0, Invariant.BOUNDS, "a run is given back while calls are under way")
        if not run.is_over:
            case.hold(run.held_by == writer.name, Invariant.BOUNDS, f"a run is held by {run.held_by}")
            case.act("close it, and take up what is due")
            store.switch(Switch(writer.name, False, 1.0, "", "ann"))
            for lease in case.do(machine.claim(9)):
                run = case.do(machine.go_on(lease))
        if shape == RULED:
            count = sum(name == WRITES[0] for name, _ in writer.done)
            case.hold(count <= 1, Invariant.GUARDRAIL, f"what may be called once is called {count} times")
            return
        case.hold(run.status == "SUCCESS", Invariant.KEPT, f"a run that nothing holds is {run.status}: {run.reason}")
        counts = Counter(writer.done)
        due = Counter({(WRITES[number % 2], number // 2): 1 for number in range(PLACES)})
        case.hold(counts == due, self.invariant, f"the writes are {dict(counts)}")


BODIES: Final = ("call", "call", "items", "items at once", "branches", "sub-steps")
INNERMOST: Final = "sub-steps"
MOST_AROUND: Final = 4


def _nested(kinds: list[str], *, asks: bool) -> tuple[Program, list[str]]:
    """Return a program that reads within bodies of these kinds, from the innermost one, and the programs around it.

    With `asks` it asks a model there.
    """
    facts = {TOOLS[0]: {"effect": "read"}}
    get: dict[str, Any] = {"type": "llm", "prompt": "?"} if asks else {"type": "tool", "tool": TOOLS[0]}
    steps: list[dict[str, Any]] = [{"id": "get", **get}]
    programs: dict[str, Any] = {}
    names = ["top"]
    for number, kind in enumerate(kinds):
        step: dict[str, Any] = {"id": f"in_{number}"}
        match kind:
            case "call":
                names.append(f"part_{number}")
                programs = {names[-1]: {"inputs": {}, "tools": facts, "steps": steps, "programs": programs}}
                step |= {"type": "call", "program": names[-1]}
            case "items" | "items at once":
                at_once = {"max_concurrency": 2} if kind == "items at once" else {}
                step |= {"type": "for_each", "items": [1, 2], "as": f"one_{number}", "steps": steps, **at_once}
            case "branches":
                beside = [{"id": f"set_{number}", "type": "set", "set": {"x": 1}}]
                step |= {
                    "type": "parallel",
                    "branches": {f"one_{number}": {"steps": steps}, f"two_{number}": {"steps": beside}},
                }
            case _:
                step |= {"type": "parallel", "parallel_steps": steps}
        steps = [step]
    data = {"name": "top", "language": 2, "inputs": {}, "tools": facts, "programs": programs, "steps": steps}
    return Program.from_dict(data), names


class BreakersAround(Attack):
    """A program is stopped by its breaker, or one that it calls, while its only call is within items, branches and
    calls of calls."""

    family = Family.LOAD
    surface = "a call within bodies, at breakers"
    action = "a breaker of each program around a call, and of one that is not"
    invariant = Invariant.BOUNDS
    defence = "a call is held by the breaker of its tool, and of each program around it, whatever is between them"
    severity = "high"
    weight = 4
    draws = True
    programs = 4

    def play(self, case: Case) -> Outcome:
        """Open each breaker by itself before a run, and close it; for the last program in files."""
        seed = case.seed()
        for number in case.each("program", range(self.programs)):
            chance = Random(f"around {seed} {number}")
            kinds = [chance.choice(BODIES[:-1]) for _ in range(chance.randint(1, MOST_AROUND))]
            asks = number % 2 == 1
            program, names = _nested([*([INNERMOST] if chance.random() < 0.3 else []), *kinds], asks=asks)
            case.log(f"a call is within {kinds}, from the innermost one")
            with ExitStack() as stack:
                new_store = Files(stack) if number == self.programs - 1 else MemoryJournal
                tools = [] if asks else [f"tool:{TOOLS[0]}"]
                for breaker in (*tools, *(f"program:{name}" for name in names), "program:another"):
                    self._play(case, new_store(), program, breaker)
        return Outcome.ABSORBED

    def _play(self, case: Case, store: Journal, program: Program, breaker: str) -> None:
        world, is_around = _World(), breaker != "program:another"
        case.act(f"open `{breaker}`, and run the program")
        store.switch(Switch(breaker, True, 0.0, "", "ann"))
        machine = case.machine(world, world, store)
        run = case.do(machine.run(program, {}, run_id=case.run_id()))
        called = sum(world.called.values())
        if not is_around:
            case.hold(run.is_over and called > 0, Invariant.KEPT, f"`{breaker}` holds a program that has no part in it")
            return
        message = f"with an open breaker `{breaker}` a run is {run.status}, held by {run.held_by}, after {called} calls"
        case.hold(not called and run.held_by == breaker, self.invariant, message)
        case.act(f"close `{breaker}`, and take up what is due")
        store.switch(Switch(breaker, False, 1.0, "", "ann"))
        again = case.machine(world, world, store)
        ended = [case.do(again.go_on(lease)) for lease in case.do(again.claim(9))]
        is_done = [one.status for one in ended] == ["SUCCESS"] and sum(world.called.values()) > 0
        case.hold(is_done, Invariant.KEPT, f"`{breaker}` is closed, and what it held comes to {ended}")
