"""A plain model of a store that predicts the result of each call. It shares no code with a store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from stepward.vm.journal.store import Entry, Head, Lease, Row

Refusal = Literal["conflict", "lost", "no run"]

ROOM: Final = 1_000_000.0
"""The time at which every model starts, in seconds."""


class Refused(NamedTuple):
    """The error of a store: an AppendConflict, a LeaseLost, or the error for a missing run."""

    why: Refusal


@dataclass(slots=True)
class _Run:
    program: str
    status: str
    started: float
    updated: float
    entries: list[Entry]
    signature: bytes | None
    holder: str
    ends: float
    leases: int = 1


@dataclass(slots=True)
class StoreModel:
    """The runs, documents and values that a store must have."""

    runs: dict[str, _Run] = field(default_factory=dict)
    documents: dict[str, bytes] = field(default_factory=dict)
    values: dict[str, dict[str, bytes]] = field(default_factory=dict)
    buried: set[str] = field(default_factory=set)

    def create(  # noqa: PLR0917 - what a store is given
        self,
        run: str,
        entries: Sequence[Entry],
        status: str,
        now: float,
        signature: bytes | None,
        program: str,
        holder: str,
        ttl: float,
    ) -> Lease | None:
        """Make a run, once."""
        if run in self.runs:
            return None
        self.runs[run] = _Run(program, status, now, now, list(entries), signature, holder, now + ttl)
        return Lease(run, 1, now + ttl)

    def append(  # noqa: PLR0917 - what a store is given
        self,
        run: str,
        expected: int,
        entries: Sequence[Entry],
        status: str,
        now: float,
        signature: bytes | None,
        number: int | None,
    ) -> Refused | None:
        """Add entries after the last one, under the newest lease or under none."""
        stored = self.runs.get(run)
        if stored is None:
            return Refused("conflict")
        if number is not None and number != stored.leases:
            return Refused("lost")
        if expected != len(stored.entries) - 1:
            return Refused("conflict")
        stored.entries += entries
        stored.status, stored.updated, stored.signature = status, now, signature
        return None

    def acquire(self, run: str, holder: str, now: float, ttl: float) -> Lease | Refused | None:
        """Lease a run that is free or already leased to this holder."""
        stored = self.runs.get(run)
        if stored is None:
            return Refused("no run")
        if now < stored.ends and holder != stored.holder:
            return None
        stored.holder, stored.leases, stored.ends = holder, stored.leases + 1, now + ttl
        return Lease(run, stored.leases, stored.ends)

    def renew(self, lease: Lease, now: float, ttl: float) -> Lease | Refused:
        """Extend the newest lease from now on."""
        stored = self.runs.get(lease.run)
        if stored is None or stored.leases != lease.fence:
            return Refused("lost")
        stored.ends = now + ttl
        return Lease(lease.run, lease.fence, stored.ends)

    def release(self, lease: Lease) -> None:
        """Give the newest lease back."""
        stored = self.runs.get(lease.run)
        if stored is not None and stored.leases == lease.fence:
            stored.ends = 0.0

    def read(self, run: str, start: int) -> list[Entry]:
        """Return the entries from a number on."""
        return [entry for entry in self.runs[run].entries if entry.seq >= start] if run in self.runs else []

    def head(self, run: str) -> Head | None:
        """Return the end of the chain."""
        stored = self.runs.get(run)
        return (
            None if stored is None else Head(run, stored.entries[-1].seq, stored.entries[-1].digest, stored.signature)
        )

    def row(self, run: str) -> Row | None:
        """Return the row of a run."""
        stored = self.runs.get(run)
        if stored is None:
            return None
        last = stored.entries[-1].seq
        return Row(run, stored.program, stored.status, last, stored.started, stored.updated, stored.ends)

    def rows(
        self, statuses: Sequence[str] | None, program: str | None, since: float | None, limit: int | None
    ) -> list[Row]:
        """Return rows ordered by start time, then by creation."""
        found: list[Row] = []
        for run, stored in sorted(self.runs.items(), key=lambda item: item[1].started):
            line = self.row(run)
            is_old = since is not None and stored.started < since
            is_other = (program is not None and stored.program != program) or (
                statuses is not None and stored.status not in statuses
            )
            if line is not None and not is_old and not is_other:
                found.append(line)
        return found if limit is None else found[len(found) - min(limit, len(found)) :]

    def put(self, run: str, values: dict[str, bytes]) -> Refused | None:
        """Store values, unless the run was erased."""
        if run in self.buried:
            return Refused("lost")
        self.values[run] = self.values.get(run, {}) | values
        return None

    def erase(self, run: str) -> int:
        """Destroy the values of a run for ever."""
        self.buried.add(run)
        return len(self.values.pop(run, {}))
