"""Time: the caller of a run is cancelled during the run, as by a time limit or a closed request."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Iterable, Mapping
from typing import Any, Final, TypeVar

from stepward.sabotage.attack import Attack, Family, Need
from stepward.sabotage.attacks.drivers import DriverAttack, is_inside, paused
from stepward.sabotage.invariants import Breach, Invariant, Outcome
from stepward.sabotage.playing.case import Case
from stepward.sabotage.playing.machines import WatchedStore
from stepward.sabotage.playing.points import Points
from stepward.sabotage.playing.trial import Trial
from stepward.sabotage.playing.world import AroundTools, ProcessTools, WorldClock, result_of
from stepward.sabotage.target import Target
from stepward.vm.machine.clock import SystemClock
from stepward.vm.machine.plan import CallPlan
from stepward.vm.machine.refusals import RunBusy
from stepward.vm.machine.run import Run
from stepward.vm.machine.tools import FunctionTools, ToolContext

T = TypeVar("T")

FORMS: Final = ("a thread", "a coroutine that does not let itself be stopped")
"""The forms of a tool that continue after the caller was cancelled."""

LEAST_TIME_OUT: Final = 10.0
"""The least time-out, in seconds, that outlasts a case: the machine measures it by its own clock."""

PATIENCE_SECONDS: Final = 60
"""The time limit, in seconds, for a thread to end and for the lease to be released; both are immediate."""

TURNS: Final = 20
"""The number of turns of the event loop after which a cancelled task has ended if it can be stopped."""

LAST_CALL: Final = 3
"""The number of the last call in which a caller is cancelled, counted from 0."""


class _Blocking(WatchedStore):
    """A blocking store, so that a caller can be cancelled during its calls."""

    blocks = True


class CallerCancelled(DriverAttack):
    """The task of the caller is cancelled at every point of the run. These are the points after each call of the store,
    and during each call of a tool or a model that ends with its caller."""

    surface = "task of the caller"
    action = "cancelled while it drives a run"
    defence = "a cancelled caller releases its lease, and the next machine starts from the journal"
    enumerates = "the points after every call of the store, and before and after every call of a tool or model"

    def play(self, case: Case) -> Outcome:
        """Check that another machine can continue at once, and that everything happens once."""
        outcome = Outcome.NOT_APPLICABLE
        whole = _blocking(case).rehearse()
        for number in case.each("the driver stands still at point", range(len(whole.passed))):
            if whole.passed[number].startswith("before ") and not is_inside(whole.passed[number]):
                continue  # a call of the store is not stopped once it has begun
            trial = _blocking(case)
            with paused(trial, number) as process:
                if process.point is None:
                    continue
                outcome = Outcome.ABSORBED
                case.act("its caller is cancelled")
                process.cancel()
                _is_given_back(trial)
                trial.oracle.forget()
                trial.oracle.judge(trial.carry_on(trial.found() or trial.start()))
        return outcome


def _blocking(case: Case) -> Trial:
    trial = Trial(case, faults=False)
    trial.store = _Blocking(trial.store.inner, trial.oracle)
    return trial


def _is_given_back(trial: Trial) -> None:
    """Raise Breach if a machine holds the lease of the run."""
    row = trial.store.inner.row(trial.run)
    is_held = row is not None and row.status == "RUNNING" and row.expires > trial.clock.time / 1e6
    trial.case.hold(not is_held, Invariant.DRIVER, "nothing of a cancelled caller goes on, and it keeps its lease")


class _Tasks(WorldClock):
    """A clock that runs limited work in its own task, as the clock of the product does."""

    async def limit(self, awaited: Awaitable[T], seconds: float) -> T:
        """Return the awaited result. Raises TimeoutError if it is too late."""
        return await super().limit(SystemClock().limit(awaited, 1e6), seconds)


class _GoesOn(AroundTools[ProcessTools]):
    """Tools of which one call continues until `let_go`, even if its caller is cancelled.

    `here` is set once the call is under way. The event loop blocks while a thread ends, so that a seed is reproducible.
    """

    def __init__(self, inner: ProcessTools, number: int, form: str) -> None:
        super().__init__(inner)
        self.here = asyncio.Event()
        self.call_plan: CallPlan | None = None
        self._left = number
        self._form = form
        self._way = threading.Event()
        self._threads: list[threading.Thread] = []
        self._task: asyncio.Task[Any] | None = None

    async def call(self, name: str, args: Mapping[str, Any], context: ToolContext) -> Any:
        """Return the output of a tool."""
        asking, answer = await self._inner.met(name, args, context)
        if not can_go_on(asking.call):
            return result_of(asking.call, answer)
        self._left -= 1
        if self._left != -1:
            return result_of(asking.call, answer)
        self.call_plan = asking.call
        self.here.set()
        if self._form == FORMS[0]:
            await FunctionTools({name: self._wait}).call(name, {}, context)
        else:
            self._task = asyncio.current_task()
            await self._refuse_to_end()
        return result_of(asking.call, answer)

    def _wait(self) -> None:
        self._threads.append(threading.current_thread())
        self._way.wait(PATIENCE_SECONDS)

    async def _refuse_to_end(self) -> None:
        while not self._way.is_set():
            try:
                await asyncio.sleep(0)
            except asyncio.CancelledError:
                continue

    def let_go(self) -> None:
        """Let the call end."""
        self._way.set()

    async def ended(self) -> None:
        """Wait until the call has ended."""
        for thread in self._threads:
            await asyncio.to_thread(thread.join, PATIENCE_SECONDS)
        if self._task is not None and not self._task.done():
            await asyncio.wait({self._task})


def can_go_on(call: CallPlan) -> bool:
    """Whether the machine waits for a call without a caller for longer than a case takes."""
    return call.has_intent and (call.timeout is None or call.timeout >= LEAST_TIME_OUT)


class CallerCancelledInTool(Attack):
    """The task of the caller is cancelled while a tool runs that continues without it, in a thread or in a coroutine
    that ignores cancellation. Then another machine requests the run."""

    family = Family.TIME
    surface = "task of the caller"
    action = "cancelled while a tool continues"
    invariant = Invariant.DRIVER
    defence = "the lease is held as long as the tool runs, and is then released"
    needs = (Need("no tool writes or suspends for ten seconds", lambda target: any(map(can_go_on, _tools(target)))),)

    def play(self, case: Case) -> Outcome:
        """Check that no machine gets the run while the tool runs, and that any machine gets it afterwards."""
        from hypothesis import strategies as st

        number = case.pick("the caller is cancelled in call", st.integers(0, LAST_CALL))
        form = case.pick("what goes on is", st.sampled_from(FORMS))
        trial = Trial(case, faults=False)
        trial.clock = _Tasks()
        points = Points()
        tools = _GoesOn(ProcessTools(trial.world, points), number, form)
        try:
            return self._play(trial, tools, points, form)
        finally:
            tools.let_go()

    def _play(self, trial: Trial, tools: _GoesOn, points: Points, form: str) -> Outcome:
        case = trial.case
        machine = trial.machine(points, around=lambda _: tools)
        task = case.do(_start(machine.run(case.target.program, trial.inputs, run_id=trial.run, by=trial.by), tools))
        call = case.needs(tools.call_plan)
        case.act(f"the caller is cancelled while `{call.id}` runs, and {form} goes on")
        case.do(_cancelled(task))
        self._recover(trial, call)
        case.log(f"`{call.id}` ends")
        tools.let_go()
        case.do(tools.ended())
        case.do(asyncio.wait({task}))
        if task.cancelled():
            self._wait_for_the_lease(trial)
            trial.oracle.forget()
            trial.oracle.judge(trial.carry_on(trial.reload()))
            return Outcome.BLOCKED
        run = task.result()
        case.hold(isinstance(run, Run), Invariant.DRIVER, f"the caller came to {run}")
        trial.oracle.judge(trial.carry_on(run))
        return Outcome.BLOCKED

    def _recover(self, trial: Trial, call: CallPlan) -> None:
        case, calls_before = trial.case, len(trial.world.attempts)
        case.act("a second machine recovers the run")
        try:
            case.do(trial.machine().recover(trial.run))
        except RunBusy:
            case.hold(
                len(trial.world.attempts) == calls_before, Invariant.ONCE, "a second machine has called something"
            )
            return
        raise Breach(Invariant.DRIVER, f"a second machine was given the run while `{call.id}` is under way")

    def _wait_for_the_lease(self, trial: Trial, patience: float = PATIENCE_SECONDS) -> None:
        """Wait for the thread that gives the lease back."""
        until = time.monotonic() + patience
        while time.monotonic() < until:
            row = trial.store.inner.row(trial.run)
            if row is None or row.expires <= trial.clock.time / 1e6:
                return
            time.sleep(0.001)
        raise Breach(Invariant.DRIVER, "the tool of a cancelled caller has ended, and its lease is kept")


def _tools(target: Target) -> Iterable[CallPlan]:
    return (call for call in target.calls.values() if not call.is_model)


async def _start(work: Awaitable[Any], tools: _GoesOn) -> asyncio.Future[Any]:
    """Start a run. Return the task once the call is under way, or the run has stopped without it."""
    task = asyncio.ensure_future(work)
    here = asyncio.ensure_future(tools.here.wait())
    await asyncio.wait({task, here}, return_when=asyncio.FIRST_COMPLETED)
    here.cancel()
    if tools.call_plan is None:
        await task
    return task


async def _cancelled(task: asyncio.Future[Any]) -> None:
    """Cancel a task and give it time to end."""
    task.cancel()
    for _ in range(TURNS):
        await asyncio.sleep(0)
