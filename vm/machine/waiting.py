"""Runs coroutines for callers without an event loop, and lets Ctrl-C cancel them cleanly."""

from __future__ import annotations

import asyncio
import signal
import threading
import types
import weakref
from collections.abc import Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager, nullcontext
from contextvars import Context
from typing import Any, Final, TypeVar

T = TypeVar("T")

# The functions beneath those of `signal`, which look for a name of each handler: that takes as long as a step.
_signal: Final[Any] = signal._signal  # type: ignore[attr-defined]
_CTRL_C: Final = int(signal.SIGINT)

MAX_TURNS: Final = 10
"""Turns of a loop in which cancelled tasks may end."""


class _Interrupt:
    """The handler of Ctrl-C: the first one cancels the task at its next wait, so that no append is interrupted."""

    def __init__(self, task: asyncio.Task[Any]) -> None:
        self.task = task
        self.count = 0

    def __call__(self, *_: object) -> None:
        self.count += 1
        if self.count > 1 or self.task.done():
            raise KeyboardInterrupt
        self.task.cancel()
        self.task.get_loop().call_soon_threadsafe(lambda: None)  # it may be asleep


class ThreadLoop:
    """The event loop of a thread: closed when the thread has ended, or its machine is collected."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        weakref.finalize(self, self.loop.close)


def wait(loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, T], context: Context) -> T:
    """Run a coroutine on `loop`, which runs nothing else, and return its result; raises KeyboardInterrupt for Ctrl-C.

    This is `asyncio.Runner` with less set-up, which would take about as long as a run of few steps.
    """
    task = asyncio.Task(coroutine, loop=loop, name="stepward", context=context)
    interrupt = _Interrupt(task)
    # Only if Ctrl-C has its default handler: one of the caller must not be replaced.
    is_ours = (
        threading.current_thread() is threading.main_thread()
        and _signal.getsignal(_CTRL_C) is signal.default_int_handler
    )
    if is_ours:
        _signal.signal(_CTRL_C, interrupt)
    try:
        loop.stop()  # so that it makes one turn, after which most runs are over
        loop.run_forever()
        if task.done():
            return task.result()
        with _woken_by_signals(loop) if is_ours else nullcontext():
            return loop.run_until_complete(task)
    except asyncio.CancelledError:
        _finish_cancelled_tasks(loop)
        if interrupt.count and not task.uncancel():
            raise KeyboardInterrupt from None
        raise
    except KeyboardInterrupt:
        if task.done() and not task.cancelled():
            task.exception()  # else asyncio logs it when the task is collected
        raise
    finally:
        if is_ours:
            found = _signal.signal(_CTRL_C, signal.default_int_handler)
            if found is not interrupt:  # the coroutine has set a handler of its own
                _signal.signal(_CTRL_C, found)


@contextmanager
def _woken_by_signals(loop: asyncio.AbstractEventLoop) -> Iterator[None]:
    """Let a signal wake a loop that goes to sleep.

    Python runs a handler between two instructions. Of a signal that comes after the last of them, and before the system
    puts the thread to sleep, it would know only when something else wakes the loop.
    """
    wakes = getattr(loop, "_csock", None)  # that by which threads wake it; other loops than asyncio's have none
    if wakes is None:
        yield
        return
    before = signal.set_wakeup_fd(wakes.fileno(), warn_on_full_buffer=False)
    if before != -1:  # a loop of the caller takes its signals from there
        signal.set_wakeup_fd(before)
    try:
        yield
    finally:
        signal.set_wakeup_fd(before)


def _finish_cancelled_tasks(loop: asyncio.AbstractEventLoop) -> None:
    """Let other cancelled tasks end, as far as they do so within MAX_TURNS."""
    for _ in range(MAX_TURNS):
        if not asyncio.all_tasks(loop):
            return
        loop.run_until_complete(asyncio.sleep(0))


@types.coroutine
def notify_first_wait(coroutine: Coroutine[Any, Any, T], on_wait: Callable[[], object]) -> Generator[Any, Any, T]:
    """Await a coroutine, and call `on_wait` at its first wait, before anything else can run."""
    try:
        awaited = coroutine.send(None)
        on_wait()
        while True:
            try:
                answer = yield awaited
            except BaseException as error:
                awaited = coroutine.throw(error)
            else:
                awaited = coroutine.send(answer)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]
