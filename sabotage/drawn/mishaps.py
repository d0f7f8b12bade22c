"""What befalls the processes of a random case: the clock leaps at readings of it, and a process dies at a write."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Any, Final, TypeVar

from stepward.sabotage.playing.points import Killed
from stepward.sabotage.stores.through import ThroughStore
from stepward.vm.journal.store import Append, Journal, Lease, Vault
from stepward.vm.machine.clock import ManualClock

T = TypeVar("T")

LEAPS: Final = (0, 0, 0, 7, 11)
"""A process stops for longer than its lease at every n-th reading of the clock; 0 for never."""

SECONDS: Final = (61.0, 130.0)
"""The lengths of such a stop, longer than a lease."""

MOST_LEAPS: Final = 25
"""The largest number of leaps in a case, which therefore ends within its day."""

WRITES: Final = (0, 0, 0, 1, 1, 1, 2, 2, 3, 4, 6, 9, 13)
"""The writes of a process at which it dies, counted from 0."""


class LeapingClock(ManualClock):
    """A clock that is far ahead at some readings, as for a process that was stopped just before.

    `is_even` switches the leaps off.
    """

    def __init__(self, start: int, chance: Random) -> None:
        super().__init__(start)
        self.is_even = False
        self._chance = chance
        self._every = chance.choice(LEAPS)
        self._readings = self._leaps = 0

    def now(self) -> int:
        """Return microseconds since the epoch."""
        self._readings += 1
        if self._every and not self.is_even and self._leaps < MOST_LEAPS and self._readings % self._every == 0:
            self._leaps += 1
            self.time += int(self._chance.choice(SECONDS) * 1e6)
        return super().now()


class MortalStore(ThroughStore):
    """The store of a process that dies before or after one of its writes, and does nothing from then on."""

    def __init__(self, inner: Journal, chance: Random) -> None:
        super().__init__(inner)
        self._left = chance.choice(WRITES)
        self._is_after = chance.random() < 0.5
        self._is_dead = False

    def _write(self, function: Callable[..., T], *args: Any) -> T:
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

    @property
    def vault(self) -> Vault:
        """The vault of sensitive values."""
        return _MortalVault(self.inner.vault, self._write)

    def create(self, append: Append, program: str, holder: str, ttl: float) -> Lease | None:
        """Make a run."""
        return self._write(self.inner.create, append, program, holder, ttl)

    def append(self, append: Append, fence: int | None) -> None:
        """Add entries."""
        self._write(self.inner.append, append, fence)

    def acquire(self, run: str, holder: str, now: float, ttl: float) -> Lease | None:
        """Lease a run."""
        return self._write(self.inner.acquire, run, holder, now, ttl)

    def renew(self, lease: Lease, now: float, ttl: float) -> Lease:
        """Make a lease last longer."""
        return self._write(self.inner.renew, lease, now, ttl)

    def release(self, lease: Lease) -> None:
        """Give a lease back."""
        self._write(self.inner.release, lease)

    def put_document(self, digest: str, text: bytes) -> None:
        """Store a document."""
        self._write(self.inner.put_document, digest, text)


class _MortalVault:
    def __init__(self, inner: Vault, write: Callable[..., Any]) -> None:
        self._inner = inner
        self._write = write

    def put(self, run: str, secrets: Mapping[str, bytes]) -> None:
        """Store values."""
        self._write(self._inner.put, run, secrets)

    def get(self, run: str) -> dict[str, bytes]:
        """Return the values of a run."""
        return self._inner.get(run)

    def erase(self, run: str) -> int:
        """Destroy the values of a run."""
        return int(self._write(self._inner.erase, run))
