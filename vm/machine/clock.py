"""Time as the shell sees it. The core knows none: what it needs to know of time comes to it in events."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from typing import Final, Protocol, TypeVar

from stepward.vm.journal.canonical import LARGEST

T = TypeVar("T")

FIRST: Final = 0
LAST: Final = LARGEST
"""Microseconds since 1970 between which a record is dated; the last is in 2255."""


class Clock(Protocol):
    """Tells the time, waits between attempts, and gives up on what takes too long."""

    def now(self) -> int:
        """Return microseconds since the epoch."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        ...

    async def limit(self, awaited: Awaitable[T], seconds: float) -> T:
        """Return what is awaited; raises TimeoutError after `seconds`, and does not wait for what it stops."""
        ...


class DatedClock:
    """Another clock, whose hands stay between FIRST and LAST: no lease and no record can hold what is beyond."""

    def __init__(self, inner: Clock) -> None:
        self.sleep = inner.sleep
        self.limit = inner.limit
        self._now = inner.now

    def now(self) -> int:
        """Return microseconds since the epoch."""
        at = self._now()
        return at if FIRST <= at <= LAST else min(max(at, FIRST), LAST)


class SystemClock:
    """The clock of this machine."""

    def now(self) -> int:
        """Return microseconds since the epoch."""
        return time.time_ns() // 1000

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)

    async def limit(self, awaited: Awaitable[T], seconds: float) -> T:
        """Return what is awaited; raises TimeoutError once `seconds` have passed."""
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
    """A clock for tests and replays: waiting takes no time, it only moves the hands."""

    def __init__(self, start: int = 1_767_225_600_000_000, tick: int = 1) -> None:
        self.time = start
        self.tick = tick
        self.slept: list[float] = []

    def now(self) -> int:
        """Return the time, which moves on by one tick each time that somebody looks."""
        self.time += self.tick
        return self.time

    async def sleep(self, seconds: float) -> None:
        """Move the hands, and note that somebody would have waited."""
        self.slept.append(seconds)
        self.time += int(seconds * 1_000_000)
        await asyncio.sleep(0)

    async def limit(self, awaited: Awaitable[T], seconds: float) -> T:
        """Return what is awaited; raises TimeoutError when it moved this clock on by more than `seconds`."""
        before = self.time
        result = await awaited
        if self.time - before > seconds * 1_000_000:
            raise TimeoutError
        return result
