"""Stores that break a promise of the store. The self-test gives them to machines."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from stepward.sabotage.playing.machines import kind_of
from stepward.sabotage.stores.through import ThroughStore
from stepward.vm.journal.store import Append, Journal, Lease

T = TypeVar("T")


class HastyStore(ThroughStore):
    """Reports an intent as durable, but writes it only with the next append."""

    def __init__(self, inner: Journal) -> None:
        super().__init__(inner)
        self._held: Append | None = None

    def append(self, append: Append, fence: int | None) -> None:
        """Add entries, after the delayed ones of the last call."""
        before, self._held = self._held, None
        if before is not None:
            append = append._replace(expected=before.expected, entries=[*before.entries, *append.entries])
        if kind_of(append.entries[-1]) == "intent":
            self._held = append
        else:
            self.inner.append(append, fence)


class SharingStore(ThroughStore):
    """Leases a run to every caller, even if another holder has it."""

    def acquire(self, run: str, holder: str, now: float, ttl: float) -> Lease | None:
        """Lease a run as if all earlier leases had expired."""
        lease = self.inner.acquire(run, holder, now + 2 * ttl, ttl)
        return None if lease is None else lease._replace(expires=now + ttl)


class KeepingStore(ThroughStore):
    """Reports values as erased, but keeps them."""

    def write(self, function: Callable[..., T], *args: Any) -> T:
        """Write, but erase nothing."""
        return (
            super().write(function, *args)
            if function.__name__ != "erase"
            else cast(T, len(self.inner.vault.get(*args)))
        )
