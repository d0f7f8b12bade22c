"""The deadline of a check. It stops work that hangs, and decides nothing else.

Layers are limited in units and states, so that verdicts do not depend on time. Long work checks the deadline now and
then, and passes the remaining time to a solver. Work that does not check is stopped by the watch (watch.py), which also
ends the time early where memory runs out.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

LIMIT_SECONDS: Final = 60.0
"""The default time limit for the proofs of one program, in seconds."""


MAX_SECONDS: Final = 2_000_000
"""The most seconds that are passed on: neither Z3 nor the operating system accepts larger values."""


MORE_TIME: Final = "allow more with `--time-limit`, or split the program"
SMALLER: Final = "split the program, or declare smaller types"


class OutOfTime(Exception):  # noqa: N818 - no error: the verdict is unknown
    """A limit of the check is reached; the message says which, and `help` what a user can do about it."""

    help = MORE_TIME

    def __init__(self, words: str = "", help: str = MORE_TIME) -> None:
        super().__init__(words)
        self.help = help


class Clock:
    """A deadline that starts with the object; `has_struck` says whether it has stopped anything.

    `words` is the reason in reports, and `help` says what a user can do about it.
    """

    def __init__(self, seconds: float) -> None:
        self.words = f"stopped by the clock after {seconds:g} s"
        self.help = MORE_TIME
        self.has_struck = False
        self._ends = time.monotonic() + seconds
        self._stops: list[Callable[[], None]] = []

    def check(self) -> None:
        """Raise OutOfTime when no time is left."""
        if self.overtime() >= 0:
            self.has_struck = True
            raise OutOfTime(self.words, self.help)

    def overtime(self) -> float:
        """Return the seconds since the deadline; negative before it."""
        return time.monotonic() - self._ends

    def left(self) -> float:
        """Return the remaining seconds, more than zero; raises OutOfTime when there are none."""
        self.check()
        return min(max(-self.overtime(), 0.001), MAX_SECONDS)

    def milliseconds(self) -> int:
        """Return the remaining time in milliseconds, for Z3: when these are over, the deadline has passed too."""
        return math.ceil(self.left() * 1000) + 1

    # -- for the watch ---------------------------------------------------------------------------------------------

    def strike(self, megabytes: int | None = None) -> None:
        """End the time now, and interrupt running solvers. `megabytes` is the memory limit, if that is the reason.

        Memory leaves no patience: what goes on would need more of it, so the deadline counts as long over.
        """
        if megabytes is not None:
            if not self.has_struck:
                self.words = f"stopped at {megabytes} MB of memory"
                self.help = SMALLER
            self._ends = -math.inf
        self._ends = min(self._ends, time.monotonic())
        for stop in tuple(self._stops):
            self.has_struck = True
            stop()

    @contextmanager
    def stopping(self, stop: Callable[[], None]) -> Iterator[None]:
        """Have `stop` called from another thread when the time is over, while the block runs."""
        self._stops.append(stop)
        try:
            yield
        finally:
            self._stops.remove(stop)


UNLIMITED: Final = Clock(math.inf)
"""A clock without a deadline, for writing proofs that are already done."""
