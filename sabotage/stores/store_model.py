"""A plain model of a store: what each call must answer, written from the contract and sharing no code with a store."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from stepward.vm.journal.store import Entry, Head, Lease, Row

Refusal = Literal["conflict", "lost", "no run"]

ROOM: Final = 1_000_000.0
"""A time at which every model starts, in seconds."""


class Refused(NamedTuple):
    """What a store raises: an AppendConflict, a LeaseLost, or the error for a run that is not there."""

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
    """Runs, documents and values as a store has to have them."""

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
        """Add entries behind the last one, under the newest lease or under none."""
        kept = self.runs.get(run)
        if kept is None:
            return Refused("conflict")
        if number is not None and number != kept.leases:
            return Refused("lost")
        if expected != len(kept.entries) - 1:
            return Refused("conflict")
        kept.entries += entries
        kept.status, kept.updated, kept.signature = status, now, signature
        return None

    def acquire(self, run: str, holder: str, now: float, ttl: float) -> Lease | Refused | None:
        """Lease a run that is free, or one's own."""
        kept = self.runs.get(run)
        if kept is None:
            return Refused("no run")
        if now < kept.ends and holder != kept.holder:
            return None
        kept.holder, kept.leases, kept.ends = holder, kept.leases + 1, now + ttl
        return Lease(run, kept.leases, kept.ends)

    def renew(self, lease: Lease, now: float, ttl: float) -> Lease | Refused:
        """Make the newest lease last from now on."""
        kept = self.runs.get(lease.run)
        if kept is None or kept.leases != lease.fence:
            return Refused("lost")
        kept.ends = now + ttl
        return Lease(lease.run, lease.fence, kept.ends)

    def release(self, lease: Lease) -> None:
        """Give the newest lease back."""
        kept = self.runs.get(lease.run)
        if kept is not None and kept.leases == lease.fence:
            kept.ends = 0.0

    def read(self, run: str, start: int) -> list[Entry]:
        """Return the entries from a number on."""
        return [entry for entry in self.runs[run].entries if entry.seq >= start] if run in self.runs else []

    def head(self, run: str) -> Head | None:
        """Return the end of the chain."""
        kept = self.runs.get(run)
        return None if kept is None else Head(run, kept.entries[-1].seq, kept.entries[-1].digest, kept.signature)

    def row(self, run: str) -> Row | None:
        """Return the line of a run."""
        kept = self.runs.get(run)
        if kept is None:
            return None
        last = kept.entries[-1].seq
        return Row(run, kept.program, kept.status, last, kept.started, kept.updated, kept.ends)

    def rows(
        self, statuses: Sequence[str] | None, program: str | None, since: float | None, limit: int | None
    ) -> list[Row]:
        """Return lines, the oldest first, and of those that began at one time the one that was made first."""
        found: list[Row] = []
        for run, kept in sorted(self.runs.items(), key=lambda item: item[1].started):
            line = self.row(run)
            is_old = since is not None and kept.started < since
            is_other = (program is not None and kept.program != program) or (
                statuses is not None and kept.status not in statuses
            )
            if line is not None and not is_old and not is_other:
                found.append(line)
        return found if limit is None else found[len(found) - min(limit, len(found)) :]

    def put(self, run: str, values: dict[str, bytes]) -> Refused | None:
        """Keep values, unless the run was erased."""
        if run in self.buried:
            return Refused("lost")
        self.values[run] = self.values.get(run, {}) | values
        return None

    def erase(self, run: str) -> int:
        """Destroy the values of a run for ever."""
        self.buried.add(run)
        return len(self.values.pop(run, {}))
