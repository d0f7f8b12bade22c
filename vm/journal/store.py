"""What the machine asks of a store of journals. `conformance.py` tests whether a store keeps this contract.

A store keeps, for each run, a list of entries that only grows, and a lease. It knows nothing of what the entries say.
Methods block; they may be called from several threads at once, and several processes may share one store.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from stepward.vm.errors import StepwardError


class JournalError(StepwardError):
    """A store can't be read or written, or what it holds is no journal."""


class AppendConflict(JournalError):  # noqa: N818 - it is what happened, not a fault
    """The run has other entries than its writer believed: read them, and decide again."""


class LeaseLost(JournalError):  # noqa: N818
    """Somebody else drives the run by now: stop, and touch nothing."""


class Entry(NamedTuple):
    """One record as it is kept: its canonical bytes, and the digest (32 bytes) that chains it."""

    seq: int
    record: bytes
    digest: bytes


class Head(NamedTuple):
    """The end of a run's chain: the last entry, and a signature over it where a key is given."""

    run: str
    seq: int
    digest: bytes
    signature: bytes | None


class Lease(NamedTuple):
    """The right to drive a run. Each lease of a run has a higher fencing number than the one before.

    `expires` is in seconds since the epoch, on the clock of whoever passes `now`.
    """

    run: str
    fence: int
    expires: float


class Row(NamedTuple):
    """A line in the list of runs. `status` and `program` are for finding runs; what a run is, its entries say.

    `started` and `updated` are seconds since the epoch; `expires` is when its lease ends, 0.0 where nobody holds it.
    `fault` says which of them can't be read, where a store does not keep to its types; those are empty or 0.
    """

    run: str
    program: str
    status: str
    seq: int
    started: float
    updated: float
    expires: float
    fault: str = ""

    @classmethod
    def read(cls, values: Sequence[object]) -> Row:
        """Return the line that a store has, whatever the types are that it kept."""
        found, odd = [], []
        for name, value, kinds in zip(cls._fields, values, _KINDS, strict=False):
            fits = type(value) in kinds
            found.append(value if fits else kinds[0](value) if kinds[0] is str else kinds[0]())
            odd += [] if fits else [f"`{name}`"]
        fault = f"{', '.join(odd)} can't be read" if odd else ""
        return cls._make((*found, fault))


_KINDS: Final = ((str,), (str,), (str,), (int,), (float, int), (float, int), (float, int))


class Append(NamedTuple):
    """Entries to add behind entry `expected` (-1 for a run that does not exist yet), all or none.

    `durable`: on return they survive a loss of power; else only the end of this process. `status` goes into the list
    of runs.
    """

    run: str
    expected: int
    entries: Sequence[Entry]
    status: str
    now: float
    durable: bool
    signature: bytes | None = None


class Vault(Protocol):
    """Keeps sensitive values apart from the journal, so that they can be destroyed."""

    def put(self, run: str, secrets: Mapping[str, bytes]) -> None:
        """Keep values by their reference, durable on return.

        Raises LeaseLost for a run that was erased, and keeps none: whoever brings them has lost it. Raises JournalError
        when it fails.
        """
        ...

    def get(self, run: str) -> dict[str, bytes]:
        """Return every value of a run that is still there."""
        ...

    def erase(self, run: str) -> int:
        """Destroy every value of a run, and return how many there were; on return no file holds them any more.

        From then on the run has none: of two that put and erase at once, the erasure is the last.
        """
        ...


class Journal(Protocol):
    """A store of runs."""

    blocks: bool
    """Whether calls wait for a disk or a network, so that an event loop should make them in a thread."""

    @property
    def vault(self) -> Vault:
        """Where the sensitive values of this store's runs are."""
        ...

    def create(self, append: Append, program: str, holder: str, ttl: float) -> Lease | None:
        """Make a run with its first entries, leased to `holder` for `ttl` seconds; None when the run exists already.

        Of any number of callers at once, in any number of processes, exactly one gets a lease. `append.expected` is -1.
        """
        ...

    def append(self, append: Append, fence: int | None) -> None:
        """Add entries to a run, all or none.

        Raises AppendConflict when the run's last entry is not `append.expected`, and LeaseLost when `fence` is given
        and is not the run's newest fencing number: LeaseLost where both hold. Without `fence` whoever knows the last
        entry may add. After any other JournalError nobody knows whether the entries are there: read the run again.
        """
        ...

    def acquire(self, run: str, holder: str, now: float, ttl: float) -> Lease | None:
        """Lease a run, with a fencing number one higher than any before; None while somebody else's lease lasts.

        `holder` itself gets a new lease at any time. A lease is durable on return, and so is every entry that the run
        has then: whoever goes on with it relies on them. Raises JournalError for a run that does not exist.
        """
        ...

    def renew(self, lease: Lease, now: float, ttl: float) -> Lease:
        """Make a lease last until `now + ttl`; raises LeaseLost when somebody else has leased the run since."""
        ...

    def release(self, lease: Lease) -> None:
        """Give a lease back; does nothing when somebody else has leased the run since."""
        ...

    def read(self, run: str, start: int = 0) -> list[Entry]:
        """Return the entries of a run from number `start` on, in order; none for a run that does not exist."""
        ...

    def head(self, run: str) -> Head | None:
        """Return the end of a run's chain as it was written with the last append; None when there is no such run."""
        ...

    def rows(
        self,
        statuses: Iterable[str] | None = None,
        *,
        program: str | None = None,
        since: float | None = None,
        limit: int | None = None,
    ) -> list[Row]:
        """Return the list of runs, oldest first; with `statuses` only those, with `program` only those of that name.

        `since` leaves out what started before, in seconds since the epoch; `limit` leaves the newest so many.
        """
        ...

    def row(self, run: str) -> Row | None:
        """Return the line of one run, or None."""
        ...

    def names(self) -> Iterator[str]:
        """Yield the name of every run, in the order in which they were made, without holding all of them.

        What is made meanwhile may come or not.
        """
        ...

    def put_document(self, digest: str, text: bytes) -> None:
        """Keep a document (a program, a policy) under its digest, durable on return; again is nothing new."""
        ...

    def document(self, digest: str) -> bytes | None:
        """Return a document, or None."""
        ...

    def close(self) -> None:
        """Let go of files and connections; the journal is not used after."""
        ...
