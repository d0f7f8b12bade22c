"""The clocks of the shell. The core has no clock: times reach it in events."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from typing import Final, Protocol, TypeVar

from stepward.vm.arguments import COUNT, require
from stepward.vm.journal.canonical import LARGEST

T = TypeVar("T")

FIRST: Final = 0
LAST: Final = LARGEST
"""The first and the last time of a record, in microseconds since 1970; the last is in 2255."""


class Clock(Protocol):
    """A clock that also waits between attempts, and limits the time of calls."""

    def now(self) -> int:
        """Return microseconds since the epoch."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        ...

    async def limit(self, awaited: Awaitable[T], seconds: float) -> T:
        """Return the result of `awaited`; raises TimeoutError after `seconds`, without waiting for its cancellation."""
        ...


class DatedClock:
    """A clock of somebody else bounded to FIRST and LAST, because leases and records can't hold other times."""

    def __init__(self, inner: Clock) -> None:
        self.sleep = inner.sleep
        self.limit = inner.limit
        self._inner = inner

    def now(self) -> int:
        """Return microseconds since the epoch."""
        at = self._inner.now()
        return at if FIRST <= at <= LAST else min(max(at, FIRST), LAST)


class SystemClock:
    """The clock of this machine; no system lets it be set before FIRST, or behind LAST."""

    def now(self) -> int:
        """Return microseconds since the epoch."""
        return time.time_ns() // 1000

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)

    async def limit(self, awaited: Awaitable[T], seconds: float) -> T:
        """Return the result of `awaited`; raises TimeoutError once `seconds` have passed."""
        task = asyncio.ensure_future(awaited)
        try:
            # Not `wait_for`: that waits for a cancelled task, and a task may refuse to be cancelled.
            done, _ = await asyncio.wait({task}, timeout=seconds)
        except asyncio.CancelledError:
            task.cancel()
            raise
        if not done:
            task.cancel()
            raise TimeoutError
        return task.result()


class ManualClock:
    """A clock for tests and replays: waiting takes no time, but advances the clock."""

    def __init__(self, start: int = 1_767_225_600_000_000, tick: int = 1) -> None:
        require(COUNT, start=start, tick=tick)
        self.time = start
        self.tick = tick
        self.slept: list[float] = []

    def now(self) -> int:
        """Advance the clock by one tick, and return the time."""
        self.time += self.tick
        return self.time

    async def sleep(self, seconds: float) -> None:
        """Advance the clock, and note the seconds in `slept`."""
        self.slept.append(seconds)
        self.time += int(seconds * 1_000_000)
        await asyncio.sleep(0)

    async def limit(self, awaited: Awaitable[T], seconds: float) -> T:
        """Return the result of `awaited`; raises TimeoutError if it advanced this clock by more than `seconds`."""
        before = self.time
        result = await awaited
        if self.time - before > seconds * 1_000_000:
            raise TimeoutError
        return result
