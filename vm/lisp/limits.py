"""The limits of an evaluation, and the meter that holds it to them.

Steps, bytes and depth are counted, so that an evaluation ends at the same place on every machine. The clock only stops
what the counts let through on a slow one. Bytes are those of live data: a value gives back what it took when nothing
refers to it any more.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Protocol

from stepward.vm.lisp.faults import Fault


@dataclass(frozen=True, slots=True)
class Limits:
    """How much an evaluation may use.

    `steps` are evaluated forms and handled items, `memory` is bytes of live data, `depth` is nested evaluations,
    `seconds` the time on the clock, `printed` the characters that `println` may leave, `text` those of the program.
    """

    steps: int = 1_000_000
    memory: int = 16_000_000
    depth: int = 5_000
    seconds: float = 10.0
    printed: int = 8_000
    text: int = 100_000


class Growing(Protocol):
    """A value that takes memory."""

    def in_words(self) -> str:
        """Return what it is and how large: `a vector of 12000 items`."""
        ...


_LOOK_EVERY = 256
"""Steps between two looks at the clock."""

FEWER = "handle fewer items: filter earlier, take a page of the data (`take`, `drop`), or keep only what is needed"


class Meter:
    """Counts the steps and the live bytes of one evaluation; raises a Fault when a limit is passed."""

    __slots__ = ("_deadline", "_look_at", "limits", "live", "most", "steps")

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.steps = 0
        self.live = 0
        self.most = 0
        self._look_at = min(_LOOK_EVERY, limits.steps)
        self._deadline = time.monotonic() + limits.seconds

    def step(self, count: int = 1) -> None:
        """Count steps; raises a Fault when there were too many, or the time is over."""
        self.steps += count
        if self.steps > self._look_at:
            self._look()

    def _look(self) -> None:
        most = self.limits.steps
        if self.steps > most:
            raise Fault(
                "steps_exceeded",
                f"the program takes more than {most} steps",
                f"{FEWER}; a loop may never end: look at what makes it stop",
                limit=most,
            )
        if time.monotonic() > self._deadline:
            raise Fault("timeout", f"the program takes more than {self.limits.seconds:g} seconds", FEWER)
        self._look_at = min(self.steps + _LOOK_EVERY, most)

    def hold(self, size: int, value: Growing) -> None:
        """Count bytes that a value takes; raises a Fault that names it when there are too many."""
        self.live += size
        if self.live > self.most:
            self.most = self.live
            if self.live > self.limits.memory:
                raise self.full(value.in_words())

    def expect(self, size: int, cause: str) -> None:
        """Make sure that there is room for bytes before they are made; `cause` says in words what needs them."""
        if self.live + size > self.limits.memory:
            raise self.full(cause)

    def full(self, cause: str) -> Fault:
        """Return the fault of too many bytes; `cause` says in words which value grew."""
        most = self.limits.memory
        return Fault(
            "memory_exceeded",
            f"the data of the program has more than {most} bytes; what grew is {cause}",
            FEWER,
            limit=most,
            grown=cause,
        )
