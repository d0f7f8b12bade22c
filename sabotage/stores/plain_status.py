"""The status that the list of runs must show for a run, from its records alone. It shares no code with the product."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from stepward.sabotage.stores.plain_records import all_steps, branch_of, items_at_once
from stepward.sabotage.stores.through import ThroughStore
from stepward.vm.journal.store import Append, Journal, Lease

_HELD: Final = ("doubt", "suspended")
_BEGUN: Final = ("open", "again")
_SETTLES: Final = ("attempt", "expired", "resumed", "blocked", "rejected")


class Siblings(NamedTuple):
    """The calls of the step of each call, which is one of them, and those on which each call depends; and the for_each
    steps whose items run at once."""

    calls: Mapping[str, frozenset[str]]
    needs: Mapping[str, frozenset[str]]
    beside: frozenset[str]


def siblings_of(program: Mapping[str, Any]) -> Siblings:
    """Return the calls of the step of each call of a program, which is plain data."""
    found: dict[str, frozenset[str]] = {}
    needs: dict[str, frozenset[str]] = {}
    for step in all_steps(program):
        parts = step.get("parallel_steps") or [step]
        calls = frozenset(part["id"] for part in parts)
        found |= dict.fromkeys(calls, calls)
        needs |= {part["id"]: frozenset(part.get("depends_on", ())) for part in parts}
    return Siblings(found, needs, items_at_once(program))


class Standing:
    """Follows the records of one run, and says which status its row must have.

    A run waits only if each call of its step waits or is settled: while an intent has no outcome, or an attempt is
    still to be made, a process has to go on with it, and recovery looks for RUNNING. A call also waits while one that
    it depends on does.
    """

    def __init__(self, siblings: Siblings) -> None:
        self._siblings = siblings
        self._calls: dict[str, str] = {}
        self._branches: dict[tuple[Any, ...], dict[str, str]] = {}
        """The calls of the present step of each branch that runs."""
        self._ended = ""
        self._is_cancelled = False

    def follow(self, record: Mapping[str, Any]) -> None:
        """Read the next record."""
        kind, body = record["kind"], record["body"]
        self._ended = self._ended or body.get("ends", "")
        self._is_cancelled = self._is_cancelled or kind == "cancel"
        frame = tuple(map(tuple, body.get("frame", ())))
        branch = branch_of(frame, self._siblings.beside)
        if kind == "item" and branch == frame and branch:
            self._branches[branch] = {}
            return
        if branch:
            outside, self._calls = self._calls, self._branches[branch]
            self._follow(kind, body, record)
            self._branches[branch], self._calls = self._calls, outside
            if "closes" in body and branch == frame:
                del self._branches[branch]
            return
        self._follow(kind, body, record)

    def _follow(self, kind: str, body: Mapping[str, Any], record: Mapping[str, Any]) -> None:
        step, how = str(body.get("step")), body.get("kind", "")
        if kind == "waiting":  # a wait stands for a call that is held
            self._calls = {step: "suspended"}
            return
        if "next" in body or "closes" in body:
            self._calls = {}
        elif kind == "joined" and how == "again":
            self._calls = {call: "again" if done == "failed" else done for call, done in self._calls.items()}
        elif kind in ("intent", "doubt"):
            self._calls[step] = "open" if kind == "intent" else kind
        elif kind == "reconciled":
            self._calls[step] = "again" if record["note"]["verdict"] == "not_done" else "success"
        elif kind in _SETTLES and step in self._siblings.calls:
            self._calls[step] = how

    @property
    def status(self) -> str:
        """The status that the row of the run must have now."""
        if self._ended:
            return self._ended
        if self._is_cancelled:
            return "RUNNING"
        inner = [
            self._status_of(calls)
            for branch, calls in self._branches.items()
            if not any(other[: len(branch)] == branch for other in self._branches if other != branch)
        ]
        if inner:
            return "RUNNING" if "RUNNING" in inner else "IN_DOUBT" if "IN_DOUBT" in inner else "SUSPENDED"
        return self._status_of(self._calls)

    def _status_of(self, present: Mapping[str, str]) -> str:
        """Return the status of a run, or of a branch, with the calls of its present step."""
        if not present:
            return "RUNNING"
        calls = dict.fromkeys(self._siblings.calls[next(iter(present))], "again") | dict(present)
        found = {how for call, how in calls.items() if not self._depends_on_others(call, calls)}
        if not found.isdisjoint(_BEGUN) or found.isdisjoint(_HELD):
            return "RUNNING"
        return "IN_DOUBT" if "doubt" in found else "SUSPENDED"

    def _depends_on_others(self, call: str, calls: Mapping[str, str]) -> bool:
        """Return whether a call is still to be made, and one that it depends on has neither an output nor failed."""
        needed = {calls[one] for one in self._siblings.needs[call]}
        if calls[call] != "again" or not needed.isdisjoint(("failed", "skipped")):
            return False
        return not needed <= {"success", "fallback"}


def odd_row(store: Journal, run: str, last: int, standing: Standing) -> str | None:
    """Return how the row of a run contradicts its records, of which `last` is the number of the last; None if it does
    not."""
    row = store.row(run)
    if row is None:
        return "the list of runs does not have it"
    if (row.status, row.seq) != (standing.status, last):
        return f"the list of runs has it as {row.status} at {row.seq}, and it is {standing.status} at {last}"
    return None


class StandingStore(ThroughStore):
    """A store that looks at the row of a run after every append of its records. `odd` says what it found first."""

    def __init__(self, inner: Journal, run: str, siblings: Siblings) -> None:
        super().__init__(inner)
        self.odd: str | None = None
        self._run = run
        self._standing = Standing(siblings)
        self._read = 0

    def create(self, append: Append, program: str, holder: str, ttl: float) -> Lease | None:
        """Make a run."""
        lease = super().create(append, program, holder, ttl)
        self._look(append.run)
        return lease

    def append(self, append: Append, fence: int | None) -> None:
        """Add entries."""
        super().append(append, fence)
        self._look(append.run)

    def _look(self, run: str) -> None:
        if run != self._run or self.odd is not None:
            return
        for entry in self.inner.read(run, self._read):
            self._standing.follow(json.loads(entry.record))
            self._read += 1
        self.odd = odd_row(self.inner, run, self._read - 1, self._standing)
