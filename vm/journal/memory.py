"""A store in memory: for tests, for experiments, and for runs that nobody needs after the process."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from copy import copy

from stepward.vm.journal.refusals import append_refused, erased, lease_lost, no_such_run
from stepward.vm.journal.store import NOBODY, Append, Entry, Head, Lease, Row, Switch


class _Run:
    __slots__ = ("due", "entries", "expires", "fence", "holder", "program", "signature", "started", "status", "updated")

    def __init__(self, append: Append, program: str, lease: Lease, holder: str) -> None:
        self.program = program
        self.entries: list[Entry] = list(append.entries)
        self.status = append.status
        self.due = append.due
        self.signature = append.signature
        self.started = self.updated = append.now
        self.holder = holder
        self.fence = lease.fence
        self.expires = lease.expires


def _row(run: str, stored: _Run) -> Row:
    return Row(
        run, stored.program, stored.status, len(stored.entries) - 1, stored.started, stored.updated, stored.expires
    )


class MemoryVault:
    """Sensitive values in memory; erasing drops them, but does not overwrite the process's memory."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._secrets: dict[str, dict[str, bytes]] = {}
        self._erased: set[str] = set()

    def put(self, run: str, secrets: Mapping[str, bytes]) -> None:
        with self._lock:
            if run in self._erased:
                raise erased(run)
            self._secrets.setdefault(run, {}).update(secrets)

    def get(self, run: str) -> dict[str, bytes]:
        with self._lock:
            return dict(self._secrets.get(run, {}))

    def erase(self, run: str) -> int:
        with self._lock:
            self._erased.add(run)
            return len(self._secrets.pop(run, {}))

    def erase_all(self, runs: Collection[str]) -> int:
        return sum(map(self.erase, runs))


class MemoryJournal:
    """Runs in memory. Nothing is durable: they end with the process."""

    blocks = False

    def __init__(self) -> None:
        self.vault = MemoryVault()
        self._lock = threading.Lock()
        self._runs: dict[str, _Run] = {}
        self._documents: dict[str, bytes] = {}
        self._kept: dict[str, tuple[Head, bytes]] = {}
        self._order: dict[str, int] = {}
        self._switches: list[Switch] = []
        self._held: dict[str, str] = {}

    def create(self, append: Append, program: str, holder: str, ttl: float) -> Lease | None:
        run, entries = append.run, append.entries
        assert append.expected == -1, "a new run has no entry before its first"
        assert entries[-1].seq == len(entries) - 1, "entries are numbered from 0 without a gap"
        lease = Lease(run, 1, append.now + ttl)
        stored = _Run(append, program, lease, holder)
        with self._lock:
            is_new = run not in self._kept and self._runs.setdefault(run, stored) is stored
            self._order.setdefault(run, len(self._order))
            return lease if is_new else None

    def append(self, append: Append, fence: int | None) -> None:
        run, expected, entries, status, now, _, signature, due = append
        assert entries[-1].seq == expected + len(entries), "entries follow the expected one without a gap"
        with self._lock:
            stored = self._runs.get(run)
            if stored is None:
                raise append_refused(append, fence, None)
            present = stored.entries
            if len(present) != expected + 1 or (fence is not None and fence != stored.fence):
                raise append_refused(append, fence, (len(present) - 1, stored.fence))
            present.extend(entries)
            self._held.pop(run, None)
            stored.status = status
            stored.due = due
            stored.updated = now
            stored.signature = signature

    def acquire(self, run: str, holder: str, now: float, ttl: float) -> Lease | None:
        with self._lock:
            stored = self._runs.get(run)
            if stored is None:
                raise no_such_run(run)
            if stored.holder != holder and stored.expires > now:
                return None
            stored.holder = holder
            stored.fence += 1
            stored.expires = now + ttl
            return Lease(run, stored.fence, stored.expires)

    def claim(
        self,
        holder: str,
        now: float,
        ttl: float,
        limit: int,
        programs: Collection[str] | None = None,
        passed: Mapping[str, int] = NOBODY,
    ) -> list[Lease]:
        with self._lock:
            due = [
                (stored.due, run)
                for run, stored in self._runs.items()
                if stored.due is not None
                and stored.due <= now
                and stored.expires <= now
                and (programs is None or stored.program in programs)
                and passed.get(run) != len(stored.entries) - 1
            ]
            leases = []
            for _, run in sorted(due, key=lambda one: one[0])[:limit]:
                stored = self._runs[run]
                stored.holder, stored.fence, stored.expires = holder, stored.fence + 1, now + ttl
                leases.append(Lease(run, stored.fence, stored.expires))
            return leases

    def due(self, now: float) -> dict[str, int]:
        with self._lock:
            return dict(
                Counter(
                    stored.program
                    for stored in self._runs.values()
                    if stored.due is not None and stored.due <= now and stored.expires <= now
                )
            )

    def renew(self, lease: Lease, now: float, ttl: float) -> Lease:
        with self._lock:
            stored = self._runs.get(lease.run)
            if stored is None or stored.fence != lease.fence:
                raise lease_lost(lease.run, lease.fence)
            stored.expires = now + ttl
            return Lease(lease.run, lease.fence, stored.expires)

    def release(self, lease: Lease) -> None:
        with self._lock:
            stored = self._runs.get(lease.run)
            if stored is not None and stored.fence == lease.fence:
                stored.expires = 0.0

    def read(self, run: str, start: int = 0) -> list[Entry]:
        with self._lock:
            stored = self._runs.get(run)
            return stored.entries[start:] if stored else []

    def head(self, run: str) -> Head | None:
        with self._lock:
            stored = self._runs.get(run)
            if stored is None:
                return None
            last = stored.entries[-1]
            return Head(run, last.seq, last.digest, stored.signature)

    def sign(self, head: Head) -> bool:
        with self._lock:
            stored = self._runs.get(head.run)
            if stored is None or (stored.entries[-1].seq, stored.entries[-1].digest) != (head.seq, head.digest):
                return False
            stored.signature = head.signature
            return True

    def rows(
        self,
        statuses: Iterable[str] | None = None,
        *,
        program: str | None = None,
        since: float | None = None,
        limit: int | None = None,
    ) -> list[Row]:
        allowed = None if statuses is None else set(statuses)
        with self._lock:
            rows = [
                _row(run, stored)
                for run, stored in self._runs.items()
                if (allowed is None or stored.status in allowed)
                and (program is None or stored.program == program)
                and (since is None or stored.started >= since)
            ]
        rows.sort(key=lambda row: row.started)
        return rows if limit is None else rows[max(len(rows) - limit, 0) :]

    def row(self, run: str) -> Row | None:
        with self._lock:
            stored = self._runs.get(run)
            return None if stored is None else _row(run, stored)

    def names(self) -> Iterator[str]:
        with self._lock:
            names = list(self._runs)
        yield from names

    def prune(self, head: Head, kept: bytes) -> bool:
        with self._lock:
            stored, before = self._runs.get(head.run), self._kept.get(head.run)
            present = None if before is None else (before[0].seq, before[0].digest)
            if stored is not None:
                present = (stored.entries[-1].seq, stored.entries[-1].digest)
            if present != (head.seq, head.digest):
                return False
            self._runs.pop(head.run, None)
            self._kept[head.run] = (head, kept)
            return True

    def kept(self, run: str) -> bytes | None:
        with self._lock:
            found = self._kept.get(run)
            return None if found is None else found[1]

    def pruned(self) -> Iterator[str]:
        with self._lock:
            names = sorted(self._kept, key=self._order.__getitem__)
        yield from names

    def switch(self, switch: Switch) -> bool:
        with self._lock:
            if (switch.name in self._opened()) == switch.is_open:
                return False
            self._switches.append(switch)
            if not switch.is_open:
                for run in [run for run, name in self._held.items() if name == switch.name]:
                    del self._held[run]
                    if run in self._runs:
                        self._runs[run].due = 0.0
            return True

    def switches(self, name: str | None = None) -> list[Switch]:
        with self._lock:
            return [one for one in self._switches if name is None or one.name == name]

    def opened(self) -> frozenset[str]:
        with self._lock:
            return self._opened()

    def _opened(self) -> frozenset[str]:
        last = {one.name: one.is_open for one in self._switches}
        return frozenset(name for name, is_open in last.items() if is_open)

    def hold(self, lease: Lease, name: str) -> bool:
        with self._lock:
            stored = self._runs.get(lease.run)
            if stored is None or stored.fence != lease.fence:
                raise lease_lost(lease.run, lease.fence)
            if name not in self._opened():
                return False
            self._held[lease.run] = name
            stored.due, stored.expires = None, 0.0
            return True

    @contextmanager
    def frozen(self) -> Iterator[MemoryJournal]:
        still = MemoryJournal()
        with self._lock:
            for run, stored in self._runs.items():
                still._runs[run] = copy(stored)
                still._runs[run].entries = list(stored.entries)
            still._documents, still._kept, still._order = dict(self._documents), dict(self._kept), dict(self._order)
            still._switches, still._held = list(self._switches), dict(self._held)
        still.vault = self.vault
        yield still

    def put_document(self, digest: str, text: bytes) -> None:
        self._documents.setdefault(digest, text)

    def document(self, digest: str) -> bytes | None:
        return self._documents.get(digest)

    def close(self) -> None:
        """Do nothing: there is nothing to close."""
