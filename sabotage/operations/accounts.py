"""What a run of a plain program has to be."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

from stepward.sabotage.operations.tasks import Plain, Task

_SUSPENDED: Final = ("held", "resting")


class SuspendedCall(NamedTuple):
    """A suspended call: its step, its tool, and when its deadline passes, in microseconds; None without one."""

    step: str
    tool: str
    due: int | None


@dataclass(eq=False)
class Account:
    """What a run has to be. `at` is the number of its task; `phase` says what it does there."""

    run: str
    plain: Plain
    started: int
    by: str | None = None
    caller: str | None = None
    before: tuple[Account, ...] = ()
    terms: set[str] = field(default_factory=set)
    first_terms: frozenset[str] = frozenset()
    """The policies under which it has started."""
    tasks: tuple[Task, ...] = ()
    most_steps: int | None = None
    most_tokens: int | None = None
    most_cost: int | None = None
    ends_by: int | None = None
    at: int = 0
    phase: str = "ready"
    reason: str = ""
    steps: int = 0
    tokens: int = 0
    cost: int = 0
    suspended: list[SuspendedCall] = field(default_factory=list)
    rests: list[int] = field(default_factory=list)
    items: list[int] = field(default_factory=list)
    tries: int = 1
    """The attempts of the present call."""
    again_at: int = 0
    """When the present call is made again after its deadline; 0 if nothing waits for that."""
    inner: list[tuple[str, int]] = field(default_factory=list)
    """What is left to do in an `each`: what, and with which number."""
    cancelled: bool = False
    erased: bool = False
    pruned: bool = False
    moved: Plain | None = None
    moved_under: set[str] = field(default_factory=set)
    granted: dict[str, int] = field(default_factory=dict)
    next: Account | None = None
    leased: int = 0
    queued: int | None = None
    ended: int = 0
    settled: list[tuple[str, str | None]] = field(default_factory=list)
    writes: list[Task] = field(default_factory=list)
    mails: int = 0

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self.phase == "over"

    @property
    def has_moved(self) -> bool:
        """Whether another run goes on with another version."""
        return self.is_over and self.reason == "moved"

    @property
    def task(self) -> Task | None:
        """The present task; None after all of them."""
        return self.tasks[self.at] if self.at < len(self.tasks) else None

    @property
    def status(self) -> str:
        """The status that the machine has to say."""
        if self.is_over:
            return _STATUS[self.reason]
        if self.cancelled:
            return "RUNNING"
        if self.phase == "doubt":
            return "IN_DOUBT"
        return "SUSPENDED" if self.phase in _SUSPENDED else "RUNNING"

    def first_due(self) -> int | None:
        """Return when its first wait is over or its first deadline passes."""
        return min([*self.rests, *(one.due for one in self.suspended if one.due is not None)], default=None)

    def due(self) -> int | None:
        """Return from when on a machine can go on with it, in microseconds; 0 for any time, None if nobody can."""
        if self.is_over:
            return None
        waits = self.phase == "again" and self.again_at > 0
        if self.cancelled or (self.status == "RUNNING" and not waits):
            return 0
        found = [one for one in (self.again_at if waits else self.first_due(), self.ends_by) if one is not None]
        return min(found, default=None)

    def chain(self) -> tuple[Account, ...]:
        """Return the runs of its chain up to itself."""
        return (*self.before, self)


_STATUS: Final = {
    "declared": "SUCCESS",
    "max_steps": "BUDGET_EXCEEDED",
    "max_tokens": "BUDGET_EXCEEDED",
    "cost": "BUDGET_EXCEEDED",
    "time": "BUDGET_EXCEEDED",
    "cancelled": "CANCELLED",
    "abandoned": "CANCELLED",
    "moved": "CANCELLED",
    "guardrail": "FAILED",
}


class Refusal(Exception):  # noqa: N818 - it is what has to happen, not a fault
    """An operation has to be refused. The message is the name of the class of the error."""


def rest_of(plain: Plain, left: Task) -> tuple[Task, ...]:
    """Return what is left of a program once a task of it has ended, behind an entry of its own."""
    names = [task.id for task in plain.tasks]
    return Task("moved", "entry"), *plain.tasks[names.index(left.id) + 1 :]


def needs_another(one: Account, tool: str, by: str | None, terms: set[str] | None = None) -> bool:
    """Return whether a call has to be settled by another person than has started the run, and is not."""
    is_asked = terms is None or "people" in terms
    return is_asked and tool in ("ask", "sign") and (by is None or one.by is None or by == one.by)


def require_starter(plain: Plain, by: str | None, terms: set[str]) -> None:
    """Refuse a run that nobody starts by name where two people have to settle its calls."""
    if by is None and "people" in terms and any(task.kind in ("ask", "sign", "both", "beg") for task in plain.tasks):
        raise Refusal("RunRefused")


def is_own(one: Account, by: str | None) -> bool:
    """Return whether the caller of a gateway settles a call of its own run, or somebody who may be it."""
    return one.caller is not None and by in (None, one.caller)
