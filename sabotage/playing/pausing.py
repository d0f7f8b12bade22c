"""A process that pauses at one point while others go on, and then continues as if no time had passed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from stepward.sabotage.playing.points import Killed, Points
from stepward.vm.errors import StepwardError

if TYPE_CHECKING:
    from stepward.sabotage.playing.case import Case
    from stepward.sabotage.playing.machines import Machine

Work = Callable[[Points], Coroutine[Any, Any, Any]]
"""The work of a process, as a function of the points of its machine."""


class _Stop(Points):
    """Points of which one pauses the process, with all its concurrent tasks.

    It is the one of the number, or, with `later`, the first later one of that name.
    """

    def __init__(self, number: int, then: Callable[[], None], later: str) -> None:
        super().__init__()
        self.number = number
        self._then = then
        self._later = later
        self.here = asyncio.Event()
        self.way = asyncio.Event()

    async def pass_by(self, name: str) -> None:
        """Wait while the process is paused. Raises Killed once it is dead."""
        is_first, is_behind = len(self.passed) == self.number, len(self.passed) > self.number
        is_here = is_behind and name == self._later if self._later else is_first
        if not self.here.is_set() and (is_first or is_here):
            self._then()
            if is_here:
                self.number = len(self.passed)
                self.here.set()
        self.passed.append(name)
        if self.here.is_set():
            try:
                await self.way.wait()
            except asyncio.CancelledError:
                if not self.way.is_set():
                    self.end()
                raise
        if self.is_dead:
            raise Killed(name)

    def end(self) -> None:
        """Kill every task that waits here, also those that only clean up."""
        self.is_dead = True
        self.way.set()


class SwitchedPoints(Points):
    """The points of a machine that has two tasks: those of the first one, or of another one while that is at work."""

    def __init__(self, first: Points) -> None:
        super().__init__()
        self._now = first

    async def pass_by(self, name: str) -> None:
        """Pass a point of the task at work."""
        await self._now.pass_by(name)

    @contextmanager
    def of_another_task(self) -> Iterator[None]:
        """Let another task pass points that do not stop it, while the first one is paused."""
        first, self._now = self._now, Points()
        try:
            yield
        finally:
            self._now = first


class Paused:
    """A started process that pauses at the point of a given number, counted from 0, if it gets there.

    With `later` it passes that point, and pauses at the first later one of that name. `then` is called when the process
    pauses, and when it passes the point. The process dies at the end of its `with` block unless it continued before.
    `point` is where it paused, None if it ended first; `machine` and `points` are its own, where `paused` has made it.
    After the end, `result` is its return value, or the error of the machine that it raised.
    """

    def __init__(
        self, case: Case, number: int, work: Work, then: Callable[[], None] = lambda: None, later: str = ""
    ) -> None:
        self.point: str | None = None
        self.machine: Machine
        self.points: SwitchedPoints
        self.result: Any = None
        self._case = case
        self._stop = _Stop(number, then, later)
        self._work = work
        self._task: asyncio.Future[Any] | None = None
        case.do(self._begin())

    async def _begin(self) -> None:
        self._task = asyncio.ensure_future(self._work(self._stop))
        here = asyncio.ensure_future(self._stop.here.wait())
        await asyncio.wait({self._task, here}, return_when=asyncio.FIRST_COMPLETED)
        here.cancel()
        if self._stop.here.is_set():
            self.point = self._stop.passed[self._stop.number]
            self._case.log(f"the process stands still {self.point}")
        else:
            await self._end()

    def go_on(self) -> Any:
        """Continue the process to its end and return its result."""
        if self.point is not None:
            self._case.log("the process goes on")
            self._stop.way.set()
            self._case.do(self._end())
        return self.result

    def cancel(self) -> None:
        """Cancel the paused task of the process. The process lives and runs its clean-up."""
        if self.point is not None:
            self._case.do(self._cancelled())

    async def _cancelled(self) -> None:
        assert self._task is not None, "a process has begun before it ends"
        self._task.cancel()
        self._stop.way.set()
        await asyncio.wait({self._task})

    def __enter__(self) -> Paused:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._task is not None, "a process has begun before it ends"
        if not self._task.done():
            self._stop.end()
            self._case.do(asyncio.wait({self._task}))
            self._task.exception()

    async def _end(self) -> None:
        assert self._task is not None, "a process has begun before it ends"
        try:
            self.result = await self._task
        except (StepwardError, Killed) as error:
            self.result = error
