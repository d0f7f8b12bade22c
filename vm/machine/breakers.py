"""Circuit breakers: a tool that fails again and again is not called until somebody closes its breaker.

A run that reaches it is held, and not failed. Which breakers are open is in the store, for all machines; how often a
tool has failed in a row is counted by each machine for itself.
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeVar

from stepward.vm.journal.store import Journal, JournalError, Switch
from stepward.vm.language.steps.catching import UNEXPECTED
from stepward.vm.machine.events import Result

T = TypeVar("T")

LASTS: Final = 1.0
"""Seconds for which a machine relies on what the store said of open breakers."""

MACHINE: Final = "machine"
"""Who has opened a breaker that a machine opened by itself."""


def of_tool(name: str) -> str:
    """Return the name of the breaker of a tool."""
    return f"tool:{name}"


def of_program(name: str) -> str:
    """Return the name of the breaker of a program."""
    return f"program:{name}"


class Breakers:
    """The breakers of a store, as a machine heeds them. After `max_failures` failures in a row it opens that of a tool.

    A failure is an error that the tool does not declare, a time-out, or an outcome that nobody knows. With None the
    machine counts none. What the store says of open breakers is kept for LASTS seconds. A store that blocks is asked
    again on the way of a call that goes to it anyway, and by a call of its own only after LASTS seconds without one.
    """

    def __init__(self, journal: Journal, max_failures: int | None = None) -> None:
        if max_failures is not None and max_failures < 1:
            raise ValueError("a breaker opens after 1 failure at the earliest")
        self._journal = journal
        self._max_failures = max_failures
        self.counts = max_failures is not None
        self._failures: Counter[str] = Counter()
        self.seen: tuple[frozenset[str], float] = (frozenset(), 0.0)
        """The open breakers that the store told of, and the monotonic time until which the machine relies on it."""

    @property
    def is_stale(self) -> bool:
        """Whether the store has to be asked before the next call starts."""
        return time.monotonic() >= self.seen[1]

    def look(self) -> None:
        """Ask the store which breakers are open; raises JournalError."""
        seen, until = self.seen, time.monotonic() + LASTS
        opened = self._journal.opened()
        if self.seen is seen:  # else somebody has looked or forgotten meanwhile, in another thread
            self.seen = (opened, until)

    def beside(self, function: Callable[..., T], *args: Any) -> T:
        """Call a method of the store, and before it, if it is time, ask which breakers are open."""
        if self.is_stale and function != self.look:
            with contextlib.suppress(JournalError):  # the next call of a tool asks again, and raises it
                self.look()
        return function(*args)

    def open_one(self, tool: str, programs: Iterable[str]) -> str | None:
        """Return the breaker that keeps a call from starting, or None; `tool` is empty for a model.

        `programs` are the names of the programs that make the call: that of the run, and those that it has called.
        """
        opened = self.seen[0]
        names = [of_tool(tool)] * bool(tool) + [of_program(program) for program in programs]
        return next((name for name in names if name in opened), None)

    def forget(self) -> None:
        """Have the store asked before the next call, because a breaker was switched."""
        self.seen = (self.seen[0], 0.0)

    def count(self, tool: str, result: Result, now: float) -> Switch | None:
        """Count what came of a call; return how the breaker of the tool is to be switched if it failed too often."""
        if self._max_failures is None:
            return None
        has_failed = result.answer in ("timeout", "doubt") or (result.answer == "failed" and result.name == UNEXPECTED)
        if not has_failed:
            self._failures.pop(tool, None)
            return None
        self._failures[tool] += 1
        if self._failures[tool] < self._max_failures:
            return None
        return Switch(of_tool(tool), True, now, f"{self._failures[tool]} failures in a row", MACHINE)

    def open(self, switch: Switch) -> None:
        """Open a breaker in the store, and count anew; if the store fails, the next failure opens it."""
        with contextlib.suppress(JournalError):
            self._journal.switch(switch)
            self._failures.pop(switch.name.removeprefix(of_tool("")), None)
        self.forget()
