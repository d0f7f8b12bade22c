"""Waiting without an event loop of one's own: a coroutine is run to its end, and Ctrl-C stops it in good order."""

from __future__ import annotations

import asyncio
import signal
import threading
import types
import weakref
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context
from typing import Any, Final, TypeVar

T = TypeVar("T")

MAX_TURNS: Final = 10
"""Turns of a loop that tasks get to end once they were cancelled."""


class _Interrupt:
    """What Ctrl-C does meanwhile: the first one cancels the task where it waits, so that no append is cut in two."""

    def __init__(self, task: asyncio.Task[Any]) -> None:
        self.task = task
        self.count = 0

    # `signal` makes an error text of what handles a signal each time that it is asked; that of a task is long.
    def __repr__(self) -> str:
        return "stepward"

    def __call__(self, *_: object) -> None:
        self.count += 1
        if self.count > 1 or self.task.done():
            raise KeyboardInterrupt
        self.task.cancel()
        self.task.get_loop().call_soon_threadsafe(lambda: None)  # it may be asleep


class KeptLoop:
    """An event loop that a thread keeps: closed once the thread has ended, or nobody has its machine any more."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        weakref.finalize(self, self.loop.close)


def wait(loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, T], context: Context) -> T:
    """Return what a coroutine returns, run on `loop`, which runs nothing else; raises KeyboardInterrupt for Ctrl-C.

    It does what `asyncio.Runner` does, for less: a run of few steps takes little longer than to set that up.
    """
    task = loop.create_task(coroutine, context=context)
    interrupt = _Interrupt(task)
    # Only where Ctrl-C does what it does by default: a handler of the caller's is not ours to replace.
    is_ours = (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )
    if is_ours:
        signal.signal(signal.SIGINT, interrupt)
    try:
        return loop.run_until_complete(task)
    except asyncio.CancelledError:
        _end_the_rest(loop)
        if interrupt.count and not task.uncancel():
            raise KeyboardInterrupt from None
        raise
    except KeyboardInterrupt:
        if task.done() and not task.cancelled():
            task.exception()  # else asyncio prints it once more when the task is collected
        raise
    finally:
        if is_ours:
            found = signal.signal(signal.SIGINT, signal.default_int_handler)
            if found is not interrupt:  # what ran has set one of its own
                signal.signal(signal.SIGINT, found)


def _end_the_rest(loop: asyncio.AbstractEventLoop) -> None:
    """Let tasks that were cancelled with the one that was waited for end, as far as they do so at once."""
    for _ in range(MAX_TURNS):
        if not asyncio.all_tasks(loop):
            return
        loop.run_until_complete(asyncio.sleep(0))


@types.coroutine
def heard(coroutine: Coroutine[Any, Any, T], waits: Callable[[], object]) -> Generator[Any, Any, T]:
    """Await a coroutine, and call `waits` when it waits for the first time: before, nothing else can run."""
    try:
        awaited = coroutine.send(None)
        waits()
        while True:
            try:
                answer = yield awaited
            except BaseException as error:
                awaited = coroutine.throw(error)
            else:
                awaited = coroutine.send(answer)
    except StopIteration as done:
        return done.value  # type: ignore[no-any-return]
