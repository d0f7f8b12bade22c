"""The events that the machine records, and the actions that the core asks of its shell."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final, Literal, NamedTuple

from stepward.vm.journal.canonical import TAG, canonical, portable
from stepward.vm.journal.records import version_of, write_record
from stepward.vm.journal.store import Entry, packed
from stepward.vm.language.steps.catching import UNEXPECTED
from stepward.vm.machine.keys import FrameName

RUNNING: Final = "RUNNING"
SUSPENDED: Final = "SUSPENDED"
IN_DOUBT: Final = "IN_DOUBT"
MOVED: Final = "moved"
"""The reason with which a run ends that another one continues with a new version of its program."""

UNFINISHED: Final = (RUNNING, SUSPENDED, IN_DOUBT)

Kind = Literal[
    "started",
    "governed",
    "moved",
    "intent",
    "attempt",
    "doubt",
    "reconciled",
    "resumed",
    "joined",
    "opened",
    "item",
    "closed",
    "waiting",
    "waited",
    "expired",
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
    """An event of a run. `body` is its meaning, and enters the trace hash; `note` has times, costs and keys.

    `text` is the canonical text of the body. Values in the body are frozen, sensitive ones sealed.
    """

    kind: str
    body: Mapping[str, Any]
    note: Mapping[str, Any]
    text: str


NOTHING: Final[Mapping[str, Any]] = {}

_PLAIN: Final = frozenset({"frame", "kind", "visit"})
"""The fields of a body that are JSON as they are: words of ours, and the ids and counts of a frame."""


def make_event(kind: Kind, body: Mapping[str, Any], note: Mapping[str, Any] = NOTHING) -> Event:
    """Return an event with the canonical text of its body."""
    data = body
    for name, value in body.items():
        # Most fields are ids and words, which a journal has as they are.
        if value and (type(value) is not str or value[0] == TAG) and name not in _PLAIN:
            data = {**data, name: portable(value)}
    return packed(Event, (kind, body, note, canonical(data)))


def unsealed(kind: Kind, body: Mapping[str, Any], note: Mapping[str, Any] = NOTHING) -> Event:
    """Return an event without text, because its sensitive values are still to be sealed."""
    return Event(kind, body, note, "")


def entry_of(event: Event, last: Entry, at: int) -> Entry:
    """Return the record of an event, after the last entry of its run; `at` is its time in microseconds."""
    (kind, body, note, text), (seq, _, prev) = event, last
    note_text, version = canonical(note) if note else "{}", version_of(kind, body, note)
    return write_record(seq + 1, prev, kind, text, note_text, at, version)


class Idle(NamedTuple):
    """No action: the run ended, is suspended, or is in doubt."""


IDLE: Final = Idle()


class Call(NamedTuple):
    """An attempt to be made: `sub` is the position in a parallel step, 0 elsewhere.

    `performance` numbers the performances of a visit: attempts under one idempotency key are one performance. `args`
    are the arguments of a tool, `prompt` and `system` the texts for a model. `is_retry`: the shell waits before it
    starts.
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
    """Whether its intent is in the journal already: it is performed again under the same key."""
    due: int = 0
    """The earliest time of its start, in microseconds; 0 where the program states no delay."""
    frame: FrameName = ()
    """The frame in which the call is made, empty outside of all bodies."""


class Calls(NamedTuple):
    """Attempts to be made concurrently, before the next decision."""

    calls: tuple[Call, ...]


class Spent(NamedTuple):
    """What a model call cost. `cost` is exact, in the currency of the adapter."""

    tokens: int = 0
    cost: int | Decimal = 0
    model: str = ""


FREE: Final = Spent()

Answer = Literal["output", "failed", "timeout", "doubt", "suspended"]


class Result(NamedTuple):
    """The result of an attempt, as the shell saw it: a value, or an error.

    `value` is frozen, with sensitive parts marked; `error` is a text, `name` the name of the error. `is_cached`: a
    reply comes from a cache.
    """

    answer: Answer
    value: Any = None
    error: str = ""
    rule: str = ""
    spent: Spent = FREE
    is_cached: bool = False
    name: str = UNEXPECTED


def output_of(value: Any) -> Result:
    """Return the result of an attempt that came to a frozen value."""
    return packed(Result, ("output", value, "", "", FREE, False, UNEXPECTED))


Action = Event | Calls | Idle
