"""A journal around another one, to which it passes every call. Subclasses override what shall behave differently."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from stepward.vm.journal.store import NOBODY, Append, Entry, Head, Journal, Lease, Row, Switch, Vault

T = TypeVar("T")


class ThroughJournal:
    """Passes every call on to `inner`; those that change the store, by `write`."""

    blocks = False

    def __init__(self, inner: Journal) -> None:
        self.inner = inner

    @property
    def vault(self) -> Vault:
        """The vault of sensitive values."""
        return self.inner.vault

    def write(self, function: Callable[..., T], *args: Any) -> T:
        """Call a method of the inner store that changes it."""
        return function(*args)

    def create(self, append: Append, program: str, holder: str, ttl: float) -> Lease | None:
        """Make a run."""
        return self.write(self.inner.create, append, program, holder, ttl)

    def append(self, append: Append, fence: int | None) -> None:
        """Add entries."""
        self.write(self.inner.append, append, fence)

    def acquire(self, run: str, holder: str, now: float, ttl: float) -> Lease | None:
        """Lease a run."""
        return self.write(self.inner.acquire, run, holder, now, ttl)

    def claim(
        self,
        holder: str,
        now: float,
        ttl: float,
        limit: int,
        programs: Collection[str] | None = None,
        passed: Mapping[str, int] = NOBODY,
    ) -> list[Lease]:
        """Lease runs that are due."""
        return self.write(self.inner.claim, holder, now, ttl, limit, programs, passed)

    def due(self, now: float) -> dict[str, int]:
        """Count the runs that are due."""
        return self.inner.due(now)

    def renew(self, lease: Lease, now: float, ttl: float) -> Lease:
        """Make a lease last longer."""
        return self.write(self.inner.renew, lease, now, ttl)

    def release(self, lease: Lease) -> None:
        """Give a lease back."""
        self.write(self.inner.release, lease)

    def read(self, run: str, start: int = 0) -> list[Entry]:
        """Return the entries of a run."""
        return self.inner.read(run, start)

    def head(self, run: str) -> Head | None:
        """Return the end of a run's chain."""
        return self.inner.head(run)

    def sign(self, head: Head) -> bool:
        """Replace the signature of a head."""
        return self.write(self.inner.sign, head)

    def rows(self, statuses: Iterable[str] | None = None, **filters: Any) -> list[Row]:
        """Return the list of runs."""
        return self.inner.rows(statuses, **filters)

    def row(self, run: str) -> Row | None:
        """Return the row of a run."""
        return self.inner.row(run)

    def names(self) -> Iterator[str]:
        """Yield the names of the runs."""
        return self.inner.names()

    def prune(self, head: Head, kept: bytes) -> bool:
        """Remove a run, but for its id."""
        return self.write(self.inner.prune, head, kept)

    def kept(self, run: str) -> bytes | None:
        """Return what is kept in the place of a run that was removed."""
        return self.inner.kept(run)

    def pruned(self) -> Iterator[str]:
        """Yield the ids of the runs that were removed."""
        return self.inner.pruned()

    def switch(self, switch: Switch) -> bool:
        """Open or close a breaker."""
        return self.write(self.inner.switch, switch)

    def switches(self, name: str | None = None) -> list[Switch]:
        """Return how breakers were switched."""
        return self.inner.switches(name)

    def opened(self) -> frozenset[str]:
        """Return the names of the breakers that are open."""
        return self.inner.opened()

    def hold(self, lease: Lease, name: str) -> bool:
        """Give a lease back until a breaker is closed."""
        return self.write(self.inner.hold, lease, name)

    def frozen(self) -> AbstractContextManager[Journal]:
        """Return a context with the store as it is at one moment."""
        return self.inner.frozen()

    def put_document(self, digest: str, text: bytes) -> None:
        """Store a document."""
        self.write(self.inner.put_document, digest, text)

    def document(self, digest: str) -> bytes | None:
        """Return a document."""
        return self.inner.document(digest)

    def close(self) -> None:
        """Close the store."""
        self.inner.close()
