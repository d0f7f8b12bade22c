"""A journal that tells of its records: whoever watches gets each batch of records once they are stored."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager

from stepward.vm.journal.store import NOBODY, Append, Entry, Head, Journal, Lease, Row, Switch, Vault

Saw = Callable[[Append], None]


class WatchedJournal:
    """The store `journal`, of whose appends `saw` is told, which must not raise.

    `mine` has the digests of the entries of an append from before it until `saw` has returned.
    """

    def __init__(self, journal: Journal, saw: Saw, mine: set[bytes]) -> None:
        self.blocks = journal.blocks
        self._journal = journal
        self._saw = saw
        self._mine = mine

    @property
    def vault(self) -> Vault:
        """The vault of the store."""
        return self._journal.vault

    def create(self, append: Append, program: str, holder: str, ttl: float) -> Lease | None:
        """Make a run, and tell of its first entries."""
        digests = [entry.digest for entry in append.entries]
        self._mine.update(digests)
        try:
            lease = self._journal.create(append, program, holder, ttl)
            if lease is not None:
                self._saw(append)
            return lease
        finally:
            self._mine.difference_update(digests)

    def append(self, append: Append, fence: int | None) -> None:
        """Add entries to a run, and tell of them."""
        digests = [entry.digest for entry in append.entries]
        self._mine.update(digests)
        try:
            self._journal.append(append, fence)
            self._saw(append)
        finally:
            self._mine.difference_update(digests)

    def acquire(self, run: str, holder: str, now: float, ttl: float) -> Lease | None:
        """Lease a run."""
        return self._journal.acquire(run, holder, now, ttl)

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
        return self._journal.claim(holder, now, ttl, limit, programs, passed)

    def due(self, now: float) -> dict[str, int]:
        """Count the runs that are due."""
        return self._journal.due(now)

    def renew(self, lease: Lease, now: float, ttl: float) -> Lease:
        """Extend a lease."""
        return self._journal.renew(lease, now, ttl)

    def release(self, lease: Lease) -> None:
        """Release a lease."""
        self._journal.release(lease)

    def read(self, run: str, start: int = 0) -> list[Entry]:
        """Return the entries of a run."""
        return self._journal.read(run, start)

    def head(self, run: str) -> Head | None:
        """Return the head of a run."""
        return self._journal.head(run)

    def sign(self, head: Head) -> bool:
        """Replace the signature of a head."""
        return self._journal.sign(head)

    def rows(
        self,
        statuses: Iterable[str] | None = None,
        *,
        program: str | None = None,
        since: float | None = None,
        limit: int | None = None,
    ) -> list[Row]:
        """Return the list of runs."""
        return self._journal.rows(statuses, program=program, since=since, limit=limit)

    def row(self, run: str) -> Row | None:
        """Return the row of a run."""
        return self._journal.row(run)

    def names(self) -> Iterator[str]:
        """Yield the ids of all runs."""
        return self._journal.names()

    def prune(self, head: Head, kept: bytes) -> bool:
        """Remove a run, but for its id."""
        return self._journal.prune(head, kept)

    def kept(self, run: str) -> bytes | None:
        """Return what is kept in the place of a run that was removed."""
        return self._journal.kept(run)

    def pruned(self) -> Iterator[str]:
        """Yield the ids of the runs that were removed."""
        return self._journal.pruned()

    def switch(self, switch: Switch) -> bool:
        """Open or close a breaker."""
        return self._journal.switch(switch)

    def switches(self, name: str | None = None) -> list[Switch]:
        """Return how breakers were switched."""
        return self._journal.switches(name)

    def opened(self) -> frozenset[str]:
        """Return the names of the breakers that are open."""
        return self._journal.opened()

    def hold(self, lease: Lease, name: str) -> bool:
        """Give a lease back until a breaker is closed."""
        return self._journal.hold(lease, name)

    def frozen(self) -> AbstractContextManager[Journal]:
        """Return a context with the store as it is at one moment."""
        return self._journal.frozen()

    def put_document(self, digest: str, text: bytes) -> None:
        """Store a document."""
        self._journal.put_document(digest, text)

    def document(self, digest: str) -> bytes | None:
        """Return a document."""
        return self._journal.document(digest)

    def close(self) -> None:
        """Close the store."""
        self._journal.close()
