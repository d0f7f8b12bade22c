"""What a program asks of the world, what the world may answer, and what was done step by step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class Asked(NamedTuple):
    """A call that has no answer yet.

    `step` is the sub-step's id inside a parallel step. `attempt` counts from 1 within the visit, `performance` counts
    the performances of the visit: a start under the same key is the same one. `tool` is empty for a model.
    """

    step: str
    visit: int
    attempt: int
    performance: int
    tool: str
    args: Mapping[str, Any]
    prompt: str = ""
    system: str | None = None


class Returned(NamedTuple):
    """What a tool returned, raw: it may be no value, or of another type."""

    value: Any


class Replied(NamedTuple):
    """What a model replied, raw, and the tokens that it used."""

    content: Any
    tokens: int = 0


class Raised(NamedTuple):
    """The tool or the model raised: it did not happen. `why` tells one error from another."""

    tokens: int = 0
    why: str = ""


class TimedOut(NamedTuple):
    """The answer did not come within the step's `timeout_seconds`."""


class Lost(NamedTuple):
    """Nobody knows: the tool raised InDoubt, or the machine died after the start."""


class Waits(NamedTuple):
    """The tool suspended."""


Answer = Returned | Replied | Raised | TimedOut | Lost | Waits


class Moved(NamedTuple):
    """A step or sub-step was left.

    `how` is `success`, `fallback`, `failed` or `skipped` for a call, `joined`, `failed` or `skipped` for a parallel
    step, `set` and `end` for those, `then`, `otherwise`, the number of the case, or `uncovered` for a condition.
    For any of them it may be `visits` (used up), `blocked` (by a guardrail, a call that no policy allows, a prompt
    with a sensitive value), or `error` (a condition, `set` or `end` that can't be evaluated). `next` is where control
    goes, None where the run ends and for a sub-step.
    """

    step: str
    visit: int
    how: str
    next: str | None
