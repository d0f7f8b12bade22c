"""Time: the caller of a run is cancelled while the run goes on, as its time limit or a closed request does it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Iterable, Mapping
from typing import Any, Final, TypeVar

from stepward.sabotage.attack import Attack, Family
from stepward.sabotage.attacks.drivers import DriverAttack, is_inside, paused
from stepward.sabotage.invariants import Breach, Invariant, Outcome
from stepward.sabotage.playing.case import Case
from stepward.sabotage.playing.machines import WatchedStore
from stepward.sabotage.playing.points import Points
from stepward.sabotage.playing.trial import Trial
from stepward.sabotage.playing.world import ProcessTools, WorldClock, given
from stepward.sabotage.target import Target
from stepward.vm.machine.clock import SystemClock
from stepward.vm.machine.plan import CallPlan
from stepward.vm.machine.refusals import RunBusy
from stepward.vm.machine.run import Run
from stepward.vm.machine.tools import FunctionTools, ToolContext

T = TypeVar("T")

FORMS: Final = ("a thread", "a coroutine that does not let itself be stopped")
"""What of a tool goes on after its caller was cancelled."""

LEAST_TIME_OUT: Final = 10.0
"""Seconds of a time-out that is not over before a case is: the machine measures it by a clock of its own."""

PATIENCE_SECONDS: Final = 60
"""How long a thread may take to end, and the lease to be given back: nothing of it takes time."""

TURNS: Final = 20
"""Turns of the event loop within which a task that was cancelled has ended, if it lets itself be stopped."""

LAST_CALL: Final = 3
"""The number of the last call in which a caller is cancelled, counted from 0."""


class _Blocking(WatchedStore):
    """A store whose calls wait for the disk, so that a caller can be cancelled meanwhile."""

    blocks = True


class CallerCancelled(DriverAttack):
    """The task of whoever called for the run is cancelled at every point of the run: once a call of the store has
    landed, and while a tool or a model is asked that ends with its caller."""

    name = "caller-cancelled"
    surface = "task of the caller"
    action = "cancelled while it drives a run"
    defence = "a caller that is cancelled gives its lease back, and the next one starts from what the journal has"
    enumerates = "every call of the store that has landed, and every call of a tool or model, before and after"

    def play(self, case: Case) -> Outcome:
        """See that another machine can go on at once, and that everything happens once."""
        outcome = Outcome.NOT_APPLICABLE
        whole = Points()
        trial = _blocking(case)
        trial.carry_on(trial.start(trial.machine(whole)))
        case.story.clear()
        for number in case.each("the driver stands still at point", len(whole.passed)):
            if whole.passed[number].startswith("before ") and not is_inside(whole.passed[number]):
                continue  # a call of the store that has begun is not stopped
            trial = _blocking(case)
            with paused(trial, number) as process:
                if process.point is None:
                    continue
                outcome = Outcome.ABSORBED
                case.log("its caller is cancelled")
                case.count()
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
    """See that nobody holds the run. Raises Breach."""
    row = trial.store.inner.row(trial.run)
    is_held = row is not None and row.status == "RUNNING" and row.expires > trial.clock.time / 1e6
    trial.case.hold(not is_held, Invariant.DRIVER, "nothing of a cancelled caller goes on, and it keeps its lease")


class _Tasks(WorldClock):
    """A clock that has what is limited done in a task of its own, as that of the product does."""

    async def limit(self, awaited: Awaitable[T], seconds: float) -> T:
        """Return what is awaited; raises TimeoutError when that is too late."""
        return await super().limit(SystemClock().limit(awaited, 1e6), seconds)


class _GoesOn:
    """The tools of a process, of which one call goes on until it is let, whoever is cancelled meanwhile.

    `here` is set once it is under way. The loop stands still while a thread ends, so that one seed is one story.
    """

    def __init__(self, inner: ProcessTools, number: int, form: str) -> None:
        self.here = asyncio.Event()
        self.call_plan: CallPlan | None = None
        self._inner = inner
        self._left = number
        self._form = form
        self._way = threading.Event()
        self._threads: list[threading.Thread] = []
        self._task: asyncio.Task[Any] | None = None

    def has(self, name: str) -> bool:
        """Return whether there is a tool of that name."""
        return self._inner.has(name)

    def call(self, name: str, args: Mapping[str, Any], context: ToolContext) -> Awaitable[Any]:
        """Return what to await for the output of a tool."""
        return self._call(name, args, context)

    async def _call(self, name: str, args: Mapping[str, Any], context: ToolContext) -> Any:
        asking, answer = await self._inner.met(name, args, context)
        if not can_go_on(asking.call):
            return given(asking.call, answer)
        self._left -= 1
        if self._left != -1:
            return given(asking.call, answer)
        self.call_plan = asking.call
        self.here.set()
        if self._form == FORMS[0]:
            await FunctionTools({name: self._wait}).call(name, {}, context)
        else:
            self._task = asyncio.current_task()
            await self._refuse_to_end()
        return given(asking.call, answer)

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
        """Have the call end."""
        self._way.set()

    async def ended(self) -> None:
        """Wait until nothing of the call is under way."""
        for thread in self._threads:
            await asyncio.to_thread(thread.join, PATIENCE_SECONDS)
        if self._task is not None and not self._task.done():
            await asyncio.wait({self._task})


def can_go_on(call: CallPlan) -> bool:
    """Whether the machine waits for a call whose caller is gone, for longer than a case takes."""
    return call.has_intent and (call.timeout is None or call.timeout >= LEAST_TIME_OUT)


class CallerCancelledInTool(Attack):
    """The task of whoever called for the run is cancelled while a tool runs that goes on without it, in a thread or in
    a coroutine that does not let itself be stopped; and somebody else asks for the run."""

    name = "caller-cancelled-in-tool"
    family = Family.TIME
    surface = "task of the caller"
    action = "cancelled while a tool goes on"
    invariant = Invariant.DRIVER
    defence = "the lease is kept as long as the tool runs, and given back once it has ended"
    severity = "critical"

    def misses(self, target: Target) -> str | None:
        """It needs a tool that writes or may suspend."""
        return None if any(map(can_go_on, _tools(target))) else "no tool writes or suspends for ten seconds"

    def play(self, case: Case) -> Outcome:
        """See that nobody gets the run while the tool runs, and that anybody gets it afterwards."""
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
        task = case.do(_begun(machine.run(case.target.program, trial.inputs, run_id=trial.run), tools))
        call = tools.call_plan
        if call is None:
            return Outcome.NOT_APPLICABLE
        case.log(f"the caller is cancelled while `{call.id}` runs, and {form} goes on")
        case.count()
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
        case, asked = trial.case, len(trial.world.asked)
        case.log("a second machine recovers the run")
        case.count()
        try:
            case.do(trial.machine().recover(trial.run))
        except RunBusy:
            case.hold(len(trial.world.asked) == asked, Invariant.ONCE, "a second machine has called something")
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


async def _begun(work: Awaitable[Any], tools: _GoesOn) -> asyncio.Future[Any]:
    """Begin to run; return the task once the call is under way, or the run has stopped without one."""
    task = asyncio.ensure_future(work)
    here = asyncio.ensure_future(tools.here.wait())
    await asyncio.wait({task, here}, return_when=asyncio.FIRST_COMPLETED)
    here.cancel()
    if tools.call_plan is None:
        await task
    return task


async def _cancelled(task: asyncio.Future[Any]) -> None:
    """Cancel a task, and give it time to end."""
    task.cancel()
    for _ in range(TURNS):
        await asyncio.sleep(0)


ATTACKS: Final[tuple[type[Attack], ...]] = (CallerCancelled, CallerCancelledInTool)
