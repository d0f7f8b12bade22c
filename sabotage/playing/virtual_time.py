"""Virtual time: an event loop whose clock jumps to the next event, and the machine's clock on it.

Everything that the machine does after a delay (renewals, time-outs, pauses) happens in its order and at its time, by
the code of the product. Equal seeds give equal runs.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, Protocol, TypeVar, TypeVarTuple

from stepward.vm.machine.clock import SystemClock

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

START: Final = 1_767_225_600_000_000
"""The time at which a case begins, in microseconds since the epoch."""


class _Leaping(selectors.DefaultSelector):
    """A selector that does not wait but advances the time."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds = 0.0

    def select(self, timeout: float | None = None) -> Any:
        """Return what is ready. If nothing is, advance the time by `timeout`; without a timeout, really wait."""
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
        """Return the seconds since the loop began."""
        return self.leaping.seconds

    def run_in_executor(self, executor: Any, func: Callable[[*Ts], T], *args: *Ts) -> asyncio.Future[T]:
        """Call the function here and now: the time would leap on while a thread waits for a server."""
        del executor
        future: asyncio.Future[T] = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:  # whoever awaits it gets it
            future.set_exception(error)
        return future


class VirtualClock(SystemClock):
    """The clock of the product on the time of a virtual loop."""

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
    """An object that runs on an event loop: a case."""

    runner: asyncio.Runner


@contextmanager
def virtual_time(case: Runs) -> Iterator[VirtualClock]:
    """Play a case on a loop with virtual time, and yield the clock for its trials."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        before, case.runner = case.runner, runner
        try:
            yield VirtualClock(runner.get_loop())
        finally:
            case.runner = before
