"""The watch of a check: a thread that enforces the limits of time and memory where the check does not look at the
clock.

Long loops look at the clock, and solvers count their work. The watch is for what these miss: it interrupts solvers when
the time is over or memory runs out, and shortly after that it raises OutOfTime in the thread of the check. That happens
only inside `guarded`, so that it ends one part of the check, and the next part can follow. It does not happen inside of
code that an exception at any line would leave broken for the rest of the process, such as an import.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self, TypeVar

from stepward.validator.engine.clock import Clock, OutOfTime

T = TypeVar("T")

MAX_MEGABYTES: Final = 700
"""The most megabytes by which the process may grow during the check of a program."""

TICK: Final = 0.05
"""Seconds between two checks of time and memory."""

PATIENCE: Final = 0.3
"""Seconds that a part may continue after the deadline, so that it can notice the deadline itself."""

DELICATE: Final = ("importlib._bootstrap", "importlib._bootstrap_external", "weakref", "z3.z3", "z3.z3core")
"""Modules that no exception is raised in. A module that is imported in part lacks names ever after. A term of Z3 that
is made in part is freed twice, and the process crashes. What a finalizer raises is lost, also in the `__del__` of any
module."""

OVERDUE: Final = 1.0
"""Seconds after the deadline from which no part gets that patience, and no part starts."""


class Watch:
    """Watches the thread that enters it, until that thread exits it."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.is_armed = False
        self._thread = threading.Thread(target=self._run, name="stepward-watch", daemon=True)
        self._done = threading.Event()
        self._lock = threading.Lock()
        self._watched = 0
        self._since = 0.0
        self._grown = _memory()

    def __enter__(self) -> Self:
        self._watched = threading.get_ident()
        self._thread.start()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._done.set()
        self._thread.join()

    @property
    def is_overdue(self) -> bool:
        """Whether it is too late to start another part. Asking marks the check as stopped."""
        is_overdue = self.clock.overtime() > OVERDUE
        self.clock.has_struck |= is_overdue
        return is_overdue

    def guarded(self, work: Callable[[], T]) -> T:
        """Return the result of `work`; raises OutOfTime inside of it at the limits."""
        before = self.is_armed
        if not before:
            self._since = time.monotonic()
        self.is_armed = True
        try:
            return work()
        finally:
            self.is_armed = before
            if not before:
                self._raise_nothing()

    def spared(self, work: Callable[[], T]) -> T:
        """Return the result of `work` without raising inside of it; it must have its own limits.

        An event loop is such work: it would take the exception for an error of a callback, and wait for ever.
        """
        before, self.is_armed = self.is_armed, False
        self._raise_nothing()
        try:
            return work()
        finally:
            self._since = time.monotonic()
            self.is_armed = before

    # -- in the thread of the watch --------------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._done.wait(TICK):
            if _memory() - self._grown > MAX_MEGABYTES << 20:
                self.clock.strike(MAX_MEGABYTES)
            if self.clock.overtime() >= 0:
                self.clock.strike()
                self._raise()

    def _raise(self) -> None:
        """Raise OutOfTime in the watched thread, if it is inside `guarded` and its patience is over."""
        with self._lock:
            now, overtime = time.monotonic(), self.clock.overtime()
            patience = PATIENCE if overtime < OVERDUE else 0
            is_due = self.is_armed and overtime >= patience and now - self._since >= patience
            if is_due and not self._is_delicate():
                self._since, self.clock.has_struck = now, True
                _raise_in(self._watched, _said(self.clock))

    def _is_delicate(self) -> bool:
        """Return whether the watched thread is inside of delicate code, within what `guarded` has called.

        Nothing here gives up the interpreter's lock, so that the thread is still there when the exception is raised.
        """
        frame = sys._current_frames().get(self._watched)
        while frame is not None and frame.f_code is not _GUARDED:
            if frame.f_globals.get("__name__") in DELICATE or frame.f_code.co_name == "__del__":
                return True
            frame = frame.f_back
        return False

    def _raise_nothing(self) -> None:
        """Withdraw an exception that was raised and has not arrived yet."""
        if self.clock.has_struck:
            with self._lock:
                _raise_in(self._watched, None)


_GUARDED: Final = Watch.guarded.__code__


def _said(clock: Clock) -> type[OutOfTime]:
    """Return an exception class with the words of a clock: no instance can be passed to another thread."""
    words, help = clock.words, clock.help

    class Stopped(OutOfTime):
        def __init__(self) -> None:
            super().__init__(words, help)

    return Stopped


def _raise_in(thread: int, kind: type[BaseException] | None) -> None:
    import ctypes

    raised = ctypes.py_object(kind) if kind is not None else None
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), raised)


def _memory() -> int:
    """Return the bytes of memory of the process; 0 where the system does not report them."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0
