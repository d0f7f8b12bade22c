"""What befalls the processes of a random case: the clock leaps at readings of it, and a process dies at a write."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from random import Random
from typing import Any, Final, TypeVar

from stepward.sabotage.playing.points import Killed
from stepward.sabotage.stores.through import ThroughStore
from stepward.vm.journal.store import Journal
from stepward.vm.machine.clock import ManualClock

T = TypeVar("T")

LEAPS: Final = (0, 0, 0, 7, 11)
"""A process stops for longer than its lease at every n-th reading of the clock; 0 for never."""

SECONDS: Final = (61.0, 130.0)
"""The lengths of such a stop, longer than a lease."""

MOST_LEAPS: Final = 25
"""The largest number of leaps in a case, which therefore ends within its day if nothing in it waits for longer."""

A_DAY: Final = 86_400_000_000
"""Microseconds."""

WRITES: Final = (0, 0, 0, 1, 1, 1, 2, 2, 3, 4, 6, 9, 13)
"""The writes of a process at which it dies, counted from 0."""


class LeapingClock(ManualClock):
    """A clock that is far ahead at some readings, as for a process that was stopped just before.

    `is_even` switches the leaps off. `is_late` says that the call that returns next is late: other calls of a parallel
    step may be under way beside it, and their time does not run out with it.
    """

    def __init__(self, start: int, chance: Random) -> None:
        super().__init__(start)
        self.is_even = self.is_late = False
        self._chance = chance
        self._every = chance.choice(LEAPS)
        self._readings = self._leaps = 0

    def now(self) -> int:
        """Return microseconds since the epoch."""
        self._readings += 1
        if self._every and not self.is_even and self._leaps < MOST_LEAPS and self._readings % self._every == 0:
            self._leaps += 1
            later = self.time + int(self._chance.choice(SECONDS) * 1e6)
            if later // A_DAY == self.time // A_DAY:  # else a waiver may expire within one request
                self.time = later
        return super().now()

    async def limit(self, awaited: Awaitable[T], seconds: float) -> T:
        """Return the result of `awaited`; raises TimeoutError if that said that it is late."""
        del seconds
        result = await awaited
        is_late, self.is_late = self.is_late, False
        if is_late:
            raise TimeoutError
        return result


class MortalStore(ThroughStore):
    """The store of a process that dies before or after one of its writes, and does nothing from then on."""

    def __init__(self, inner: Journal, chance: Random) -> None:
        super().__init__(inner)
        self._left = chance.choice(WRITES)
        self._is_after = chance.random() < 0.5
        self._is_dead = False

    def write(self, function: Callable[..., T], *args: Any) -> T:
        """Write, or die."""
        self._left -= 1
        is_last = self._left == -1
        if self._is_dead or (is_last and not self._is_after):
            self._is_dead = True
            raise Killed("before a write")
        result = function(*args)
        if is_last:
            self._is_dead = True
            raise Killed("after a write")
        return result
