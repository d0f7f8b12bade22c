"""A plain model of a store that predicts the result of each call. It shares no code with a store."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from stepward.vm.journal.store import Entry, Head, Lease, Row, Switch

Refusal = Literal["conflict", "lost", "no run"]

ROOM: Final = 1_000_000.0
"""The time at which every model starts, in seconds."""


class StoreError(NamedTuple):
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
    due: float | None
    leases: int = 1
    held: str = ""


@dataclass(slots=True)
class StoreModel:
    """The runs, documents and values that a store must have."""

    runs: dict[str, _Run] = field(default_factory=dict)
    documents: dict[str, bytes] = field(default_factory=dict)
    values: dict[str, dict[str, bytes]] = field(default_factory=dict)
    buried: set[str] = field(default_factory=set)
    kept: dict[str, tuple[int, bytes, bytes]] = field(default_factory=dict)
    """Of each run that was pruned: the number and digest of its last entry, and what is kept."""
    order: list[str] = field(default_factory=list)
    """The ids of all runs, also of those that were pruned, in the order of creation."""
    switches: list[Switch] = field(default_factory=list)

    def create(  # noqa: PLR0913, PLR0917 - what a store is given
        self,
        run: str,
        entries: Sequence[Entry],
        status: str,
        now: float,
        signature: bytes | None,
        program: str,
        holder: str,
        ttl: float,
        due: float | None,
    ) -> Lease | None:
        """Make a run, once."""
        if run in self.order:
            return None
        self.order.append(run)
        self.runs[run] = _Run(program, status, now, now, list(entries), signature, holder, now + ttl, due)
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
        due: float | None,
    ) -> StoreError | None:
        """Add entries after the last one, under the newest lease or under none."""
        stored = self.runs.get(run)
        if stored is None:
            return StoreError("conflict")
        if number is not None and number != stored.leases:
            return StoreError("lost")
        if expected != len(stored.entries) - 1:
            return StoreError("conflict")
        stored.entries += entries
        stored.status, stored.updated, stored.signature = status, now, signature
        stored.due, stored.held = due, ""
        return None

    def acquire(self, run: str, holder: str, now: float, ttl: float) -> Lease | StoreError | None:
        """Lease a run that is free or already leased to this holder."""
        stored = self.runs.get(run)
        if stored is None:
            return StoreError("no run")
        if now < stored.ends and holder != stored.holder:
            return None
        stored.holder, stored.leases, stored.ends = holder, stored.leases + 1, now + ttl
        return Lease(run, stored.leases, stored.ends)

    def _ready(self, now: float) -> list[str]:
        """Return the runs that are due and that nobody has leased, those due first."""
        found = [(one.due, run) for run, one in self.runs.items() if one.due is not None and one.ends <= now]
        return [run for due, run in sorted(found, key=lambda pair: pair[0]) if due <= now]

    def claim(
        self, holder: str, now: float, ttl: float, limit: int, programs: Collection[str], passed: Mapping[str, int]
    ) -> list[Lease]:
        """Lease runs of some programs that are due, but for those that are passed over at their last entry."""
        ready = [run for run in self._ready(now) if self.runs[run].program in programs]
        due_runs = [run for run in ready if passed.get(run) != self.runs[run].entries[-1].seq][:limit]
        for run in due_runs:
            stored = self.runs[run]
            stored.holder, stored.leases, stored.ends = holder, stored.leases + 1, now + ttl
        return [Lease(run, self.runs[run].leases, now + ttl) for run in due_runs]

    def due(self, now: float) -> dict[str, int]:
        """Return the number of runs that can be claimed, by program."""
        programs = [self.runs[run].program for run in self._ready(now)]
        return {program: programs.count(program) for program in programs}

    def renew(self, lease: Lease, now: float, ttl: float) -> Lease | StoreError:
        """Extend the newest lease from now on."""
        stored = self.runs.get(lease.run)
        if stored is None or stored.leases != lease.fence:
            return StoreError("lost")
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

    def put(self, run: str, values: dict[str, bytes]) -> StoreError | None:
        """Store values, unless the run was erased."""
        if run in self.buried:
            return StoreError("lost")
        self.values[run] = self.values.get(run, {}) | values
        return None

    def erase(self, run: str) -> int:
        """Destroy the values of a run for ever."""
        self.buried.add(run)
        return len(self.values.pop(run, {}))

    # -- upkeep ----------------------------------------------------------------------------------------------------

    def sign(self, head: Head) -> bool:
        """Replace the signature of a head that is the present one."""
        present = self.head(head.run)
        if present is None or present[:3] != head[:3]:
            return False
        self.runs[head.run].signature = head.signature
        return True

    def prune(self, head: Head, pruned: bytes) -> bool:
        """Remove a run by its head, or replace what is kept of one that was removed by the same head."""
        present, before = self.head(head.run), self.kept.get(head.run)
        if (present[1:3] if present else before and before[:2]) != head[1:3]:
            return False
        self.runs.pop(head.run, None)
        self.kept[head.run] = (head.seq, head.digest, pruned)
        return True

    def pruned(self) -> list[str]:
        """Return the runs that were removed, in the order of creation."""
        return [run for run in self.order if run in self.kept]

    def opened(self) -> set[str]:
        """Return the breakers whose last switch has opened them."""
        return {one.name for one in self.switches if [two for two in self.switches if two.name == one.name][-1].is_open}

    def switch(self, switch: Switch) -> bool:
        """Open or close a breaker; what it held is due at once when it is closed."""
        if (switch.name in self.opened()) is switch.is_open:
            return False
        self.switches.append(switch)
        for stored in self.runs.values():
            if not switch.is_open and stored.held == switch.name:
                stored.due, stored.held = 0.0, ""
        return True

    def hold(self, lease: Lease, name: str) -> bool | StoreError:
        """Give the newest lease back, and let the run be due to nobody while a breaker is open."""
        stored = self.runs.get(lease.run)
        if stored is None or stored.leases != lease.fence:
            return StoreError("lost")
        if name not in self.opened():
            return False
        stored.held, stored.due, stored.ends = name, None, 0.0
        return True
