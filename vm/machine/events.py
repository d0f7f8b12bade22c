"""What the machine tells its journal, and what the core asks of its shell."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final, Literal, NamedTuple

from stepward.vm.journal.canonical import canonical, portable
from stepward.vm.journal.records import version_of, write_record
from stepward.vm.journal.store import Entry

RUNNING: Final = "RUNNING"
SUSPENDED: Final = "SUSPENDED"
IN_DOUBT: Final = "IN_DOUBT"
UNFINISHED: Final = (RUNNING, SUSPENDED, IN_DOUBT)

Kind = Literal[
    "started",
    "governed",
    "intent",
    "attempt",
    "doubt",
    "reconciled",
    "resumed",
    "joined",
    "branched",
    "assigned",
    "passed",
    "blocked",
    "rejected",
    "ended",
    "cancel",
    "refused",
    "erased",
]


class Event(NamedTuple):
    """Something that happened. `body` is its meaning, and enters the trace hash; `note` is how it went.

    `text` is the canonical text of the body. Values in the body are frozen, sensitive ones sealed.
    """

    kind: str
    body: Mapping[str, Any]
    note: Mapping[str, Any]
    text: str


NOTHING: Final[Mapping[str, Any]] = {}


def event(kind: Kind, body: Mapping[str, Any], note: Mapping[str, Any] = NOTHING) -> Event:
    """Return an event with the canonical text of its body."""
    return Event(kind, body, note, canonical(portable(body)))


def unsealed(kind: Kind, body: Mapping[str, Any], note: Mapping[str, Any] = NOTHING) -> Event:
    """Return an event whose sensitive values somebody still has to seal: it has no text yet."""
    return Event(kind, body, note, "")


def entry_of(happened: Event, last: Entry, at: int) -> Entry:
    """Return the record of an event behind the last entry of its run."""
    note = canonical(happened.note)
    version = version_of(happened.kind, happened.note)
    return write_record(last.seq + 1, last.digest, happened.kind, happened.text, note, at, version)


class Idle(NamedTuple):
    """There is nothing to do: the run ended, is suspended, or is in doubt."""


IDLE: Final = Idle()


class Call(NamedTuple):
    """One attempt to be made: `sub` is the position in a parallel step, 0 elsewhere.

    `performance` numbers what counts as done once (an idempotency key is derived from it); `args` are the arguments of
    a tool, `prompt` and `system` the texts for a model. `is_retry`: the shell waits before it starts.
    """

    sub: int
    step: str
    visit: int
    attempt: int
    performance: int
    args: Any
    prompt: str = ""
    system: str | None = None
    is_retry: bool = False
    is_started: bool = False
    """Whether its intent is in the journal already: it is done again under the same key."""


class Calls(NamedTuple):
    """Attempts to be made side by side; the shell comes back when all were made."""

    calls: tuple[Call, ...]


class Spent(NamedTuple):
    """What a model call cost. `cost` is in whatever money the adapter counts in, exactly."""

    tokens: int = 0
    cost: int | Decimal = 0
    model: str = ""


FREE: Final = Spent()

Answer = Literal["output", "failed", "timeout", "doubt", "suspended"]


class Result(NamedTuple):
    """What became of an attempt, as the shell saw it: a value, or why there is none.

    `value` is frozen, and sealed where the program says that it is sensitive; `error` is text.
    """

    answer: Answer
    value: Any = None
    error: str = ""
    rule: str = ""
    spent: Spent = FREE


Action = Event | Calls | Idle
