"""Several processes at one run, one of them moving at a time: whose turn it is, the attack decides."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from stepward.sabotage.playing.points import Killed, Points
from stepward.vm.errors import StepwardError

if TYPE_CHECKING:
    from stepward.sabotage.playing.case import Case

MAX_TURNS: Final = 200
"""Turns that are decided. After them the processes take turns, so that one that waits for another can't keep it up."""

QUIET_ROUNDS: Final = 6
"""Rounds of the event loop without news after which every process is taken to stand at a point."""


class _Waiting(NamedTuple):
    process: str
    point: str
    turn: asyncio.Future[None]


class Crossing(Points):
    """Points at which a process waits until it is its turn."""

    def __init__(self, process: str, waiting: list[_Waiting]) -> None:
        super().__init__()
        self._process = process
        self._waiting = waiting

    async def pass_by(self, name: str) -> None:
        """Wait for a turn; raises Killed once the process is dead."""
        if self.is_dead:
            raise Killed(name)
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(self._process, name, turn))
        await turn
        await super().pass_by(name)

    @property
    def standing(self) -> tuple[str, ...]:
        """The points at which the process stands."""
        return tuple(one.point for one in self._waiting if one.process == self._process)


Work = Callable[[Crossing], Coroutine[Any, Any, Any]]
"""What a process does, given the points that its machine is to pass."""

Choose = Callable[[list[str]], int]
"""Which of the tasks of a process moves, given the points at which they stand, the longest first."""


async def interleave(case: Case, works: Mapping[str, Work], *, choose: Choose | None = None) -> dict[str, Any]:
    """Run processes to their ends, by name, one step at a time; return what each returned, or the refusal it raised.

    The decision `turn n` names the process that moves; the first one moves on and on in the simplest case. Where
    several tasks of it stand at points, `choose` says which moves, else the one that has stood there for longest. What
    is no refusal of the machine's, a breach above all, is raised at once, and ends the other processes.
    """
    from hypothesis import strategies as st

    waiting: list[_Waiting] = []
    crossings = {name: Crossing(name, waiting) for name in works}
    tasks = {name: asyncio.ensure_future(work(crossings[name])) for name, work in works.items()}
    number = 0
    try:
        while case.error is None:
            await _quiet(waiting, tasks.values())
            _raise_breach(tasks.values())
            names = [name for name in works if any(one.process == name for one in waiting)]
            if not names:
                if all(task.done() for task in tasks.values()):
                    break
                continue
            if len(names) == 1:
                name = names[0]
            elif number < MAX_TURNS:
                name = case.pick(f"turn {number}", st.sampled_from(names))
            else:
                name = names[number % len(names)]
            number += 1
            standing = [one for one in waiting if one.process == name]
            here = standing[0 if choose is None else choose([one.point for one in standing])]
            waiting.remove(here)
            case.tell(f"process {name}: {here.point}")
            here.turn.set_result(None)
        return {name: _ended(task) for name, task in tasks.items() if task.done()}
    finally:
        await _end(crossings.values(), tasks.values())


async def _quiet(waiting: list[_Waiting], tasks: Collection[asyncio.Future[Any]]) -> None:
    """Let the event loop go round until nothing new happens."""
    quiet = 0
    before = (-1, -1)
    while quiet < QUIET_ROUNDS:
        await asyncio.sleep(0)
        now = (len(waiting), sum(task.done() for task in tasks))
        quiet = quiet + 1 if now == before else 0
        before = now


def _raise_breach(tasks: Collection[asyncio.Future[Any]]) -> None:
    for task in tasks:
        if task.done() and not isinstance(_ended_error(task), StepwardError | Killed | None):
            task.result()


def _ended_error(task: asyncio.Future[Any]) -> BaseException | None:
    return None if task.cancelled() else task.exception()


def _ended(task: asyncio.Future[Any]) -> Any:
    """Return what a process returned, or the refusal that it raised."""
    error = _ended_error(task)
    return task.result() if error is None else error


async def _end(crossings: Collection[Crossing], tasks: Collection[asyncio.Future[Any]]) -> None:
    """End the processes that are left: a dead one passes no point, not even to tidy up."""
    for crossing in crossings:
        crossing.is_dead = True
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
