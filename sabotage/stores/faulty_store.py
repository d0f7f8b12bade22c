"""Stores that fail below the journal: full disks, torn writes, and writes that a loss of power undoes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple, TypeVar

from stepward.sabotage.playing.points import Killed, Points
from stepward.sabotage.stores.through import ThroughStore
from stepward.vm.journal.memory import MemoryJournal
from stepward.vm.journal.refusals import append_refused
from stepward.vm.journal.store import Append, Entry, Head, Journal, JournalError, Lease

T = TypeVar("T")


class Fault(NamedTuple):
    """A fault of the store: `times` writes fail from number `at` on, counted from 0.

    `full`: nothing was written. `unsynced`: all was written, although the write failed.
    """

    at: int
    how: Literal["full", "unsynced"]
    times: int = 1


class FaultyJournal(ThroughStore):
    """A store of which some writes fail. `writes` names the writes that were tried; `end_fault` ends the failures."""

    def __init__(self, inner: Journal, fault: Fault | None = None) -> None:
        super().__init__(inner)
        self.writes: list[str] = []
        self.failed: list[str] = []
        self._fault = fault

    def end_fault(self) -> None:
        """Let every further write succeed."""
        self._fault = None

    def write(self, function: Callable[..., T], *args: Any) -> T:
        """Write, or raise JournalError."""
        number, fault, what = len(self.writes), self._fault, function.__name__
        self.writes.append(what)
        if fault is None or not fault.at <= number < fault.at + fault.times:
            return function(*args)
        self.failed.append(what)
        if fault.how == "unsynced":
            function(*args)
        raise JournalError("the disk failed")


class _RunState(NamedTuple):
    """The state of a run at one time, with the number of its entries, which only grow."""

    entries: int
    status: str
    signature: bytes | None
    holder: str
    fence: int
    expires: float


class VolatileJournal(ThroughStore):
    """A store that loses writes that are not durable when the power fails.

    As in a file that is written in order, a durable write also makes all earlier writes durable.
    """

    def __init__(self) -> None:
        self._memory = MemoryJournal()
        super().__init__(self._memory)
        self._versions: list[dict[str, _RunState]] = [{}]

    @property
    def unsynced(self) -> int:
        """The number of writes that a loss of power would undo."""
        return len(self._versions) - 1

    def lose_power(self, surviving: int) -> None:
        """Undo the writes that are not durable, except for the first `surviving` ones."""
        version = self._versions[min(surviving, self.unsynced)]
        for run in list(self._memory._runs):
            if run not in version:
                del self._memory._runs[run]
                continue
            stored, then = self._memory._runs[run], version[run]
            del stored.entries[then.entries :]
            stored.status, stored.signature, stored.holder, stored.fence, stored.expires = then[1:]
        self._versions = [version]

    def write(self, function: Callable[..., T], *args: Any) -> T:
        """Write to the memory, and note the state. The vault is left out: its writes are durable."""
        result = function(*args)
        name = function.__name__
        if name in ("put", "erase"):
            return result
        now = {
            run: _RunState(
                len(stored.entries), stored.status, stored.signature, stored.holder, stored.fence, stored.expires
            )
            for run, stored in self._memory._runs.items()
        }
        is_durable = (
            args[0].durable if name in ("create", "append") else name in ("acquire", "put_document", "sign", "prune")
        )
        self._versions = [now] if is_durable else [*self._versions, now]
        return result


class Tear(NamedTuple):
    """A torn append: its number `at`, counted from 0 at the creation of the run, and how many entries are `kept`.

    `head` says which end of the chain is stored: the `old` one, the `new` one, or that of the `last` stored entry, with
    the signature of another entry.
    """

    at: int
    kept: int
    head: Literal["old", "new", "last"]


class TornJournal(MemoryJournal):
    """A store without atomic appends: the process dies during an append, and a part of it is stored.

    `sizes` has the number of entries of each append so far, `heads` the end of the chain after each.
    """

    def __init__(self, tear: Tear | None = None, points: Points | None = None) -> None:
        super().__init__()
        self.sizes: list[int] = []
        self.heads: list[Head] = []
        self._tear = tear
        self._points = points
        self._shown: dict[str, Head] = {}

    def torn(self, run: str, tear: Tear) -> TornJournal:
        """Return a store with the content of this one right after a torn append."""
        journal = TornJournal()
        journal.vault, journal._documents = self.vault, self._documents
        remaining = self.read(run)[: sum(self.sizes[: tear.at]) + tear.kept]
        head = self.heads[tear.at if tear.head == "new" else tear.at - 1]
        journal.create(Append(run, -1, remaining, "RUNNING", 0.0, durable=True), "", "", 0.0)
        journal._shown[run] = head
        return journal

    def create(self, append: Append, program: str, holder: str, ttl: float) -> Lease | None:
        """Make a run."""
        lease = super().create(append, program, holder, ttl)
        self._took(append)
        return lease

    def append(self, append: Append, fence: int | None) -> None:
        """Add entries, or a part of them; then it raises Killed."""
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
        """Return the stored end of the chain."""
        return self._shown.get(run) or super().head(run)


class DamagedJournal(ThroughStore):
    """A store that returns one damaged entry."""

    def __init__(self, inner: Journal, damaged: Entry) -> None:
        super().__init__(inner)
        self._damaged = damaged

    def read(self, run: str, start: int = 0) -> list[Entry]:
        """Return the entries of the run, with the damaged one."""
        return [self._damaged if entry.seq == self._damaged.seq else entry for entry in self.inner.read(run, start)]
