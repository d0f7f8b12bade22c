"""The clock of a check: it ends what hangs, and decides nothing else.

What the layers may take is counted in units and states, so that verdicts hang on no clock; these limits decide as long
as the clock has not run out. Whoever may take long looks at it now and then, and hands a solver what is left. Who does
not look is stopped by the watch (watch.py), which makes the clock strike early where memory runs out.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

LIMIT_SECONDS: Final = 60.0
"""Seconds that the proofs of one program may take, unless it is set."""


MAX_SECONDS: Final = 2_000_000
"""Seconds that are handed on at most: neither Z3 nor the operating system takes all that there are."""


class OutOfTime(Exception):  # noqa: N818 - no error: the verdict is unknown
    """A bound of the check is reached; the message says which."""


class Clock:
    """Runs from when it is made; `has_struck` says whether it has stopped anything.

    `words` are what it says then, and `help` is what a user can do about it.
    """

    def __init__(self, seconds: float) -> None:
        self.words = f"stopped by the clock after {seconds:g} s"
        self.help = "allow more with `--time-limit`, or split the program"
        self.has_struck = False
        self._ends = time.monotonic() + seconds
        self._stops: list[Callable[[], None]] = []

    def look(self) -> None:
        """Raise OutOfTime when no time is left."""
        if self.overtime() >= 0:
            self.has_struck = True
            raise OutOfTime(self.words)

    def overtime(self) -> float:
        """Return the seconds since no time is left; less than 0 before."""
        return time.monotonic() - self._ends

    def left(self) -> float:
        """Return the seconds that are left, more than none; raises OutOfTime when there are none."""
        self.look()
        return min(max(-self.overtime(), 0.001), MAX_SECONDS)

    def milliseconds(self) -> int:
        """Return what is left as Z3 takes it: once that is over, so is the clock."""
        return math.ceil(self.left() * 1000) + 1

    # -- for the watch ---------------------------------------------------------------------------------------------

    def strike(self, megabytes: int | None = None) -> None:
        """Leave no time, and interrupt the solvers at work. `megabytes` is the bound of memory, where that is why."""
        if megabytes is not None and not self.has_struck:
            self.words = f"stopped at {megabytes} MB of memory"
            self.help = "split the program, or declare smaller types"
        self._ends = min(self._ends, time.monotonic())
        for stop in tuple(self._stops):
            self.has_struck = True
            stop()

    @contextmanager
    def stopping(self, stop: Callable[[], None]) -> Iterator[None]:
        """Let `stop` be called from another thread when there is no time left, as long as the block runs."""
        self._stops.append(stop)
        try:
            yield
        finally:
            self._stops.remove(stop)


UNLIMITED: Final = Clock(math.inf)
"""The clock that never strikes: for what is proved already, and is written down."""
