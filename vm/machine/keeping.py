"""The lease of a run whose caller was interrupted while a tool of it was under way: who holds it, and how long.

Nobody else may take the run until the tool is done: he would take its effect for one that has not happened, or for one
in doubt, and a person who looked would be told the wrong thing. specs/journal.md says it under "Leases".
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

AT_IT: Final[ContextVar[list[threading.Event] | None]] = ContextVar("stepward_at_it", default=None)
"""What is under way of the present call: each event is set when a part of it has ended."""


class Left(NamedTuple):
    """A call that an interrupted caller left behind: `done` when all are set, given up at `until` by `monotonic`."""

    done: tuple[threading.Event, ...]
    until: float | None

    @property
    def is_over(self) -> bool:
        """Whether nothing of it is under way any more, or nobody waits for it."""
        is_late = self.until is not None and time.monotonic() >= self.until
        return is_late or all(event.is_set() for event in self.done)


def begin() -> Callable[[], None]:
    """Say that something of the present call is under way from now on; what is returned says that it has ended."""
    known = AT_IT.get()
    if known is None:
        return _nothing
    done = threading.Event()
    known.append(done)
    return done.set


def _nothing() -> None:
    """Do nothing: nobody keeps anything for what only reads."""


class Keeper:
    """Keeps a lease, in a thread of its own, while calls are under way, and gives it back then."""

    def __init__(self, journal: Journal, clock: Clock, lease: Lease, seconds: float, left: Iterable[Left]) -> None:
        self._journal = journal
        self._clock = clock
        self._lease = lease
        self._seconds = seconds
        self._left = tuple(left)
        self._ended = threading.Lock()
        self._thread = threading.Thread(target=self._keep, name="stepward-lease", daemon=True)

    def start(self) -> None:
        """Begin; the lease is given back too when the process ends in good order, and its threads with it."""
        atexit.register(self.let_go)
        self._thread.start()

    def let_go(self) -> None:
        """Give the lease back now, once: the process ends, and whatever is under way with it."""
        if self._ended.acquire(blocking=False):
            atexit.unregister(self.let_go)
            with contextlib.suppress(JournalError):  # it lapses then
                self._journal.release(self._lease)

    def _keep(self) -> None:
        pause = self._seconds / 3
        due = time.monotonic() + pause
        while (waits := next((left for left in self._left if not left.is_over), None)) is not None:
            ends = due if waits.until is None else min(due, waits.until)
            event = next((event for event in waits.done if not event.is_set()), None)
            if event is not None:
                event.wait(max(ends - time.monotonic(), 0))
            if time.monotonic() >= due:
                due = time.monotonic() + pause
                if not self._renew():
                    return
        self.let_go()

    def _renew(self) -> bool:
        """Make the lease last; return whether it is still ours."""
        try:
            self._lease = self._journal.renew(self._lease, self._clock.now() / 1e6, self._seconds)
        except LeaseLost:
            atexit.unregister(self.let_go)
            return False
        except JournalError:
            pass  # or the store comes back
        return True
