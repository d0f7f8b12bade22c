"""Time: slow calls, and the exact times of actions during and after them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

from stepward.sabotage.attack import Attack, Family
from stepward.sabotage.attacks.drivers import is_inside
from stepward.sabotage.invariants import Breach, Invariant, Outcome
from stepward.sabotage.playing.answers import CallAnswer
from stepward.sabotage.playing.case import Case
from stepward.sabotage.playing.machines import Machine, WatchedStore
from stepward.sabotage.playing.places import place_of
from stepward.sabotage.playing.points import Killed, Points
from stepward.sabotage.playing.trial import MAX_DELIVERIES, Trial
from stepward.sabotage.playing.virtual_time import VirtualClock, virtual_time
from stepward.sabotage.playing.world import Asking, ProcessModel, ProcessTools, replied, result_of
from stepward.vm.journal.store import Append, JournalError, Lease
from stepward.vm.machine.models import ModelReply, ModelRequest
from stepward.vm.machine.refusals import RunBusy
from stepward.vm.machine.run import Run
from stepward.vm.machine.tools import ToolContext

SLACK: Final = 0.002
"""The tolerance of times in seconds, since clocks are read one after the other."""

LEASES: Final = (60.0, 9.0, 0.6)
"""The lengths of leases in seconds."""

PARTS: Final = (0.0, 0.3, 0.5, 1.1, 2.6, 7.4)
"""The durations of calls, in lengths of a lease."""

AS_IT_IS: Final = "as the machine has them"
DELAYS: Final[Mapping[str, Callable[[int], float] | None]] = {
    AS_IT_IS: None,
    "of our own": lambda attempt: 0.3 + 0.7 * attempt,
}
"""Pauses before an attempt, by its number."""


def _usual_delay(attempt: int) -> float:
    """Return the default pause before an attempt: it doubles from one second up to 30."""
    return min(2.0 ** (attempt - 2), 30.0)


_ATTEMPTS: Final = range(2, 12)


class Span(NamedTuple):
    """The start and end of an attempt in microseconds since the epoch, and the number of the delivery before it."""

    asking: Asking
    began: int
    ends: int
    delivery: int


class LeaseBook(WatchedStore):
    """A store that checks every time and lease of a machine. Raises Breach.

    `excused` is the allowed delay of the next call in seconds, after a pause of the process. The renewal of number
    `failing`, counted from 1, fails; `has_failed` says that none has succeeded since.
    """

    def __init__(self, trial: Trial, seconds: float) -> None:
        super().__init__(trial.store.inner, trial.oracle)
        self._trial = trial
        self.excused = 0.0
        self.failing = 0
        self.has_failed = False
        self._renewals = 0
        self._seconds = seconds
        self._holders: set[str] = set()
        self._given: Lease | None = None

    def create(self, append: Append, program: str, holder: str, ttl: float) -> Lease | None:
        """Make a run."""
        self._look("made", append.now, ttl)
        return self._noted(super().create(append, program, holder, ttl), holder, append.now + ttl)

    def acquire(self, run: str, holder: str, now: float, ttl: float) -> Lease | None:
        """Lease a run."""
        self._look("leased", now, ttl)
        return self._noted(super().acquire(run, holder, now, ttl), holder, now + ttl)

    def renew(self, lease: Lease, now: float, ttl: float) -> Lease:
        """Make a lease last longer."""
        self._look("leased again", now, ttl)
        self._own(lease)
        self._renewals += 1
        self.has_failed = self._renewals == self.failing
        if self.has_failed:
            self._trial.case.log("a lease can't be renewed, once")
            raise JournalError("the store does not answer")
        renewed = super().renew(lease, now, ttl)
        self._ends(renewed, now + ttl)
        return renewed

    def release(self, lease: Lease) -> None:
        """Give a lease back."""
        self._own(lease)
        super().release(lease)

    def append(self, append: Append, fence: int | None) -> None:
        """Add entries."""
        self._look("written", append.now, self._seconds)
        super().append(append, fence)

    def _noted(self, lease: Lease | None, holder: str, ends: float) -> Lease | None:
        if lease is None:
            return None
        self._hold(holder not in self._holders, "two leases are held under one name")
        self._holders.add(holder)
        self._given = lease
        self._ends(lease, ends)
        return lease

    def _own(self, lease: Lease) -> None:
        own = self._given
        is_own = own is not None and (lease.run, lease.fence) == (own.run, own.fence)
        self._hold(is_own, f"{lease} is renewed or given back, and {own} was given")

    def _ends(self, lease: Lease, ends: float) -> None:
        row = self.inner.row(lease.run)
        is_due = row is not None and abs(row.expires - ends) < SLACK and abs(lease.expires - ends) < SLACK
        self._hold(is_due, f"a lease ends at {lease.expires}, which the list of runs has as {row and row.expires}")

    def _look(self, what: str, now: float, ttl: float) -> None:
        clock, late = self._trial.clock.time / 1e6, self.excused + SLACK
        self.excused = 0.0
        is_now = clock - late <= now <= clock + SLACK
        self._hold(is_now, f"a run is {what} at {now:f}, and the clock says {clock:f}")
        self._hold(ttl == self._seconds, f"a run is {what} for {ttl} seconds, not {self._seconds}")

    def _hold(self, is_met: bool, what: str) -> None:
        if not is_met:
            raise Breach(Invariant.DRIVER, what)


class _Pausing(Points):
    """Points at one or two of which the process is paused without noticing. It may die, too."""

    def __init__(self, clock: VirtualClock, trial: Trial, at: int | None, seconds: float, dies: int | None) -> None:
        from hypothesis import strategies as st

        super().__init__(dies, trial.case.log)
        self._clock = clock
        self._trial = trial
        self._at = at
        self._again = trial.case.pick("and again so many points later", st.integers(0, 4))
        self._seconds = seconds

    async def pass_by(self, name: str) -> None:
        """Pass a point."""
        is_calling = is_inside(name) or " was asked by " in name
        if self._at is not None and len(self.passed) >= self._at and not is_calling:
            self._at, self._again = (len(self.passed) + self._again, 0) if self._again else (None, 0)
            self._trial.case.log(f"the process is paused for {self._seconds:g} seconds {name}")
            self._clock.time += int(self._seconds * 1_000_000)
            assert isinstance(self._trial.store, LeaseBook), "the store of a plot looks at times"
            self._trial.store.excused = self._seconds if name.startswith("before ") else 0.0
        await super().pass_by(name)


class _Slow:
    """Slow tools and a slow model of a process. Meanwhile another machine checks the run."""

    def __init__(self, plot: _Plot, points: Points) -> None:
        self._plot = plot
        self._tools = ProcessTools(plot.trial.world, points)
        self._model = ProcessModel(plot.trial.world, points)

    def has(self, name: str) -> bool:
        """Return whether there is a tool of that name."""
        return self._tools.has(name)

    async def call(self, name: str, args: Mapping[str, Any], context: ToolContext) -> Any:
        """Return the output of a tool."""
        asking, answer = await self._tools.met(name, args, context)
        await self._plot.take_time(asking, answer)
        return result_of(asking.call, answer)

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Return the reply."""
        asking, answer = await self._model.met(request)
        await self._plot.take_time(asking, answer)
        return replied(asking, answer)


class _Plot:
    """One case: the durations of everything, and the observations."""

    def __init__(self, trial: Trial, clock: VirtualClock) -> None:
        from hypothesis import strategies as st

        case = trial.case
        self.trial = trial
        self.clock = clock
        self.lease: float = float(case.pick("a lease lasts for", st.sampled_from(LEASES)))
        self.delays = case.pick("pauses before attempts are", st.sampled_from(sorted(DELAYS)))
        self.pause = case.pick("paused at point", st.one_of(st.none(), st.integers(0, 20)))
        self.paused_for = float(case.pick("paused for leases", st.sampled_from([0.4, 1, 3]))) * self.lease
        self.dies = case.pick("dies at point", st.one_of(st.none(), st.integers(0, 20)))
        self.points = Points()
        self.spans: list[Span] = []
        self.deliveries = 0
        self.book = LeaseBook(trial, self.lease)
        fails = case.pick("renewal that fails", st.sampled_from([0, 1, 2, 4]))
        if self.pause is None:  # an expired lease must be renewed at once, or the run stops
            self.book.failing = fails
        trial.store = self.book
        trial.world.decides.append(self._decide)

    def machine(self, points: Points) -> Machine:
        """Return a machine with slow calls."""
        self.points, slow = points, _Slow(self, points)
        options: dict[str, Any] = {"lease_seconds": self.lease}
        delay = DELAYS[self.delays]
        if delay is not None:
            options["retry_delay"] = delay
        return self.trial.machine(points, around=lambda _: slow, model=slow, **options)

    def _decide(self, asking: Asking) -> CallAnswer | None:
        from hypothesis import strategies as st

        case, call = self.trial.case, asking.call
        is_late = call.timeout is not None and case.pick(f"is late: {asking.name}", st.integers(0, 3)) == 1
        return CallAnswer("late") if is_late else None

    async def take_time(self, asking: Asking, answer: CallAnswer) -> None:
        """Let the time of a call pass, and check the run meanwhile."""
        from hypothesis import strategies as st

        part = float(self.trial.case.pick(f"takes: {asking.name}", st.sampled_from(PARTS)))
        timeout, seconds = asking.call.timeout, part * self.lease
        if answer.kind == "late":
            assert timeout is not None, "only what has a time-out is late"
            seconds = timeout + 5 * SLACK
        elif timeout is not None and seconds >= timeout:
            seconds = timeout - 5 * SLACK
        began = self.clock.time
        ends = began + round(min(seconds, seconds if timeout is None else timeout) * 1_000_000)
        self.spans.append(Span(asking, began, ends, self.deliveries))
        self._is_leased()
        for share in (0.37, 0.5, 0.13):
            await asyncio.sleep(seconds * share)
            if self.pause is None:  # a pause may be inside a tool, where only the tool could fence
                self._is_leased()
                await self._somebody_asks()

    def _is_leased(self) -> None:
        """Check that the lease lasts for at least two thirds of its length, and at most its length."""
        if self.points.is_dead:  # what dies in one task of a process ends all of them
            raise Killed("the process is dead")
        row, now = self.trial.store.inner.row(self.trial.run), self.clock.time / 1e6
        assert row is not None, "a run that calls is there"
        lasts = row.expires - now
        is_paused = self.pause is not None  # its lease was renewed before the pause
        least = 0.0 if is_paused else self.lease * (1 if self.book.has_failed else 2) / 3 - SLACK
        self._hold(least < lasts, f"the lease of a run that is driven lasts for {lasts:f} s more, of {self.lease}")
        self._hold(lasts <= self.lease + SLACK, f"a lease of {self.lease} s lasts for {lasts:f} s more")

    async def _somebody_asks(self) -> None:
        try:
            await self.trial.machine(lease_seconds=self.lease).recover(self.trial.run)
        except RunBusy:
            return
        self._hold(False, "a second machine was given a run that is driven")

    def _hold(self, is_met: bool, what: str) -> None:
        if not is_met:
            self.trial.case.error = Breach(Invariant.DRIVER, what)
            raise Killed(what)


class SlowCalls(Attack):
    """Calls take longer than leases and up to their time-outs, and the process is paused or dies. Meanwhile another
    machine checks the run: the times of each lease, record, time-out and pause.
    """

    family = Family.TIME
    surface = "duration of calls"
    action = "longer than leases, up to a time-out"
    invariant = Invariant.DRIVER
    defence = "a lease is renewed after each third of its time, released at each stop, and lasts as long as it says"
    weight = 2

    def play(self, case: Case) -> Outcome:
        """Run in virtual time, and compare every recorded time and every deadline with the clock."""
        with virtual_time(case) as clock:
            trial = Trial(case)
            trial.clock = clock
            plot = _Plot(trial, clock)
            points = _Pausing(clock, trial, plot.pause, plot.paused_for, plot.dies)
            machine = plot.machine(points)
            if plot.delays == AS_IT_IS:
                pauses, due = (
                    [delay(attempt) for attempt in _ATTEMPTS] for delay in (machine._setup.retry_delay, _usual_delay)
                )
                case.hold(pauses == due, Invariant.BOUNDS, f"the pauses before attempts are {pauses}, not {due}")
            try:
                run = self._played(plot, machine)
            except Killed:
                if not points.is_dead:
                    raise
                trial.oracle.forget()
                if trial.found() is None:
                    return Outcome.ABSORBED
                run = self._taken_over(plot)
            trial.oracle.judge(run)
            _hold_times(plot)
        return Outcome.ABSORBED

    def _played(self, plot: _Plot, machine: Machine, run: Run | None = None) -> Run:
        trial = plot.trial
        run = trial.deliver(run, machine) if run is not None else trial.start(machine)
        for _ in range(MAX_DELIVERIES):
            if run.is_over:
                break
            row = trial.store.inner.row(run.id)
            is_free = row is not None and row.expires == 0
            trial.case.hold(is_free, self.invariant, f"a run that is {run.status} is still leased")
            plot.deliveries += 1
            run = trial.deliver(run, machine)
        return run

    def _taken_over(self, plot: _Plot) -> Run:
        """Check that the run of a dead process is free when its lease ends, and not earlier."""
        trial, clock = plot.trial, plot.clock
        machine = plot.machine(Points())
        row = trial.store.inner.row(trial.run)
        assert row is not None, "a run that was found is there"
        left = row.expires - clock.time / 1e6
        found = trial.reload()
        plot.deliveries += 1
        if found.is_over:
            return found
        if left <= 2 * SLACK or found.status != "RUNNING":
            clock.time = max(clock.time, int(row.expires * 1_000_000) + 1)
            return self._played(plot, machine, found)
        trial.case.hold(left <= plot.lease + SLACK, self.invariant, f"a lease lasts {left:f} s after a death")
        clock.time += int((left - SLACK) * 1_000_000)
        trial.case.act("somebody recovers the run just before its lease ends")
        try:
            trial.case.do(machine.recover(trial.run))
        except RunBusy:
            pass
        else:
            raise Breach(self.invariant, "a second machine was given a run before the end of its lease")
        clock.time += int(2 * SLACK * 1_000_000)
        trial.case.log("somebody does so just after it")
        return self._played(plot, machine, found)


def _hold_times(plot: _Plot) -> None:
    """Compare the times of records and the pauses between attempts with the observed times."""
    hold = partial(plot.trial.case.hold)
    spans = {(one.asking.place, one.asking.attempt): one for one in plot.spans}
    last = 0
    for entry in plot.trial.store.inner.read(plot.trial.run):
        record = json.loads(entry.record)
        body, note, at = record["body"], record["note"], record["at"]
        hold(at >= last or plot.pause is not None, Invariant.HISTORY, "a record is dated before the one before it")
        last = at
        if record["kind"] != "attempt" or "took" not in note:
            continue
        span = spans.get((place_of(body), note["attempt"]))
        if span is None:
            continue
        began, ended = note["started"], note["started"] + note["took"]
        is_so = abs(began - span.began) <= 1e6 * SLACK
        hold(is_so, Invariant.HISTORY, f"`{body['step']}` began at {span.began}, and {note} is said")
        if plot.pause is not None:
            continue
        is_so = abs(ended - span.ends) <= 1e6 * SLACK
        hold(is_so, Invariant.HISTORY, f"`{body['step']}` took from {span.began} to {span.ends}, and {note} is said")
        hold(abs(at - span.ends) <= 1e6 * SLACK, Invariant.HISTORY, f"an outcome of {span.ends} is dated {at}")
    due = DELAYS[plot.delays] or _usual_delay
    siblings = {call.id for step in plot.trial.target.plan.steps if step.is_parallel for call in step.calls}
    for before, after in zip(plot.spans, plot.spans[1:], strict=False):
        one, other = before.asking, after.asking
        is_retry = (one.place, one.attempt + 1) == (other.place, other.attempt)
        if is_retry and before.delivery == after.delivery and plot.pause is None and one.performance > 0:
            waited, pause = (after.began - before.ends) / 1e6, due(other.attempt)
            is_so = waited >= pause - SLACK and (waited <= pause + SLACK or one.call.id in siblings)
            hold(is_so, Invariant.BOUNDS, f"attempt {other.attempt} waits {waited} s, not {pause}")
