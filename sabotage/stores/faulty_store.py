"""Stores that fail below the journal: disks that are full, that tear what is written, that forget it with the power."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, TypeVar

from stepward.sabotage.playing.points import Killed, Points
from stepward.sabotage.stores.through import ThroughStore
from stepward.vm.journal.memory import MemoryJournal
from stepward.vm.journal.refusals import append_refused
from stepward.vm.journal.store import Append, Entry, Head, Journal, JournalError, Lease, Vault

T = TypeVar("T")


class Fault(NamedTuple):
    """What fails: `times` writes from number `at` on, counted from 0.

    `full`: nothing of the write is there; `unsynced`: all of it is there, though it failed.
    """

    at: int
    how: Literal["full", "unsynced"]
    times: int = 1


class FaultyJournal(ThroughStore):
    """A store that fails at some of its writes. `writes` names those that were tried; `mend` ends the failing."""

    def __init__(self, inner: Journal, fault: Fault | None = None) -> None:
        super().__init__(inner)
        self._vault = FaultyVault(self)
        self.writes: list[str] = []
        self.failed: list[str] = []
        self._fault = fault

    @property
    def vault(self) -> Vault:
        """Where the sensitive values are, on the same disk."""
        return self._vault

    def mend(self) -> None:
        """Let every further write succeed."""
        self._fault = None

    def write(self, what: str, function: Callable[..., T], *args: Any) -> T:
        """Write, or raise JournalError."""
        number, fault = len(self.writes), self._fault
        self.writes.append(what)
        if fault is None or not fault.at <= number < fault.at + fault.times:
            return function(*args)
        self.failed.append(what)
        if fault.how == "unsynced":
            function(*args)
        raise JournalError("the disk failed")

    def create(self, append: Append, program: str, holder: str, ttl: float) -> Lease | None:
        """Make a run."""
        return self.write("create", self.inner.create, append, program, holder, ttl)

    def append(self, append: Append, fence: int | None) -> None:
        """Add entries."""
        self.write("append", self.inner.append, append, fence)

    def acquire(self, run: str, holder: str, now: float, ttl: float) -> Lease | None:
        """Lease a run."""
        return self.write("acquire", self.inner.acquire, run, holder, now, ttl)

    def renew(self, lease: Lease, now: float, ttl: float) -> Lease:
        """Make a lease last longer."""
        return self.write("renew", self.inner.renew, lease, now, ttl)

    def release(self, lease: Lease) -> None:
        """Give a lease back."""
        self.write("release", self.inner.release, lease)

    def put_document(self, digest: str, text: bytes) -> None:
        """Keep a document."""
        self.write("put_document", self.inner.put_document, digest, text)


class FaultyVault:
    """The vault of a faulty store: its writes are among those that fail."""

    def __init__(self, journal: FaultyJournal) -> None:
        self._journal = journal

    def put(self, run: str, secrets: Mapping[str, bytes]) -> None:
        """Keep values."""
        self._journal.write("put", self._journal.inner.vault.put, run, secrets)

    def get(self, run: str) -> dict[str, bytes]:
        """Return every value of a run."""
        return self._journal.inner.vault.get(run)

    def erase(self, run: str) -> int:
        """Destroy every value of a run."""
        return self._journal.write("erase", self._journal.inner.vault.erase, run)


class _Kept(NamedTuple):
    """A run as it is at one time, but for its entries, which only grow."""

    entries: int
    status: str
    signature: bytes | None
    holder: str
    fence: int
    expires: float


class VolatileJournal(MemoryJournal):
    """A store that keeps what is not durable only as long as there is power.

    As with one file that is written in order, a durable write keeps all that was written before it.
    """

    def __init__(self) -> None:
        super().__init__()
        self._versions: list[dict[str, _Kept]] = [{}]

    @property
    def unsynced(self) -> int:
        """How many writes a loss of power would undo."""
        return len(self._versions) - 1

    def lose_power(self, kept: int) -> None:
        """Forget the writes that are not durable but for the first `kept` of them."""
        version = self._versions[min(kept, self.unsynced)]
        for run in list(self._runs):
            if run not in version:
                del self._runs[run]
                continue
            held, then = self._runs[run], version[run]
            del held.entries[then.entries :]
            held.status, held.signature, held.holder, held.fence, held.expires = then[1:]
        self._versions = [version]

    def _written(self, *, durable: bool) -> None:
        now = {
            run: _Kept(len(held.entries), held.status, held.signature, held.holder, held.fence, held.expires)
            for run, held in self._runs.items()
        }
        self._versions = [now] if durable else [*self._versions, now]

    def create(self, append: Append, program: str, holder: str, ttl: float) -> Lease | None:
        """Make a run."""
        lease = super().create(append, program, holder, ttl)
        self._written(durable=append.durable)
        return lease

    def append(self, append: Append, fence: int | None) -> None:
        """Add entries."""
        super().append(append, fence)
        self._written(durable=append.durable)

    def acquire(self, run: str, holder: str, now: float, ttl: float) -> Lease | None:
        """Lease a run, durably."""
        lease = super().acquire(run, holder, now, ttl)
        self._written(durable=True)
        return lease

    def renew(self, lease: Lease, now: float, ttl: float) -> Lease:
        """Make a lease last longer."""
        renewed = super().renew(lease, now, ttl)
        self._written(durable=False)
        return renewed

    def release(self, lease: Lease) -> None:
        """Give a lease back."""
        super().release(lease)
        self._written(durable=False)

    def put_document(self, digest: str, text: bytes) -> None:
        """Keep a document, durably."""
        super().put_document(digest, text)
        self._written(durable=True)


class Tear(NamedTuple):
    """Where an append is torn: number `at`, counted from 0 with the one that makes the run; `kept` entries remain.

    `head` is the end of the chain that is stored then: the `old` one, the `new` one, or that of the `last` entry that
    is there, with the signature that was meant for another.
    """

    at: int
    kept: int
    head: Literal["old", "new", "last"]


class TornJournal(MemoryJournal):
    """A store without atomic appends: the process dies in the midst of one, and some of it is there.

    `sizes` are the numbers of entries of the appends so far, `heads` the ends of the chain after them.
    """

    def __init__(self, tear: Tear | None = None, points: Points | None = None) -> None:
        super().__init__()
        self.sizes: list[int] = []
        self.heads: list[Head] = []
        self._tear = tear
        self._points = points
        self._shown: dict[str, Head] = {}

    def torn(self, run: str, tear: Tear) -> TornJournal:
        """Return a store that has what this one would have if that append had been torn, and nobody had come since."""
        made = TornJournal()
        made.vault, made._documents = self.vault, self._documents
        kept = self.read(run)[: sum(self.sizes[: tear.at]) + tear.kept]
        head = self.heads[tear.at if tear.head == "new" else tear.at - 1]
        made.create(Append(run, -1, kept, "RUNNING", 0.0, durable=True), "", "", 0.0)
        made._shown[run] = head
        return made

    def create(self, append: Append, program: str, holder: str, ttl: float) -> Lease | None:
        """Make a run."""
        lease = super().create(append, program, holder, ttl)
        self._took(append)
        return lease

    def append(self, append: Append, fence: int | None) -> None:
        """Add entries, or some of them; raises Killed then."""
        shown = self._shown.get(append.run)
        if shown is not None and shown.seq != append.expected:
            raise append_refused(append, None, (shown.seq, 0))
        if self._tear is not None and len(self.sizes) == self._tear.at:
            assert self._points is not None, "a process that dies has points"
            super().append(append._replace(entries=append.entries[: self._tear.kept]), fence)
            self._tear, self._points.is_dead = None, True
            raise Killed("in the midst of an append")
        super().append(append, fence)
        self._took(append)

    def _took(self, append: Append) -> None:
        last = append.entries[-1]
        self.sizes.append(len(append.entries))
        self.heads.append(Head(append.run, last.seq, last.digest, append.signature))

    def head(self, run: str) -> Head | None:
        """Return the end of the chain that is stored."""
        return self._shown.get(run) or super().head(run)


class DamagedJournal(ThroughStore):
    """A store of which one entry is other than it was written."""

    def __init__(self, inner: Journal, damaged: Entry) -> None:
        super().__init__(inner)
        self._damaged = damaged

    def read(self, run: str, start: int = 0) -> list[Entry]:
        """Return the entries of the run, with the damaged one."""
        return [self._damaged if entry.seq == self._damaged.seq else entry for entry in self.inner.read(run, start)]
