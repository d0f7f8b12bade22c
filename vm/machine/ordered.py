"""Performs calls that start while others go on: sub-steps with `depends_on`, and the calls of branches."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol, cast

from stepward.vm.journal.store import LeaseLost
from stepward.vm.machine.calls import used_up
from stepward.vm.machine.decide import NOBODY, decide_within, is_near_budget
from stepward.vm.machine.events import Action, Call, Calls, Event
from stepward.vm.machine.forks import after_branch, may_start, number_at, seen_by
from stepward.vm.machine.holding import look
from stepward.vm.machine.keys import FrameName
from stepward.vm.machine.memory import Memory, UnderWay
from stepward.vm.machine.plan import Plan
from stepward.vm.machine.setup import Setup
from stepward.vm.machine.state import State
from stepward.vm.machine.timely import is_out_of_time, next_action, seconds_left

MAX_PENDING: Final = 256
"""Maximal number of records that wait for the next commit."""

_Key = tuple[FrameName, int]

Asleep = Callable[[], AbstractContextManager[None]]
"""Returns the context of a sleep."""


class Driver(Protocol):
    """What drives a run."""

    plan: Plan
    state: State
    setup: Setup
    pending: list[Any]
    memory: Memory | None

    def stops(self) -> bool:
        """Return whether this machine starts no call any more."""

    async def flush(self) -> None:
        """Append the pending records."""

    def record(self, event: Event, at: int = 0, own: State | None = None) -> State:
        """Apply an event to the run, or to the state of a branch, and add its record to the next commit."""

    def put(self, state: State) -> None:
        """Put the state after some records in place."""

    async def attempt(self, call: Call) -> None:
        """Make an attempt of a call of the present step, and record its outcome."""

    async def pause(self, call: Call, asleep: Asleep) -> None:
        """Wait before an attempt that is not the first; each sleep is in a context of `asleep`."""

    def share_flushes(self) -> None:
        """Let one flush at a time run, because several calls are about to be under way."""


async def keep_going(driver: Driver) -> None:
    """Make the attempts of the present step of a run, until none is under way and none may be made.

    If an attempt raises, or if the run is to end, no other one starts, and those under way finish first.
    """
    driver.share_flushes()
    members = _Members(driver)
    try:
        while await members.start_more():
            seconds = await members.until_due()
            await asyncio.wait(members.tasks.values(), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            members.gather()
    finally:
        # Only if the caller was interrupted some are left.
        for task in members.tasks.values():
            task.cancel()
        if members.tasks:
            await asyncio.gather(*members.tasks.values(), return_exceptions=True)
    for error in sorted(members.errors, key=lambda error: isinstance(error, LeaseLost)):
        raise error


@dataclass(slots=True)
class _Decided:
    """The state in which calls were decided; `holds` says whether it was the same when the first of them started."""

    state: State
    holds: bool | None = None


class _Members:
    """The calls that go on in this process, or wait to be tried again, and what they raised.

    A call is known by its frame, and its position in its step.
    """

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.tasks: dict[_Key, asyncio.Task[None]] = {}
        self.errors: list[BaseException] = []
        self._asleep: set[_Key] = set()
        self._stops = False

    async def start_more(self) -> bool:
        """Record what is to be recorded, and start what may start; return whether something is under way."""
        driver, breakers = self.driver, self.driver.setup.breakers
        while self._has_room():
            if breakers.is_stale:
                await self._look()
            if self.errors:
                break
            under_way = frozenset(self.tasks) if self.tasks else NOBODY
            action = next_action(driver, under_way)
            if isinstance(action, Calls):
                decided = _Decided(driver.state)
                for call in action.calls:
                    assert (call.frame, call.sub) not in self.tasks, "a call that is under way is not to be made"
                    # Not by `create_task`: a factory of the loop could start it before it is known.
                    self.tasks[call.frame, call.sub] = asyncio.Task(
                        self._make(call, decided), loop=asyncio.get_running_loop()
                    )
                if driver.state.fork is not None:
                    await asyncio.sleep(0)  # each records its start, which the next decision knows
                    self.gather()
                    continue
            if not isinstance(action, Event) or self._is_last(action):
                break
            if "ends" in action.body:
                self._stop_sleepers()
                break
            self._record(action, under_way)
        if self.errors:
            self._stop_sleepers()
        return bool(self.tasks)

    def _has_room(self) -> bool:
        return not self.driver.stops() and len(self.driver.pending) < MAX_PENDING

    def _record(self, event: Event, under_way: UnderWay) -> None:
        """Record an event, and those that come next, as long as no call is to be made before them."""
        after: Event | None = event
        while after is not None:
            after = self._record_in_branch(after, under_way)

    def _record_in_branch(self, event: Event, under_way: UnderWay) -> Event | None:
        """Record an event, and what comes next in the branch where it happened, as long as that is an event, too;
        return the event of another branch that comes next, if that is known.

        The branch was the first one with an event, and its siblings do nothing new until something has changed that
        they read. So the records are those of a run that is asked behind each event, and the state of the branch is put
        back into that of the run once.
        """
        driver, plan, state, memory = self.driver, self.driver.plan, self.driver.state, self.driver.memory
        number = number_at(state, event)
        if number is None or memory is None or plan.waits or plan.one_by_one:
            driver.record(event)
            return None
        own, action = seen_by(plan, state, number), cast(Action | None, event)
        rules, may_go_on = own.monitors, True
        try:
            while type(action) is Event and "ends" not in action.body:
                own = driver.record(action, own=own)
                may_go_on = own.monitors is rules and self._may_go_on(own)
                may_ask = may_go_on and own.result is None
                action = decide_within(plan, own, number, under_way, memory) if may_ask else None
        finally:
            driver.put(after_branch(plan, state, number, own))
        fork = driver.state.fork
        if fork is None or not may_go_on or type(action) is Event:
            return None
        if action is None:
            memory.forget(number)
        else:
            memory.keep(number, fork.branches[number], action)
        return memory.next_event(may_start(plan, fork))

    def _may_go_on(self, own: State) -> bool:
        """Return whether nothing but a branch says what comes next; `own` is the state as it sees it."""
        driver = self.driver
        return (
            self._has_room() and not is_near_budget(driver.plan, own) and not (own.ends_by and is_out_of_time(driver))
        )

    async def _look(self) -> None:
        """Ask which breakers are open, for the next decision."""
        try:
            await look(self.driver)
        except Exception as error:  # the calls under way come back first
            self.errors.append(error)
        self.gather()  # some may have come back meanwhile

    async def until_due(self) -> float | None:
        """Return the seconds until a wait is over; None without a wait, or if no call may start any more."""
        left = None if self.errors or self._stops else seconds_left(self.driver)
        try:
            if left is not None:
                await self.driver.flush()  # else a crash would begin the wait anew
            return left
        except Exception as error:  # the calls under way come back first
            self.errors.append(error)
            self._stop_sleepers()
            return None

    def _is_last(self, action: Event) -> bool:
        """Return whether an event ends the step whose calls these are: the driver records it."""
        return action.kind == "joined" and action.body.get("frame", ()) == self.driver.state.frame

    def _stop_sleepers(self) -> None:
        self._stops = True
        for key in self._asleep:
            self.tasks[key].cancel()

    async def _make(self, call: Call, decided: _Decided) -> None:
        """Make an attempt; one that is not the first waits before it starts."""
        if self._is_overtaken(call, decided):
            return  # the next decision knows what has happened, such as what is left of a budget
        if call.is_retry and not call.is_started:
            await self.driver.pause(call, partial(self._sleep, (call.frame, call.sub)))
            if self._stops or not self._is_affordable(call):
                return
            call = call._replace(is_retry=False)
        await self.driver.attempt(call)

    def _is_overtaken(self, call: Call, decided: _Decided) -> bool:
        """Return whether something has happened between a decision and the start of its first call.

        That matters in branches, where others go on. The calls behind the first one start in the same turn of the loop.
        """
        state = self.driver.state
        if decided.holds is None:
            decided.holds = state is decided.state or state.fork is None
        return not decided.holds and not call.is_started and self.driver.plan.calls[call.step].has_intent

    def _is_affordable(self, call: Call) -> bool:
        """Return whether a call may start after a delay, in which replies to others may have used up a budget.

        If not, the run ends by the next decision about the call.
        """
        return call.args is not None or used_up(self.driver.plan, self.driver.state) is None

    @contextmanager
    def _sleep(self, key: _Key) -> Iterator[None]:
        """Let a call sleep until the run is to end. Only a sleep is cancelled, never an append between two."""
        if self._stops:
            raise asyncio.CancelledError
        self._asleep.add(key)
        try:
            yield
        finally:
            self._asleep.discard(key)

    def gather(self) -> None:
        """Forget the attempts that ended, and keep what they raised."""
        for key, task in list(self.tasks.items()):
            if task.done():
                del self.tasks[key]
                if not task.cancelled() and (error := task.exception()) is not None:
                    self.errors.append(error)
