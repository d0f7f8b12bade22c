"""Holds the lease of a run whose caller was interrupted while a tool still works.

Nobody else may take the run until the tool has finished: until then it is not known whether the effect happens. See
"Leases" in specs/journal.md.
"""

from __future__ import annotations

import atexit
import contextlib
import threading
import time
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from typing import Final, NamedTuple

from stepward.vm.journal.store import Journal, JournalError, Lease, LeaseLost
from stepward.vm.machine.clock import Clock


class PartUnderWay:
    """A part of a call that is under way: a lock that is held until it ends, as a `threading.Event` takes longer."""

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def is_set(self) -> bool:
        """Return whether the part has ended."""
        return not self._lock.locked()

    def set(self) -> None:
        """Note that the part has ended; call it once."""
        self._lock.release()

    def wait(self, timeout: float) -> None:
        """Wait until the part has ended, for `timeout` seconds at most."""
        if self._lock.acquire(timeout=timeout):
            self._lock.release()


UNDER_WAY: Final[ContextVar[list[PartUnderWay] | None]] = ContextVar("stepward_at_it", default=None)
"""The parts of the present call that are under way."""


class Abandoned(NamedTuple):
    """A call of an interrupted caller: it is over when all of `done` have ended, or at the monotonic time `until`."""

    done: tuple[PartUnderWay, ...]
    until: float | None

    @property
    def is_over(self) -> bool:
        """Whether all parts of it have ended, or its time is over."""
        is_late = self.until is not None and time.monotonic() >= self.until
        return is_late or all(part.is_set() for part in self.done)


def begin() -> Callable[[], None]:
    """Note that a part of the present call begins; return the function to call when it has ended."""
    known = UNDER_WAY.get()
    if known is None:
        return _nothing
    part = PartUnderWay()
    known.append(part)
    return part.set


def _nothing() -> None:
    """Do nothing: calls that only read are not tracked."""


class LeaseKeeper:
    """Holds a lease, in a thread of its own, until abandoned calls are over, and then releases it."""

    def __init__(
        self, journal: Journal, clock: Clock, lease: Lease, seconds: float, calls: Iterable[Abandoned]
    ) -> None:
        self._journal = journal
        self._clock = clock
        self._lease = lease
        self._seconds = seconds
        self._calls = tuple(calls)
        self._ended = threading.Lock()
        self._thread = threading.Thread(target=self._hold, name="stepward-lease", daemon=True)

    def start(self) -> None:
        """Start the thread; the lease is also released when the process exits normally."""
        atexit.register(self.release)
        self._thread.start()

    def release(self) -> None:
        """Release the lease now, once, because the process ends and its calls with it."""
        if self._ended.acquire(blocking=False):
            atexit.unregister(self.release)
            with contextlib.suppress(JournalError):  # it lapses then
                self._journal.release(self._lease)

    def _hold(self) -> None:
        pause = self._seconds / 3
        due = time.monotonic() + pause
        while (waiting := next((call for call in self._calls if not call.is_over), None)) is not None:
            ends = due if waiting.until is None else min(due, waiting.until)
            part = next((part for part in waiting.done if not part.is_set()), None)
            if part is not None:
                part.wait(max(ends - time.monotonic(), 0))
            if time.monotonic() >= due:
                due = time.monotonic() + pause
                if not self._renew():
                    return
        self.release()

    def _renew(self) -> bool:
        """Renew the lease; return whether it is still ours."""
        try:
            self._lease = self._journal.renew(self._lease, self._clock.now() / 1e6, self._seconds)
        except LeaseLost:
            atexit.unregister(self.release)
            return False
        except JournalError:
            pass  # or the store comes back
        return True
