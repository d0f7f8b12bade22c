"""The calls of a program, the answers of the world, and the log of steps."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, NamedTuple


class PendingCall(NamedTuple):
    """A call that has no answer yet.

    `step` is the sub-step's id inside a parallel step. `attempt` counts from 1 within the visit. `performance` counts
    performances within the visit; starts under one key are one performance. `tool` is empty for a model. `frame`
    has the items in whose bodies the call is, from the outside in: step id, visit, round and item.
    """

    step: str
    visit: int
    attempt: int
    performance: int
    tool: str
    args: Mapping[str, Any]
    prompt: str = ""
    system: str | None = None
    frame: tuple[tuple[str, int, int, int | str], ...] = ()

    @property
    def place(self) -> tuple[Any, ...]:
        """What no other attempt of the run shares: the step, its visit, the attempt, and the frame."""
        return (self.step, self.visit, self.attempt, *self.frame)


class Returned(NamedTuple):
    """The raw return of a tool, which may be no value or of another type."""

    value: Any


class Replied(NamedTuple):
    """The raw reply of a model, the tokens that it used, and its cost."""

    content: Any
    tokens: int = 0
    cost: Decimal = Decimal(0)


class Raised(NamedTuple):
    """The tool or the model raised, and nothing happened. `why` distinguishes errors.

    `names` are those of the exception: that of a ToolError, then those of its class and of the classes above, nearest
    first.
    """

    tokens: int = 0
    why: str = ""
    names: tuple[str, ...] = ()


class TimedOut(NamedTuple):
    """The answer did not come within the step's `timeout_seconds`."""


class Lost(NamedTuple):
    """The outcome is unknown: the tool raised InDoubt, or the machine died after the start."""


class Waits(NamedTuple):
    """The tool suspended, with a request."""

    request: Any = None


class Cut(NamedTuple):
    """The process died before the answer was written. `is_started`: the journal says that the attempt has started."""

    is_started: bool


class Expired(NamedTuple):
    """Nobody answered a suspended call within the step's `deadline_seconds`."""


Answer = Returned | Replied | Raised | TimedOut | Lost | Waits | Expired


class Moved(NamedTuple):
    """A step or sub-step was left.

    `how` is `success`, `fallback`, `failed` or `skipped` for a call; `joined`, `failed` or `skipped` for a parallel
    step; `set` and `end` for steps of these types; `then`, `otherwise`, the number of the case, or `uncovered` for a
    condition. Any of them may also have `visits` (used up), `blocked` (by a guardrail, a call that no policy allows, or
    a prompt with a sensitive value), or `error` (a condition, `set` or `end` that can't be evaluated). `next` is the
    next step, or None at the end of the run or of a body, and for a sub-step. `frame` is as in `PendingCall`.
    """

    step: str
    visit: int
    how: str
    next: str | None
    frame: tuple[tuple[str, int, int, int | str], ...] = ()
