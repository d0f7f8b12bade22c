"""Time: the methods without an event loop, Ctrl-C in them, and leases that are held for a tool that continues."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, NamedTuple, cast

from stepward.sabotage.attack import Attack, Family, Need
from stepward.sabotage.attacks import callers
from stepward.sabotage.invariants import Breach, Invariant, Outcome
from stepward.sabotage.needs import TOOL
from stepward.sabotage.playing.case import Case
from stepward.sabotage.playing.points import Killed, Points
from stepward.sabotage.playing.trial import Trial
from stepward.sabotage.playing.variants import call_in, variant
from stepward.sabotage.playing.virtual_time import START
from stepward.sabotage.playing.world import AroundTools, ProcessModel, ProcessTools
from stepward.sabotage.stores.through import ThroughStore
from stepward.vm.journal.records import digest_of
from stepward.vm.journal.store import Append, Entry, Journal, JournalError, Lease
from stepward.vm.machine import keeping
from stepward.vm.machine.clock import SystemClock
from stepward.vm.machine.execution import ExecutionVM
from stepward.vm.machine.keeping import Abandoned, LeaseKeeper
from stepward.vm.machine.refusals import RunBusy
from stepward.vm.machine.tools import ToolContext

FORMS: Final = ("with a loop", "without a loop")
WITHOUT: Final = ("run", "get", "recover", "recover_all", "resume", "reconcile", "cancel", "erase")
"""The methods of a machine that have a form without an event loop."""


class _Forms:
    """A machine with the methods without an event loop. A call is made when it is awaited."""

    def __init__(self, machine: ExecutionVM) -> None:
        for name in WITHOUT:
            setattr(self, name, partial(partial, getattr(machine, f"{name}_sync")))


class _AtOnce:
    """A replacement of an event loop that runs plain calls."""

    def run(self, work: Callable[[], Any]) -> Any:
        """Make the call."""
        return work()


@contextmanager
def _without_a_loop(case: Case) -> Iterator[None]:
    before, case.runner = case.runner, cast(asyncio.Runner, _AtOnce())
    try:
        yield
    finally:
        case.runner = before


def _machine(trial: Trial, tools: Any = None) -> ExecutionVM:
    """Return the product's machine without a wrapper around its store."""
    world, target, case = trial.world, trial.target, trial.case
    used_tools = tools or ProcessTools(world, Points())
    return ExecutionVM(
        used_tools,
        ProcessModel(world, Points()),
        trial.store,
        target.policies,
        checker=None,
        key=case.key,
        clock=trial.clock,
        random=case.random,
    )


class FormsWithoutALoop(Attack):
    """A machine with a blocking store drives a run, with an event loop (which calls the store in threads) and without
    one. At the same time, the run is cancelled or erased, and requested again."""

    family = Family.TIME
    surface = "forms without an event loop"
    action = "used for everything that a caller can request"
    invariant = Invariant.REPLAY
    defence = "both forms have the same effects and results"
    severity = "high"
    weight = 2
    store = "sqlite"

    def play(self, case: Case) -> Outcome:
        """Play a run in one form, and check that it ends as predicted, also after a cancellation."""
        from hypothesis import strategies as st

        trial = Trial(case)
        trial.store.blocks = True
        form = case.pick("form", st.sampled_from(FORMS))
        ends = case.pick("then somebody", st.sampled_from(["carries on", "cancels", "erases"]))
        if form == FORMS[0]:
            self._played(trial, _machine(trial), ends)
        else:
            with _without_a_loop(case):
                self._played(trial, cast(ExecutionVM, _Forms(_machine(trial))), ends)
        return Outcome.ABSORBED

    def _played(self, trial: Trial, machine: Any, ends: str) -> None:
        case = trial.case
        run = trial.start(machine)
        again = case.do(machine.get(run.id))
        case.hold(again.head == run.head, self.invariant, "the run that was returned is not the one that is there")
        if ends == "carries on":
            run = trial.carry_on(run, machine)
        elif ends == "cancels":
            was_over = run.is_over
            run = case.do(machine.cancel(run.id, by="ann"))
            case.hold(run.is_over, self.invariant, f"a cancelled run is {run.status}")
            case.hold(was_over or _said_by(trial, "cancel") == "ann", self.invariant, "who cancelled is not written")
        else:
            run = case.do(machine.erase(run.id, by="bob"))
            left = trial.store.inner.vault.get(run.id)
            case.hold(not left, Invariant.ERASURE, f"the vault has {len(left)} values of a run that was erased")
            is_named = not trial.target.plan.has_sensitive or _said_by(trial, "erased") == "bob"
            case.hold(is_named, self.invariant, "who erased is not written")
        case.hold(
            [one.id for one in case.do(machine.recover(run.id))] == [run.id],
            self.invariant,
            "an ended run is not returned to who recovers it",
        )
        if ends != "erases":
            trial.oracle.judge(case.do(machine.get(run.id)))


def _said_by(trial: Trial, kind: str) -> str | None:
    found = [record["note"].get("by") for record in trial.oracle.records if record["kind"] == kind]
    return found[-1] if found else None


class _Interrupting(AroundTools[ProcessTools]):
    """Tools that simulate Ctrl-C in one call."""

    def __init__(self, inner: ProcessTools, number: int) -> None:
        super().__init__(inner)
        self.pressed = False
        self._left = number

    async def call(self, name: str, args: Mapping[str, Any], context: ToolContext) -> Any:
        """Return the output of a tool."""
        output = await self._inner.call(name, args, context)
        self._left -= 1
        if self._left == -1:
            self.pressed = True
            if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
                raise Killed("nobody listens to Ctrl-C")
            signal.raise_signal(signal.SIGINT)
            await asyncio.sleep(0)
        return output


def _can_be_interrupted() -> bool:
    is_main = threading.current_thread() is threading.main_thread()
    return is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler


class Interrupted(Attack):
    """Ctrl-C is pressed while a tool is awaited in the form without an event loop."""

    family = Family.TIME
    surface = "process in the form without an event loop"
    action = "interrupted while it awaits a tool"
    invariant = Invariant.DRIVER
    defence = "the caller gets the cancellation, the lease is released, and the next machine starts from the journal"
    severity = "high"
    needs = (Need("this process can't receive Ctrl-C", lambda _: _can_be_interrupted()), TOOL)

    def play(self, case: Case) -> Outcome:
        """Check that the interrupt is raised, that it leaves no traces, and that everything happens once."""
        from hypothesis import strategies as st

        trial = Trial(case, faults=False)
        tools = _Interrupting(ProcessTools(trial.world, Points()), case.pick("in call", st.integers(0, 3)))
        machine = _machine(trial, tools)
        raised: BaseException | None = None
        try:
            machine.run_sync(case.target.program, trial.inputs, run_id=trial.run, by=trial.by)
        except (KeyboardInterrupt, Killed) as error:
            raised = error
        case.needs(tools.pressed)
        case.act("Ctrl-C is pressed while a tool is awaited")
        case.hold(isinstance(raised, KeyboardInterrupt), self.invariant, f"Ctrl-C comes to {raised!r}")
        is_back = signal.getsignal(signal.SIGINT) is signal.default_int_handler
        case.hold(is_back, self.invariant, "what Ctrl-C does is another thing than before")
        row = trial.store.inner.row(trial.run)
        is_free = row is None or row.expires <= trial.clock.time / 1e6
        case.hold(is_free, self.invariant, "an interrupted caller keeps its lease, and nothing of it goes on")
        trial.oracle.forget()
        trial.oracle.judge(trial.carry_on(trial.reload()))
        return Outcome.ABSORBED


# -- a lease that is held for a tool -----------------------------------------------------------------------------------


class _TimeSource:
    """A time source that advances only by waiting."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def monotonic(self) -> float:
        """Return the seconds since the start."""
        return self.seconds


class _Ends:
    """An event that is set at a fixed time. Waiting for it advances the time."""

    def __init__(self, time: _TimeSource, at: float, look: Callable[[], None]) -> None:
        self._time = time
        self._at = at
        self._look = look

    def is_set(self) -> bool:
        """Return whether the time has come."""
        return self._time.seconds >= self._at

    def wait(self, timeout: float) -> bool:
        """Wait until the time has come, or until the timeout."""
        self._look()
        waits = max(min(timeout, self._at - self._time.seconds), 1e-4)
        for share in (0.999, 0.001):  # also just before the time
            self._time.seconds += waits * share
            self._look()
        return self.is_set()


class _Clock(SystemClock):
    def __init__(self, time: _TimeSource) -> None:
        self._time = time

    def now(self) -> int:
        """Return microseconds since the epoch."""
        return START + round(self._time.seconds * 1_000_000)


class _Failing(ThroughStore):
    """A store of which one renewal fails."""

    def __init__(self, inner: Journal, number: int | None) -> None:
        super().__init__(inner)
        self._left = number

    def renew(self, lease: Lease, now: float, ttl: float) -> Lease:
        """Make a lease last longer, or fail."""
        if self._left is not None:
            self._left -= 1
            if self._left == -1:
                raise JournalError("the store does not answer")
        return super().renew(lease, now, ttl)


class _CallEnds(NamedTuple):
    ends: list[float]
    until: float | None


TIMES: Final = (0.0, 5.0, 19.0, 21.0, 45.0, 130.0, 400.0)
"""Seconds after which a part of a call ends or is abandoned, near thirds and multiples of a lease."""

SECONDS: Final = 60.0


class LeaseKeptForATool(Attack):
    """The lease of a cancelled caller is held for calls whose parts end at any time or are abandoned. A renewal fails,
    or another machine gets the run in between."""

    family = Family.TIME
    surface = "lease of a cancelled caller"
    action = "held for calls that end early, late or never"
    invariant = Invariant.DRIVER
    defence = "the lease lasts until the last of the calls has ended"
    draws = True

    def play(self, case: Case) -> Outcome:
        """Check that the lease lasts until the end, is released then, and that another holder's lease is not
        touched."""
        from hypothesis import strategies as st

        one = st.fixed_dictionaries(
            {
                "parts end at": st.lists(st.sampled_from(TIMES), min_size=1, max_size=2),
                "given up at": st.one_of(st.none(), st.sampled_from(TIMES)),
            }
        )
        drawn_calls = case.pick("calls", st.lists(one, min_size=1, max_size=3))
        calls = [
            _CallEnds([float(at) for at in call["parts end at"]], _number(call["given up at"])) for call in drawn_calls
        ]
        fails = case.pick("renewal that fails", st.one_of(st.none(), st.integers(0, 3)))
        taken_at = case.pick("taken by another at", st.one_of(st.none(), st.sampled_from(TIMES)))
        _LeaseCase(case, calls, fails, _number(taken_at)).play()
        return Outcome.ABSORBED


def _number(value: Any) -> float | None:
    return None if value is None else float(value)


class _LeaseCase:
    """One case: the time source, the lease, and its expected state."""

    def __init__(self, case: Case, calls: list[_CallEnds], fails: int | None, taken_at: float | None) -> None:
        self.case = case
        self.time = _TimeSource()
        self.calls = calls
        self.run = case.run_id()
        self._store = case.store
        self._fails = fails
        self._taken = taken_at
        self._other: Lease | None = None
        self._wrong = ""
        entry = Entry(0, b"first", digest_of(b"first"))
        append = Append(self.run, -1, [entry], "RUNNING", START / 1e6, False)
        lease = self._store.create(append, "kept", "ann", SECONDS)
        assert lease is not None, "a new run is made"
        self.lease = lease

    @property
    def ends(self) -> float:
        """The time at which the last call has ended or is abandoned, in seconds."""
        return max(min(max(call.ends), 1e9 if call.until is None else call.until) for call in self.calls)

    def play(self) -> None:
        """Hold the lease to the end."""
        clock = _Clock(self.time)
        left = [
            Abandoned(tuple(cast(Any, _Ends(self.time, at, self._look)) for at in call.ends), call.until)
            for call in self.calls
        ]
        module: Any = keeping
        before, module.time = module.time, self.time
        try:
            keeper = LeaseKeeper(_Failing(self._store, self._fails), clock, self.lease, SECONDS, left)
            keeper.start()
            keeper._thread.join(callers.PATIENCE_SECONDS)
            is_left, row = keeper._thread.is_alive(), self._store.row(self.run)
            keeper.release()  # if a broken keeper has not done so
        finally:
            module.time = before
        self.case.count()
        self._hold(not is_left, "whoever keeps a lease does not come to an end")
        self._hold(not self._wrong, self._wrong)
        assert row is not None, "the run is there"
        if self._other is not None:
            self._hold(row.expires == self._other.expires, "the lease of another was renewed or given back")
            return
        self._hold(row.expires == 0.0, "all calls have ended, and the lease is kept")
        is_then = abs(self.time.seconds - self.ends) < 0.01
        self._hold(is_then, f"the lease was given back after {self.time.seconds} s, not after {self.ends}")

    def _look(self) -> None:
        """Check that the lease lasts. Another machine may take the run, as a person may who overrides a lease."""
        now = START / 1e6 + self.time.seconds
        row = self._store.row(self.run)
        assert row is not None, "the run is there"
        if self._other is None and self._taken is not None and self.time.seconds >= self._taken:
            self._other = self._store.acquire(self.run, "bob", row.expires, 10 * SECONDS)
        elif self._other is None and self.time.seconds < self.ends:
            least = now if self._fails is None else now - 0.002
            if not least < row.expires <= now + SECONDS + 0.002:
                self._wrong = f"after {self.time.seconds} s the lease lasts for {row.expires - now:f} s more"

    def _hold(self, is_met: bool, what: str) -> None:
        self.case.hold(is_met, Invariant.DRIVER, what)


SOON: Final = 0.05
"""A time-out in seconds that expires during a case."""

PATIENCE: Final = 4.0
"""The time limit, in seconds, for the release of the lease. A replay of a breach waits that long."""


class CallerCancelledForGood(callers.CallerCancelledInTool):
    """The task of a caller is cancelled while a tool with a time-out runs in a thread and never ends. Another machine
    requests the run after the time-out."""

    action = "cancelled while a tool continues after its time-out"
    defence = "the lease is held as long as somebody waits for the tool, and is then released"
    weight = 4
    needs = (Need("no tool writes or suspends", lambda target: any(_can_hang(call) for call in target.calls.values())),)

    def play(self, case: Case) -> Outcome:
        """Check that the lease is released although the tool continues."""
        from hypothesis import strategies as st

        names = sorted(call.id for call in case.target.calls.values() if _can_hang(call))
        name = case.pick("hangs", st.sampled_from(names))

        def change(data: dict[str, Any]) -> None:
            call_in(data, name)["timeout_seconds"] = SOON

        target = variant(case.target, f"{name} has little time", change)
        trial = Trial(case, target=target, faults=False)
        trial.clock = callers._Tasks()
        tools = _HangsIn(ProcessTools(trial.world, Points()), name)
        try:
            return self._played(trial, tools)
        finally:
            tools.let_go()

    def _played(self, trial: Trial, tools: callers._GoesOn) -> Outcome:
        case = trial.case
        machine = trial.machine(around=lambda _: tools)
        task = case.do(
            callers._start(machine.run(trial.target.program, trial.inputs, run_id=trial.run, by=trial.by), tools)
        )
        call = case.needs(tools.call_plan)
        case.act(f"the caller is cancelled while `{call.id}` runs, which never ends")
        case.do(callers._cancelled(task))
        self._wait_for_the_lease(trial, PATIENCE)
        try:
            case.do(trial.machine().get(trial.run))
            case.do(trial.machine().cancel(trial.run))
        except RunBusy as error:
            raise Breach(self.invariant, f"a tool that nobody waits for keeps the run: {error}") from None
        tools.let_go()
        case.do(tools.ended())
        return Outcome.ABSORBED


def _can_hang(call: Any) -> bool:
    return call.has_intent and not call.is_model


class _HangsIn(callers._GoesOn):
    """Tools of which the first call of a step continues until `let_go`."""

    def __init__(self, inner: ProcessTools, step: str) -> None:
        super().__init__(inner, 0, callers.FORMS[0])
        self._step = step

    async def call(self, name: str, args: Mapping[str, Any], context: ToolContext) -> Any:
        if context.step != self._step or self.call_plan is not None:
            return await self._inner.call(name, args, context)
        self._left = 0
        asking, _ = await self._inner.met(name, args, context)
        self.call_plan = asking.call
        self.here.set()
        await _in_a_thread(self, name, context)
        return None


async def _in_a_thread(tools: callers._GoesOn, name: str, context: ToolContext) -> None:
    from stepward.vm.machine.tools import FunctionTools

    await FunctionTools({name: tools._wait}).call(name, {}, context)
