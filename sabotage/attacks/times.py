"""Time: clocks jump and answers are late."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from typing import Any, Final, TypeVar

from stepward.sabotage.attack import Attack, Family, Need
from stepward.sabotage.invariants import Invariant, Outcome
from stepward.sabotage.playing.answers import CallAnswer
from stepward.sabotage.playing.case import Case
from stepward.sabotage.playing.places import Place
from stepward.sabotage.playing.points import Points
from stepward.sabotage.playing.trial import Trial
from stepward.sabotage.playing.world import LATE_BY, Asking, TooLate, WorldClock
from stepward.vm.machine.tools import ToolContext, Tools

T = TypeVar("T")

MAX_LATE: Final = 3
"""Attempts of one visit that are late, at most."""


class AnswerAfterTimeOut(Attack):
    """A write happens, and its answer comes after the time-out: once, twice, or at every attempt."""

    family = Family.TIME
    surface = "tool answer"
    action = "arrives after the time-out, although the effect happened"
    invariant = Invariant.KEPT
    defence = "a write that timed out is in doubt or repeated with its key; it does not count as failed"
    needs = (Need("no write has a time-out", lambda target: any(call.timeout is not None for call in target.writes)),)

    def play(self, case: Case) -> Outcome:
        """Answer late, and check that the run treats the effect as possible, and that it happens once."""
        from hypothesis import strategies as st

        trial = Trial(case, faults=False)
        late: list[Asking] = []

        def decide(asking: Asking) -> CallAnswer | None:
            call = asking.call
            if not call.writes or call.timeout is None:
                return None
            many = case.pick(f"late answers: {asking.visited}", st.integers(0, MAX_LATE))
            if asking.attempt > many:
                return None
            late.append(asking)
            return CallAnswer("late", case.pick(f"late answer: {asking.name}", case.target.output(call)))

        trial.world.decides.append(decide)
        trial.finish()
        case.needs(late)
        has_told = any(record["body"].get("kind") == "doubt" for record in trial.oracle.records)
        return Outcome.DETECTED if has_told else Outcome.ABSORBED


class _Hanging:
    """Tools of which some answer only when others are called, long after their time-outs."""

    def __init__(self, inner: Tools, clock: _Impatient) -> None:
        self._inner = inner
        self._clock = clock

    def has(self, name: str) -> bool:
        """Return whether there is a tool of that name."""
        return self._inner.has(name)

    def call(self, name: str, args: Mapping[str, Any], context: ToolContext) -> Awaitable[Any]:
        """Return an awaitable for the output of a tool."""
        hangs = self._clock.next = asyncio.Event()
        return self._call(name, args, context, hangs)

    async def _call(self, name: str, args: Mapping[str, Any], context: ToolContext, hangs: asyncio.Event) -> Any:
        await self._clock.let_late_answers_in()
        try:
            return await self._inner.call(name, args, context)
        except TooLate:
            hangs.set()
        while not self._clock.releases.is_set():
            try:
                await self._clock.releases.wait()
            except asyncio.CancelledError:  # it ignores the cancellation
                continue
        return self._clock.late_values.get(((context.step, context.visit, context.frame), context.attempt))


class _Impatient(WorldClock):
    """A clock that abandons hanging calls, as that of the product does, without waiting for their end."""

    def __init__(self) -> None:
        super().__init__()
        self.next: asyncio.Event | None = None
        self.releases = asyncio.Event()
        self.late_values: dict[tuple[Place, int], Any] = {}
        self.tasks: list[asyncio.Future[Any]] = []

    async def limit(self, awaited: Awaitable[T], seconds: float) -> T:
        """Return the awaited result. Raises TimeoutError if it hangs."""
        hangs, self.next = self.next, None
        if hangs is None:
            return await super().limit(awaited, seconds)
        task = asyncio.ensure_future(awaited)
        hanging = asyncio.ensure_future(hangs.wait())
        await asyncio.wait({task, hanging}, return_when=asyncio.FIRST_COMPLETED)
        hanging.cancel()
        if task.done():
            return task.result()
        self.time += int(seconds * 1_000_000) + LATE_BY
        self.tasks.append(task)
        task.cancel()
        raise TimeoutError

    async def let_late_answers_in(self) -> None:
        """Let all hanging calls answer before the next one."""
        self.releases.set()
        late = [task for task in self.tasks if not task.done()]
        if late:
            await asyncio.wait(late)
        self.releases.clear()


class LateResult(Attack):
    """A tool hangs until its time-out is over, and answers while the next call is under way, with another result."""

    family = Family.TIME
    surface = "tool answer"
    action = "returned by an abandoned attempt while a later one runs"
    invariant = Invariant.DATA
    defence = "an answer belongs to its attempt, and the answer to an abandoned attempt is ignored"
    severity = "high"
    needs = (
        Need(
            "no tool has a time-out",
            lambda target: any(call.timeout is not None and not call.is_model for call in target.calls.values()),
        ),
    )

    def play(self, case: Case) -> Outcome:
        """Let tools hang, and check that their late results appear nowhere."""
        from hypothesis import strategies as st

        trial = Trial(case, faults=False)
        clock = _Impatient()
        trial.clock = clock

        def decide(asking: Asking) -> CallAnswer | None:
            call = asking.call
            if call.timeout is None or call.is_model:
                return None
            many = case.pick(f"tool hangs: {asking.visited}", st.integers(0, MAX_LATE))
            if asking.attempt > many:
                return None
            value = case.pick(f"late result: {asking.name}", case.target.output(call))
            clock.late_values[asking.place, asking.attempt] = value
            return CallAnswer("late", value)

        trial.world.decides.append(decide)
        try:
            trial.finish(trial.machine(around=lambda tools: _Hanging(tools, clock)))
        finally:
            case.do(clock.let_late_answers_in())
        return Outcome.ABSORBED if clock.late_values else Outcome.NOT_APPLICABLE


JUMPS: Final = (1, -1, 0.4, -0.4, 60, 3_600, -3_600, 86_400 * 400, -86_400 * 400, 10**8, -(10**8), 10**10, -(10**10))
"""Jumps of a clock in seconds: under one, one, past a lease, past waivers, years, beyond the dates of records."""


class _Jumping(Points):
    """Points at some of which the clock jumps."""

    def __init__(self, trial: Trial, jumps: list[dict[str, Any]]) -> None:
        super().__init__()
        self.seconds = 0.0
        self._trial = trial
        self._jumps = {jump["point"]: jump["seconds"] for jump in jumps}

    async def pass_by(self, name: str) -> None:
        """Pass a point."""
        seconds = self._jumps.get(len(self.passed), 0)
        if seconds:
            self._trial.case.act(f"the clock jumps by {seconds} seconds {name}")
            self._trial.clock.time += int(seconds * 1_000_000)
            self.seconds += abs(float(seconds))
        await super().pass_by(name)


class ClockJumps(Attack):
    """The clock of the machine jumps, forwards and backwards, between any two things that it does."""

    family = Family.TIME
    surface = "clock"
    action = "set forwards and backwards during a run"
    invariant = Invariant.REPLAY
    defence = "the core reads no clock: the state and the trace hash of a run do not depend on time"
    severity = "high"
    weight = 2

    def play(self, case: Case) -> Outcome:
        """Run twice, once with jumps, and check that both runs are equal."""
        from hypothesis import strategies as st

        jump = st.fixed_dictionaries({"point": st.integers(0, 30), "seconds": st.sampled_from(JUMPS)})
        jumps = case.pick("jumps", st.lists(jump, min_size=1, max_size=4))
        calm = Trial(case)
        before = calm.finish()
        trial = Trial(case)
        points = _Jumping(trial, jumps)
        after = trial.finish(trial.machine(points))
        same = [(run.status, run.reason, run.steps, run.trace_hash) for run in (before, after)]
        case.hold(same[0] == same[1], Invariant.REPLAY, f"without jumps the run is {same[0]}, with them {same[1]}")
        return Outcome.ABSORBED if points.seconds else Outcome.NOT_APPLICABLE
