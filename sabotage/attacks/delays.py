"""Delays of attempts: a clock that is set back before one, and a process that dies in one."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, TypeVar

from hypothesis import strategies as st

from stepward.sabotage.attack import Attack, Family
from stepward.sabotage.invariants import Invariant, Outcome
from stepward.sabotage.playing.case import Case
from stepward.sabotage.playing.points import Killed
from stepward.sabotage.stores.through import ThroughStore
from stepward.vm.journal.memory import MemoryJournal
from stepward.vm.journal.store import Append
from stepward.vm.language.program import Program
from stepward.vm.machine.clock import ManualClock
from stepward.vm.machine.models import ModelReply, ModelRequest

T = TypeVar("T")

HOUR: Final = 3_600_000_000
LEASE: Final = 61_000_000
"""Microseconds after which the lease of a dead process is over."""

_TOOLS: Final = {"call": {"effect": "read", "args": {}}, "look": {"effect": "read", "args": {}}}


def _program(*steps: dict[str, Any], **more: Any) -> Program:
    data = {"name": "delays", "language": 2, "inputs": {}, "tools": _TOOLS, "steps": list(steps)}
    return Program.from_dict({**data, **more})


class _SetBack(MemoryJournal):
    """A store during whose append of an attempt the clock is set back."""

    def __init__(self, clock: ManualClock, by: int) -> None:
        super().__init__()
        self._clock, self._by = clock, by

    def append(self, append: Append, fence: int | None) -> None:
        """Add entries, and set the clock back."""
        super().append(append, fence)
        if any(json.loads(entry.record)["kind"] == "attempt" for entry in append.entries) and self._by:
            self._clock.time -= self._by
            self._by = 0


class DelayWithoutAnEnd(Attack):
    """A call is tried again after a delay, and the clock is set back before the delay begins."""

    family = Family.TIME
    surface = "clock of the machine"
    action = "set back between an attempt and the next"
    invariant = Invariant.BOUNDS
    defence = "no delay is longer than the program says, by the clock of the machine that waits"
    severity = "medium"
    enumerates = "clocks that are set back by seconds and by an hour"
    weight = 50
    draws = True

    def play(self, case: Case) -> Outcome:
        """Let a call fail once, and measure the wait."""
        case.pick("the case", st.just("all"))
        program = _program({"id": "call", "type": "tool", "tool": "call", "retry": _retry(10, 2)})
        for back in case.each("set back by", (0, 5_000_000, HOUR)):
            clock, tries = ManualClock(), list[int]()
            case.act(f"the clock is set back by {back / 1e6:g} seconds")
            machine = case.machine({"call": _failing(tries, 1)}, journal=_SetBack(clock, back), clock=clock)
            run = case.do(machine.run(program))
            case.hold(run.status == "SUCCESS", Invariant.KEPT, f"the run is {run.status}")
            waited = sum(clock.slept)
            case.hold(9.9 < waited < 10.1, self.invariant, f"a delay of 10 seconds lasts {waited:g}")
        return Outcome.ABSORBED


def _retry(seconds: int, attempts: int) -> list[dict[str, Any]]:
    return [{"errors": ["any"], "delay_seconds": seconds, "backoff": 1, "max_attempts": attempts}]


def _failing(tries: list[int], times: int) -> Callable[[], int]:
    """Return a tool that fails so many times, and notes each call."""

    def call() -> int:
        tries.append(1)
        if len(tries) <= times:
            raise ValueError("no")
        return 1

    return call


CALL: Final = {"id": "call", "type": "tool", "tool": "call", "retry": _retry(600, 3)}
LOOK: Final = {"id": "look", "type": "tool", "tool": "look"}
BODY: Final = [{**CALL, "next_step": "over"}, {"id": "over", "type": "end", "output": 1}]
PLACES: Final = {
    "a step": _program(CALL),
    "a sub-step": _program({"id": "all", "type": "parallel", "parallel_steps": [CALL, LOOK]}),
    "a sub-step behind another": _program(
        {"id": "all", "type": "parallel", "parallel_steps": [LOOK, {**CALL, "depends_on": ["look"]}]}
    ),
    "an item": _program({"id": "each", "type": "for_each", "items": [1], "as": "x", "steps": BODY}),
    "an item at once": _program(
        {
            "id": "each",
            "type": "for_each",
            "items": [1, 2],
            "as": "x",
            "max_concurrency": 2,
            "steps": [
                {"id": "if", "type": "condition", "condition": "$x == 1", "then": "call", "otherwise": "over"},
                *BODY,
            ],
        }
    ),
    "a branch": _program({"id": "both", "type": "parallel", "branches": {"one": {"steps": BODY}}}),
    "a called program": _program(
        {"id": "part", "type": "call", "program": "p"}, programs={"p": {"inputs": {}, "steps": BODY}}
    ),
}
"""Where a call is tried again after ten minutes, by the words for it."""


class _Process(ThroughStore):
    """The store of a process that does nothing more once its clock says that it is dead."""

    def __init__(self, inner: MemoryJournal, clock: _Dying) -> None:
        super().__init__(inner)
        self._clock = clock

    def write(self, function: Callable[..., T], *args: Any) -> T:
        """Write; raises Killed in a dead process."""
        if self._clock.is_dead:
            raise Killed("in a delay")
        return function(*args)


class _Dying(ManualClock):
    """The clock of a process that dies when it would wait any longer; the machine waits in short pieces."""

    def __init__(self, seconds: int) -> None:
        super().__init__()
        self.is_dead = False
        self._ends = self.time + seconds * 1_000_000

    async def sleep(self, seconds: float) -> None:
        """Wait, or die."""
        if self.time >= self._ends:
            self.is_dead = True
            raise Killed("in a delay")
        await super().sleep(seconds)


class DiesInADelay(Attack):
    """A process dies while it waits for the next attempt of a call, and another one goes on with the run."""

    family = Family.CRASH
    surface = "delay before an attempt"
    action = "killed in it; another process goes on once the lease is over"
    invariant = Invariant.BOUNDS
    defence = "a failed attempt, and when the next one is due, are in the journal before the machine waits"
    enumerates = "two delays of a call in each place, and when in them the process dies"
    weight = 50
    draws = True

    def play(self, case: Case) -> Outcome:
        """Let a call fail twice; kill the process in one of its delays, and go on."""
        case.pick("the case", st.just("all"))
        for place, after in case.each("dies", [(place, after) for place in PLACES for after in (0, 300, 900)]):
            self._play(case, place, after)
        return Outcome.ABSORBED

    def _play(self, case: Case, place: str, after: int) -> None:
        store, tries, clock = MemoryJournal(), list[int](), _Dying(after)
        began = clock.time
        tools = {"call": _failing(tries, 2), "look": lambda: 0}
        case.act(f"a process dies when it has waited for {after} seconds for a call in {place}")
        with suppress(Killed):
            dying = case.machine(tools, journal=_Process(store, clock), clock=clock)
            case.do(dying.run(PLACES[place], run_id="r"))
        later = ManualClock(clock.time + LEASE)
        due = 1200 - (later.time - began) / 1e6
        (run,) = case.do(case.machine(tools, journal=store, clock=later).recover("r"))
        case.hold(run.status == "SUCCESS", Invariant.KEPT, f"in {place}: the run is {run.status}")
        case.hold(len(tries) == 3, self.invariant, f"in {place}: {len(tries)} attempts of at most 3")
        waited = sum(later.slept)
        case.hold(abs(waited - due) < 1, self.invariant, f"in {place}: {waited:g} seconds are waited for, not {due:g}")


TURNS: Final = 40
"""Turns of the event loop that a wait takes."""

_TIRED: Final = {"type": "tool", "tool": "call", "retry": _retry(1, 2)}


def _beside(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"id": "all", "type": "parallel", "on_error": "skip", "parallel_steps": list(parts)}


def _then_over(name: str, step: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the steps of a body in which a call may fail."""
    last = f"{name}_over"
    return [{"id": name, **step, "on_error": "skip", "next_step": last}, {"id": last, "type": "end", "output": 1}]


def _branches(**bodies: list[dict[str, Any]]) -> dict[str, Any]:
    branches = {f"in_{name}": {"steps": steps} for name, steps in bodies.items()}
    return {"id": "both", "type": "parallel", "branches": branches}


def _items(number: int, *steps: dict[str, Any], places: int = 2) -> dict[str, Any]:
    return {
        "id": "each",
        "type": "for_each",
        "items": list(range(number)),
        "as": "x",
        "max_concurrency": places,
        "steps": list(steps),
    }


_SETS: Final = [{"id": f"set{number}", "type": "set", "set": {"v": number}} for number in range(3)]

CROWDS: Final[dict[str, dict[str, Any]]] = {
    "sub-steps": _beside(*({"id": name, **_TIRED} for name in "ab")),
    "sub-steps behind another": _beside(LOOK, *({"id": name, **_TIRED, "depends_on": ["look"]} for name in "ab")),
    "three sub-steps in an order": _beside(
        {"id": "a", **_TIRED},
        {"id": "b", **_TIRED},
        {"id": "c", **_TIRED, "on_error": "skip", "depends_on": ["look"]},
        LOOK,
    ),
    "items at once": _items(3, *_then_over("a", _TIRED), places=3),
    "more items than places": _items(3, *_then_over("a", _TIRED)),
    "branches": _branches(a=_then_over("a", _TIRED), b=_then_over("b", _TIRED)),
    "a branch beside steps": _branches(a=_then_over("a", _TIRED), b=[*_SETS, {"id": "done", "type": "end"}]),
    "a branch beside sub-steps": _branches(
        a=_then_over("a", _TIRED),
        b=[_beside(*({"id": name, **_TIRED} for name in "bc")), {"id": "done", "type": "end"}],
    ),
    "items in a branch": _branches(
        a=_then_over("a", _TIRED), b=[_items(2, *_then_over("b", _TIRED)), {"id": "done", "type": "end"}]
    ),
}
"""Steps in which several calls are tried again after a delay, by the words for them."""


class _Slow(ManualClock):
    """A clock whose waits take some turns of the event loop, in which other calls end."""

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await super().sleep(seconds)
        for _ in range(TURNS):
            await asyncio.sleep(0)


class DelaysAtTheBudget(Attack):
    """Several calls wait for their next attempts, and `max_steps` does not suffice for all of them."""

    family = Family.TIME
    surface = "attempts of calls beside one another"
    action = "delayed at once, under each budget up to what they need"
    invariant = Invariant.BOUNDS
    defence = "what starts is paid for beside all attempts that are to come: those of sub-steps, branches and items"
    enumerates = "sub-steps, branches and items at once, turns in which they fail, and every budget"
    weight = 50
    draws = True

    def play(self, case: Case) -> Outcome:
        """Measure what a step costs without a bound; then every smaller budget must be used up, and never exceeded."""
        case.pick("the case", st.just("all"))
        for crowd, turns in case.each("of calls", [(crowd, turns) for crowd in CROWDS for turns in (0, 1, 3, 8, 20)]):
            cost, _ = self._cost(case, crowd, turns, 100)
            for budget in range(2, cost + 1):
                steps, status = self._cost(case, crowd, turns, budget)
                what = (
                    f"{crowd}, {turns} turns: {steps} steps, {status}, of a budget of {budget} where {cost} are needed"
                )
                case.hold(steps <= budget and (status == "BUDGET_EXCEEDED") is (budget < cost), self.invariant, what)
        return Outcome.ABSORBED

    def _cost(self, case: Case, crowd: str, turns: int, budget: int) -> tuple[int, str]:
        """Return the steps and the status of a run in which every second call fails some turns later than the first."""
        program = _program(CROWDS[crowd], max_steps=budget)
        case.act(f"{crowd}, {turns} turns apart, under a budget of {budget}")
        tries = list[int]()

        async def call() -> int:
            tries.append(1)
            for _ in range(turns * (len(tries) % 2)):
                await asyncio.sleep(0)
            raise ValueError("no")

        machine = case.machine({"call": call, "look": lambda: 0}, journal=MemoryJournal(), clock=_Slow())
        run = case.do(machine.run(program))
        return run.steps, run.status


_ASKS: Final = {"type": "llm", "prompt": "A word."}
_ASKS_AGAIN: Final = {**_ASKS, "retry": _retry(1, 2)}
_FIRST: Final = {"id": "if", "type": "condition", "condition": "$x == 0", "then": "late", "otherwise": "other"}

TALKS: Final[dict[str, dict[str, Any]]] = {
    "sub-steps": _beside(
        LOOK,
        {"id": "late", **_ASKS_AGAIN, "depends_on": ["look"]},
        {"id": "other", **_ASKS, "depends_on": ["look"]},
    ),
    "branches": _branches(late=_then_over("late", _ASKS_AGAIN), other=_then_over("other", _ASKS)),
    "items at once": _items(2, _FIRST, *_then_over("late", _ASKS_AGAIN), *_then_over("other", _ASKS)),
}
"""Steps in which a model is asked again after a delay, beside another one, by the words for them."""


class RepliesInADelay(Attack):
    """A model is to be asked again after a delay, and the reply to another call uses up the budget meanwhile."""

    family = Family.TIME
    surface = "attempts of models beside one another"
    action = "delayed, while a reply uses up `max_tokens` or `max_cost`"
    invariant = Invariant.BOUNDS
    defence = "a model is asked after a delay only if nothing has used up a budget in it"
    enumerates = "sub-steps with an order, branches and items at once, each budget, and turns in which the reply comes"
    weight = 50
    draws = True

    def play(self, case: Case) -> Outcome:
        """Let one reply use up the budget, before the other call is due and after that."""
        case.pick("the case", st.just("all"))
        among = [(talk, field, turns) for talk in TALKS for field in ("max_tokens", "max_cost") for turns in (2, 8, 20)]
        for talk, field, turns in case.each("of models", among):
            case.act(f"in {talk}, a reply comes {turns} turns after the question and uses up `{field}`")
            model = _Costly(turns)
            machine = case.machine({"look": lambda: 0}, model, journal=MemoryJournal(), clock=_Slow())
            run = case.do(machine.run(_program(TALKS[talk], **{field: 1})))
            what = f"{talk}, {field}, {turns} turns: asked with {model.spent} of 1 spent, and the run is {run.status}"
            case.hold(not model.is_late and run.status == "BUDGET_EXCEEDED", self.invariant, what)
        return Outcome.ABSORBED


class _Costly:
    """A model whose first reply to `late` fails, and whose reply to `other` costs the whole budget."""

    def __init__(self, turns: int) -> None:
        self.spent, self.is_late, self._turns = 0, False, turns

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Reply, and note whether the budget was used up before."""
        self.is_late = self.is_late or self.spent > 0
        if request.step == "late" and request.attempt == 1:
            raise ValueError("no")
        for _ in range(self._turns if request.step == "other" else 0):
            await asyncio.sleep(0)
        self.spent += 1
        return ModelReply("word", tokens=1, cost=1)
