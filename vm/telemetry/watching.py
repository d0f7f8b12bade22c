"""A journal that tells of its records: whoever watches gets each batch of records once they are stored."""

from __future__ import annotations

from collections.abc import Callable

from stepward.vm.journal.store import Append, Journal, Lease
from stepward.vm.journal.through import ThroughJournal

Saw = Callable[[Append], None]


class WatchedJournal(ThroughJournal):
    """The store `journal`, of whose appends `saw` is told, which must not raise.

    `mine` has the digests of the entries of an append from before it until `saw` has returned.
    """

    def __init__(self, journal: Journal, saw: Saw, mine: set[bytes]) -> None:
        super().__init__(journal)
        self.blocks = journal.blocks
        self._saw = saw
        self._mine = mine

    def create(self, append: Append, program: str, holder: str, ttl: float) -> Lease | None:
        """Make a run, and tell of its first entries."""
        digests = [entry.digest for entry in append.entries]
        self._mine.update(digests)
        try:
            lease = super().create(append, program, holder, ttl)
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
            super().append(append, fence)
            self._saw(append)
        finally:
            self._mine.difference_update(digests)
