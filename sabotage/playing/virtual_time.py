"""Time that nobody waits for: an event loop whose clock leaps to what comes next, and the machine's clock on it.

Everything that the machine does after some seconds, renewals, time-outs and pauses, happens in its order and at its
time, by the code of the product, and one seed is one story.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, Protocol

from stepward.vm.machine.clock import SystemClock

START: Final = 1_767_225_600_000_000
"""Microseconds since the epoch at which a case begins."""


class _Leaping(selectors.DefaultSelector):
    """A selector that does not wait: time goes on by as much instead."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds = 0.0

    def select(self, timeout: float | None = None) -> Any:
        """Return what is ready; where nothing is, let so many seconds go by. Waits where no time is said."""
        if timeout is None:
            return super().select(None)
        ready = super().select(0)
        if not ready and timeout > 0:
            self.seconds += timeout
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop in which waiting takes no time."""

    def __init__(self) -> None:
        self.leaping = _Leaping()
        super().__init__(self.leaping)

    def time(self) -> float:
        """Return the seconds that have gone by."""
        return self.leaping.seconds


class VirtualClock(SystemClock):
    """The clock of the product, on the time of such a loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._ahead = 0

    @property
    def time(self) -> int:
        """Microseconds since the epoch."""
        return START + round(self._loop.time() * 1_000_000) + self._ahead

    @time.setter
    def time(self, now: int) -> None:
        self._ahead += now - self.time

    def now(self) -> int:
        """Return microseconds since the epoch."""
        return self.time


class Runs(Protocol):
    """What plays on a loop: a case."""

    runner: asyncio.Runner


@contextmanager
def virtual_time(case: Runs) -> Iterator[VirtualClock]:
    """Have a case play on a loop whose time is virtual, and return the clock for its trials."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        before, case.runner = case.runner, runner
        try:
            yield VirtualClock(runner.get_loop())
        finally:
            case.runner = before
