"""The interface of stores of journals. `conformance.py` tests whether a store meets this contract.

A store has, for each run, an append-only list of entries, and a lease. It does not interpret the entries.
Methods block; they may be called from several threads at once, and several processes may share one store.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Protocol

from stepward.vm.arguments import able
from stepward.vm.errors import StepwardError

packed: Final = tuple.__new__
"""Makes a NamedTuple, of its type and all of its fields: the type itself is a Python function, which takes longer."""


class JournalError(StepwardError):
    """A store can't be read or written, or its content is not a journal."""


class AppendConflict(JournalError):  # noqa: N818 - a normal outcome, not a fault
    """The run has other entries than the writer expected: read them, and decide again."""


class LeaseLost(JournalError):  # noqa: N818
    """Somebody else drives the run by now: stop, and change nothing."""


class Entry(NamedTuple):
    """A stored record: its canonical bytes, and its digest (32 bytes) for the chain."""

    seq: int
    record: bytes
    digest: bytes


class Head(NamedTuple):
    """The end of a run's chain: the last entry, and a signature over it if there is a key."""

    run: str
    seq: int
    digest: bytes
    signature: bytes | None


class Lease(NamedTuple):
    """The right to drive a run. Each lease of a run has a higher fencing number than the one before.

    `expires` is in seconds since the epoch, by the clock of the caller who passes `now`.
    """

    run: str
    fence: int
    expires: float


class Row(NamedTuple):
    """A row of the list of runs, for finding them; only the entries of a run are authoritative.

    `started` and `updated` are seconds since the epoch; `expires` is the end of its lease, 0.0 if nobody holds it.
    That of a wrong clock may have no date. `fault` names the fields that can't be read, because they have a wrong type
    or are no time; those are empty or 0.
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
        """Return the row of a store, whose values may be odd."""
        found, odd = [], []
        for name, value, kinds in zip(cls._fields, values, _KINDS, strict=False):
            fits = type(value) in kinds and _is_sound(name, value)
            found.append(value if fits else kinds[0](value) if kinds[0] is str else kinds[0]())
            odd += [] if fits else [f"`{name}`"]
        fault = f"{', '.join(odd)} can't be read" if odd else ""
        return cls._make((*found, fault))


_KINDS: Final = ((str,), (str,), (str,), (int,), (float, int), (float, int), (float, int))

EARLIEST: Final = -62_135_596_800.0
LATEST: Final = 253_402_300_799.0
"""The first and the last second that has a date, since the epoch: of the years 1 and 9999."""


def _is_sound(name: str, value: Any) -> bool:
    """Return whether the value of a field, whose type is right, can be read."""
    return is_time(value) if name in ("started", "updated") else name != "expires" or not math.isnan(value)


def is_time(value: Any) -> bool:
    """Return whether a stored value is a time that has a date."""
    return type(value) in (float, int) and EARLIEST <= value <= LATEST


class Append(NamedTuple):
    """Entries to add after entry `expected` (-1 for a run that does not exist yet), all or none.

    `durable`: on return they survive a loss of power; else only the end of this process. `status` is for the list of
    runs. `due` is the time from which on a machine can go on with the run, in seconds since the epoch, 0.0 for any
    time; None if nobody can, because the run is over or waits for a delivery.
    """

    run: str
    expected: int
    entries: Sequence[Entry]
    status: str
    now: float
    durable: bool
    signature: bytes | None = None
    due: float | None = None


class Switch(NamedTuple):
    """A breaker was opened or closed: which, when (seconds since the epoch), why, and by whom.

    `name` says what is kept from running: `tool:NAME` or `program:NAME`.
    """

    name: str
    is_open: bool
    at: float
    why: str
    by: str

    @classmethod
    def read(cls, values: Sequence[Any]) -> Switch:
        """Return the switch of a store, whose values may be odd; raises JournalError for one that can't be read."""
        name, is_open, at, why, by = values
        odd = [field for field, value in (("name", name), ("why", why), ("by", by)) if type(value) is not str]
        odd += [] if is_time(at) else ["at"]
        odd += [] if is_open in (0, 1) else ["is_open"]
        if odd:
            fields = ", ".join(f"`{field}`" for field in odd)
            raise JournalError(f"the list of breakers is damaged: {fields} can't be read; bring it back from a copy")
        return cls(name, bool(is_open), at, why, by)


NOBODY: Final[Mapping[str, int]] = MappingProxyType({})
"""No run is passed over."""


class Vault(Protocol):
    """Stores sensitive values separately from the journal, so that they can be destroyed."""

    def put(self, run: str, secrets: Mapping[str, bytes]) -> None:
        """Store values by their reference, durable on return.

        Raises LeaseLost for a run that was erased, and stores none: the caller has lost the run. Raises JournalError if
        it fails.
        """
        ...

    def get(self, run: str) -> dict[str, bytes]:
        """Return the values of a run that are not erased."""
        ...

    def erase(self, run: str) -> int:
        """Destroy every value of a run, and return their number; on return no file holds them any more.

        From then on the vault refuses values of the run: of a concurrent put and erasure, the erasure comes last.
        """
        ...

    def erase_all(self, runs: Collection[str]) -> int:
        """Erase several runs at once, each as `erase` does, and return the number of their values."""
        ...


JOURNAL: Final = able("a store of runs, such as `SQLiteJournal(path)`", "append", "read")
KEYS: Final = able("a store of keys, such as `FileKeys(folder)`", "make", "find", "destroy")


class Journal(Protocol):
    """A store of runs."""

    blocks: bool
    """Whether calls wait for a disk or a network, so that an event loop should make them in a thread."""

    @property
    def vault(self) -> Vault:
        """The vault of this store's runs."""
        ...

    def create(self, append: Append, program: str, holder: str, ttl: float) -> Lease | None:
        """Make a run with its first entries, leased to `holder` for `ttl` seconds; None if the run exists already.

        Of concurrent callers, in any number of processes, exactly one gets a lease. `append.expected` is -1.
        """
        ...

    def append(self, append: Append, fence: int | None) -> None:
        """Add entries to a run, all or none.

        Raises AppendConflict if the run's last entry is not `append.expected`, and LeaseLost if `fence` is given and is
        not the run's newest fencing number; LeaseLost if both hold. Without `fence` only the last entry has to match.
        After any other JournalError it is unknown whether the entries are stored: read the run again.
        """
        ...

    def acquire(self, run: str, holder: str, now: float, ttl: float) -> Lease | None:
        """Lease a run, with a fencing number one higher than any before; None while somebody else has a lease.

        `holder` itself gets a new lease at any time. A lease is durable on return, and so is every present entry of the
        run, because the new holder relies on them. Raises JournalError for a run that does not exist.
        """
        ...

    def claim(
        self,
        holder: str,
        now: float,
        ttl: float,
        limit: int,
        programs: Collection[str] | None = None,
        passed: Mapping[str, int] = NOBODY,
    ) -> list[Lease]:
        """Lease up to `limit` runs that are due at `now` and that nobody else has leased, those due first.

        Each lease is as one of `acquire`. Callers at the same time, in any number of processes, get different runs, and
        do not wait for each other. `holder` is a name for this one call, so that a call that is repeated may return the
        same runs. `programs` are the names of the programs whose runs are wanted, all unless given. A run in `passed`
        is left out while its last entry has that number.
        """
        ...

    def due(self, now: float) -> dict[str, int]:
        """Return the number of runs that are due at `now` and that nobody has leased, by the name of their program."""
        ...

    def renew(self, lease: Lease, now: float, ttl: float) -> Lease:
        """Extend a lease until `now + ttl`; raises LeaseLost if somebody else has leased the run since."""
        ...

    def release(self, lease: Lease) -> None:
        """Release a lease; does nothing if somebody else has leased the run since."""
        ...

    def read(self, run: str, start: int = 0) -> list[Entry]:
        """Return the entries of a run from number `start` on, in order; none if the run does not exist."""
        ...

    def head(self, run: str) -> Head | None:
        """Return the head that the last append to a run wrote; None if there is no such run."""
        ...

    def sign(self, head: Head) -> bool:
        """Replace the signature of a head, durable on return, and return whether it was replaced.

        It is not if there is no such run, or its last entry has another number or digest by now.
        """
        ...

    def rows(
        self,
        statuses: Iterable[str] | None = None,
        *,
        program: str | None = None,
        since: float | None = None,
        limit: int | None = None,
    ) -> list[Row]:
        """Return the list of runs, oldest first; `statuses` and `program` filter by status and program name.

        `since` filters by the start, in seconds since the epoch; `limit` selects the newest ones.
        """
        ...

    def row(self, run: str) -> Row | None:
        """Return the row of one run, or None."""
        ...

    def names(self) -> Iterator[str]:
        """Yield the id of every run, in the order of creation, without holding all of them in memory.

        Runs that are created meanwhile may be missing.
        """
        ...

    def prune(self, head: Head, kept: bytes) -> bool:
        """Remove a run, but for its id, and keep some bytes in its place; return whether that was done.

        It is not if `head`, by number and digest, is not the last entry of the run. It is durable on return. The run
        is not there any more, and none is ever made with its id. Again, it replaces what is kept. The vault is not
        changed.
        """
        ...

    def kept(self, run: str) -> bytes | None:
        """Return what is kept in the place of a run that was removed, else None."""
        ...

    def pruned(self) -> Iterator[str]:
        """Yield the id of every run that was removed, as `names` yields the others."""
        ...

    def switch(self, switch: Switch) -> bool:
        """Open or close a breaker, durable on return; return whether it was not so before.

        Closing makes the runs due that are held by it, and by no other one.
        """
        ...

    def switches(self, name: str | None = None) -> list[Switch]:
        """Return how breakers were switched, oldest first; `name` is that of one of them."""
        ...

    def opened(self) -> frozenset[str]:
        """Return the names of the breakers that are open."""
        ...

    def hold(self, lease: Lease, name: str) -> bool:
        """Give a lease back, and let nobody take the run up until breaker `name` is closed; return whether it is so.

        It is not if the breaker is closed by now: then the lease stays. Raises LeaseLost if somebody else has leased
        the run since. An append to a run that is held makes it due as it says, and ends the holding.
        """
        ...

    def frozen(self) -> AbstractContextManager[Journal]:
        """Return a context with this store as it is at one moment, to be read only; nobody waits for its end.

        That holds for runs and documents. The vault has at least the values of that moment that were not erased since.
        """
        ...

    def put_document(self, digest: str, text: bytes) -> None:
        """Store a document (a program, a policy) under its digest, durable on return; repeating it changes nothing."""
        ...

    def document(self, digest: str) -> bytes | None:
        """Return a document, or None."""
        ...

    def close(self) -> None:
        """Close files and connections; the journal is not used after."""
        ...
