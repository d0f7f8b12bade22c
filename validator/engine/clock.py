"""The clock of a check: it ends what hangs, and decides nothing else.

What the layers may take is counted in units and states, so that verdicts hang on no clock; these limits decide as long
as the clock has not run out. Whoever may take long looks at it now and then, and hands a solver what is left.
"""

from __future__ import annotations

import math
import time
from typing import Final

LIMIT_SECONDS: Final = 60.0
"""Seconds that the proofs of one program may take, unless it is set."""


MAX_SECONDS: Final = 2_000_000
"""Seconds that are handed on at most: neither Z3 nor the operating system takes all that there are."""


class OutOfTime(Exception):  # noqa: N818 - no error: the verdict is unknown
    """The clock has run out; the message says so."""


class Clock:
    """Runs from when it is made; `has_struck` says whether it has stopped anything."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.has_struck = False
        self._ends = time.monotonic() + seconds

    def look(self) -> None:
        """Raise OutOfTime when no time is left."""
        if time.monotonic() >= self._ends:
            self.has_struck = True
            raise OutOfTime(f"stopped by the clock after {self.seconds:g} s")

    def left(self) -> float:
        """Return the seconds that are left, more than none; raises OutOfTime when there are none."""
        self.look()
        return min(max(self._ends - time.monotonic(), 0.001), MAX_SECONDS)

    def milliseconds(self) -> int:
        """Return what is left as Z3 takes it: once that is over, so is the clock."""
        return math.ceil(self.left() * 1000) + 1


UNLIMITED: Final = Clock(math.inf)
"""The clock that never strikes: for what is proved already, and is written down."""
