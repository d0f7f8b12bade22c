"""The records of a run's trace, as `Run.trace` has them: one class for each kind of record.

This module is public. Its classes have the names of the kinds in the journal (specs/journal.md, "Record kinds").
In place of a sensitive value stands `"[sensitive]"`, or `"[erased]"`. Values are frozen: objects are mappings, lists
are tuples, numbers are `int` or `Decimal`.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from decimal import Decimal
from typing import Any, ClassVar, Final, Literal, get_args

Outcome = Literal["success", "fallback", "skipped", "failed", "again", "doubt", "suspended"]


@dataclass(frozen=True, kw_only=True)
class TraceRecord:
    """A record of a run: `seq` is its number, from 0, and `at` the time at which it was written, in UTC."""

    kind: ClassVar[str] = ""
    seq: int
    at: datetime.datetime


@dataclass(frozen=True, kw_only=True)
class StepRecord(TraceRecord):
    """A record about a step: `step` is the id of a step or sub-step, `visit` counts its visits from 1.

    `frame` says in which bodies it was performed: for each of them, from the outside in, the id of the step with the
    body, its visit, its round, and the number of the item from 0 or the name of the branch.
    """

    step: str
    visit: int
    frame: tuple[tuple[str, int, int, int | str], ...] = ()


@dataclass(frozen=True, kw_only=True)
class LeavingRecord(StepRecord):
    """A record that may leave its step.

    `next` is the id of the next step. Or `ends` is the status with which the run ends, `closes` that with which the
    body of the step ends, and `reason` says why. All four are None if the run stays at the step.
    """

    next: str | None = None
    ends: str | None = None
    closes: str | None = None
    reason: str | None = None


@dataclass(frozen=True, kw_only=True)
class Started(TraceRecord):
    """The run starts. `program` is the digest of its program, `policies` are digests, `waived` names of waived rules.

    `inputs` have their defaults; `by` is who started it, if somebody said so. `envelope` has the `caller` of a gateway
    that asked for it, the version of its `gate`, and `settles_own`. `due` is when the time of the run is over, if
    that is limited.
    """

    kind: ClassVar[str] = "started"
    program: str
    inputs: Mapping[str, Any]
    policies: tuple[str, ...]
    waived: tuple[str, ...]
    by: str | None = None
    envelope: Mapping[str, Any] | None = None
    due: datetime.datetime | None = None


@dataclass(frozen=True, kw_only=True)
class Governed(TraceRecord):
    """The run comes under further policies: their digests, and the names of waived rules."""

    kind: ClassVar[str] = "governed"
    policies: tuple[str, ...]
    waived: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Moved(StepRecord):
    """The run moves to a new version of its program when the step on which it waits has ended.

    `program` is the digest of the version, `policies` are those under which its rest goes on, `granted` is what was
    added to budgets.
    """

    kind: ClassVar[str] = "moved"
    program: str
    policies: tuple[str, ...]
    granted: Mapping[str, Any] | None = None
    by: str | None = None


@dataclass(frozen=True, kw_only=True)
class Intent(StepRecord):
    """A call of a tool that writes or suspends is about to start. `key` is its idempotency key."""

    kind: ClassVar[str] = "intent"
    tool: str
    args: Mapping[str, Any]
    attempt: int
    performance: int
    key: str


@dataclass(frozen=True, kw_only=True)
class Attempt(LeavingRecord):
    """One try of a call came to an end.

    `outcome` is `success`, `fallback`, `skipped` or `failed`; `again` if it is tried again, `doubt` if nobody knows,
    `suspended` if somebody has to resume it. `output` is that of a success or fallback, `error` the text of a failure,
    `error_name` its name in a program of language 2, `request` the question of a suspension, `rule` why a reply was
    rejected (`allowed_outputs` or `returns`). `took` is in seconds. `due` is the time before which the next attempt
    does not start, or the deadline of a suspension. `tokens`, `cost` and `model` are those of a model call; `cached`
    says that its reply came from a cache and cost nothing. `unknown` says that a write that is tried again may have
    happened.
    """

    kind: ClassVar[str] = "attempt"
    outcome: Outcome
    attempt: int
    performance: int
    output: Any = None
    error: str | None = None
    error_name: str | None = None
    request: Any = None
    rule: str | None = None
    unknown: bool = False
    took: float | None = None
    due: datetime.datetime | None = None
    tokens: int = 0
    cost: int | Decimal = 0
    model: str = ""
    cached: bool = False


@dataclass(frozen=True, kw_only=True)
class Doubt(StepRecord):
    """A write had started when the machine stopped, and nobody knows whether it happened."""

    kind: ClassVar[str] = "doubt"
    error: str


@dataclass(frozen=True, kw_only=True)
class Reconciled(LeavingRecord):
    """Somebody said what became of a write in doubt. `output` is that of the verdict `done`."""

    kind: ClassVar[str] = "reconciled"
    verdict: Literal["done", "not_done", "abandon"]
    output: Any = None
    by: str | None = None


@dataclass(frozen=True, kw_only=True)
class Resumed(LeavingRecord):
    """A resume token brought the output of a suspended call."""

    kind: ClassVar[str] = "resumed"
    output: Any = None
    by: str | None = None


@dataclass(frozen=True, kw_only=True)
class Joined(LeavingRecord):
    """The sub-steps of a parallel step, or the items of a for_each step, are done."""

    kind: ClassVar[str] = "joined"
    outcome: Literal["success", "skipped", "failed", "again"]
    error: str | None = None
    error_name: str | None = None


@dataclass(frozen=True, kw_only=True)
class Opened(StepRecord):
    """A step with bodies starts. Of a for_each step: its items, and the first values of what they carry on."""

    kind: ClassVar[str] = "opened"
    items: tuple[Any, ...] | None = None
    carry: Mapping[str, Any] | None = None


@dataclass(frozen=True, kw_only=True)
class Item(StepRecord):
    """An item of a for_each step or a branch starts; the last member of `frame` names it."""

    kind: ClassVar[str] = "item"


@dataclass(frozen=True, kw_only=True)
class Closed(LeavingRecord):
    """An `end` step ended the body for an item; its `output` is that of the item."""

    kind: ClassVar[str] = "closed"
    output: Any = None


@dataclass(frozen=True, kw_only=True)
class Branched(LeavingRecord):
    """A condition took a branch: `then`, `otherwise`, the number of a case from 1, or None if none applies."""

    kind: ClassVar[str] = "branched"
    branch: str | int | None


@dataclass(frozen=True, kw_only=True)
class Waiting(StepRecord):
    """A `wait` step began at `started`; it is over at `due`."""

    kind: ClassVar[str] = "waiting"
    started: datetime.datetime
    due: datetime.datetime


@dataclass(frozen=True, kw_only=True)
class Waited(LeavingRecord):
    """A `wait` step was over by the clock of a machine, which said `time`."""

    kind: ClassVar[str] = "waited"
    time: datetime.datetime


@dataclass(frozen=True, kw_only=True)
class Expired(LeavingRecord):
    """The deadline of a suspended call had passed by the clock of a machine, which said `time`.

    `outcome` is `failed` or `skipped`; `again` if the call is made again, not before `due` if there is one; `doubt` if
    it is a write that may have happened. `unknown` says that a write that is made again may have happened.
    """

    kind: ClassVar[str] = "expired"
    outcome: Outcome
    error: str
    error_name: str | None = None
    unknown: bool = False
    time: datetime.datetime
    due: datetime.datetime | None = None


@dataclass(frozen=True, kw_only=True)
class Assigned(LeavingRecord):
    """A `set` step gave variables their values."""

    kind: ClassVar[str] = "assigned"
    values: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Passed(LeavingRecord):
    """A step was not entered, because it has used up its visits."""

    kind: ClassVar[str] = "passed"
    error: str | None = None
    error_name: str | None = None


@dataclass(frozen=True, kw_only=True)
class Blocked(LeavingRecord):
    """A step could not start, or an expression had no value."""

    kind: ClassVar[str] = "blocked"
    outcome: Literal["skipped", "failed"]
    error: str
    error_name: str | None = None


@dataclass(frozen=True, kw_only=True)
class Rejected(LeavingRecord):
    """A rule forbade the step. `rule` is a guardrail, `allow`, or `sensitive-to-model`.

    `in_doubt` are the ids of writes that may have happened, if the run ended.
    """

    kind: ClassVar[str] = "rejected"
    outcome: str
    rule: str
    error: str
    error_name: str | None = None
    in_doubt: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Ended(TraceRecord):
    """The run ended: at an `end` step, which `step` names, or from outside of the program.

    `in_doubt` are the ids of writes that may have happened. `time` is what the clock of the machine said
    when the time of the run was over.
    """

    kind: ClassVar[str] = "ended"
    ends: str
    reason: str
    step: str | None = None
    visit: int | None = None
    output: Any = None
    in_doubt: tuple[str, ...] = ()
    time: datetime.datetime | None = None


@dataclass(frozen=True, kw_only=True)
class Cancel(TraceRecord):
    """Somebody asked for the end of the run."""

    kind: ClassVar[str] = "cancel"
    by: str | None = None


@dataclass(frozen=True, kw_only=True)
class Refused(TraceRecord):
    """A delivery was not accepted; it changed nothing."""

    kind: ClassVar[str] = "refused"
    what: str
    why: str
    by: str | None = None


@dataclass(frozen=True, kw_only=True)
class Erased(TraceRecord):
    """Sensitive values were destroyed; `references` are their names in the journal."""

    kind: ClassVar[str] = "erased"
    references: tuple[str, ...]
    by: str | None = None


AnyRecord = (
    Started
    | Governed
    | Moved
    | Intent
    | Attempt
    | Doubt
    | Reconciled
    | Resumed
    | Joined
    | Opened
    | Item
    | Closed
    | Waiting
    | Waited
    | Expired
    | Branched
    | Assigned
    | Passed
    | Blocked
    | Rejected
    | Ended
    | Cancel
    | Refused
    | Erased
)


def _time(microseconds: int) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(0, datetime.UTC) + datetime.timedelta(microseconds=microseconds)


_CLASSES: Final[dict[str, Any]] = {one.kind: one for one in get_args(AnyRecord)}
_FIELDS: Final = {one: frozenset(field.name for field in fields(one)) for one in _CLASSES.values()}
_READ: Final[dict[str, Callable[[Any], Any]]] = {
    "took": lambda microseconds: microseconds / 1e6,
    "due": _time,
    "started": _time,
    "time": _time,
    "cost": lambda text: Decimal(text) if "." in text else int(text),
}


def record_of(seq: int, at: int, kind: str, body: Mapping[str, Any], note: Mapping[str, Any]) -> AnyRecord:
    """Return the typed record of a record's parts; `at` is in microseconds since the epoch, `body` has plain values."""
    cls = _CLASSES[kind]
    found = {**note, **body}
    if "kind" in found:
        found["outcome"] = found.pop("kind")
    fields = {name: _READ[name](found[name]) if name in _READ else found[name] for name in _FIELDS[cls] & found.keys()}
    record: AnyRecord = cls(**{**fields, "seq": seq, "at": _time(at)})
    return record
