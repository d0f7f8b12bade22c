"""Interleaving of several processes on one run. One process moves at a time; the attack decides which."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from stepward.sabotage.playing.choices import ScriptMisfit
from stepward.sabotage.playing.points import Killed, Points
from stepward.vm.errors import StepwardError

if TYPE_CHECKING:
    from stepward.sabotage.playing.case import Case

MAX_TURNS: Final = 200
"""The number of turns that the attack decides. Then processes take turns, so that a waiting one can't block others."""

QUIET_ROUNDS: Final = 6
"""Rounds of the event loop without change after which every process counts as stopped at a point."""


class _Waiting(NamedTuple):
    process: str
    point: str
    turn: asyncio.Future[None]


class Crossing(Points):
    """Points at which a process waits for its turn."""

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
        """The points at which the process waits."""
        return tuple(one.point for one in self._waiting if one.process == self._process)


Work = Callable[[Crossing], Coroutine[Any, Any, Any]]
"""The work of a process, as a function of the points of its machine."""

Choose = Callable[[list[str]], int]
"""Selects the task of a process that moves, from the points at which the tasks wait, the oldest first."""


async def interleave(case: Case, works: Mapping[str, Work], *, choose: Choose | None = None) -> dict[str, Any]:
    """Run processes one step at a time until all end. Return the result of each, or its refusal, by name.

    The decision `turn n` names the process that moves; in the simplest case the first one always moves. If several of
    its tasks wait at points, `choose` selects one, by default the oldest. An error that is not a refusal of the
    machine, such as a breach, is raised at once and ends the other processes. Raises ScriptMisfit if the script names a
    process that has no turn.
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
                if name not in names:
                    raise ScriptMisfit(f"the script gives turn {number} to process {name}, which has no turn there")
            else:
                name = names[number % len(names)]
            number += 1
            standing = [one for one in waiting if one.process == name]
            here = standing[0 if choose is None else choose([one.point for one in standing])]
            waiting.remove(here)
            case.log(f"process {name}: {here.point}")
            here.turn.set_result(None)
        return {name: _ended(task) for name, task in tasks.items() if task.done()}
    finally:
        await _end(crossings.values(), tasks.values())


async def _quiet(waiting: list[_Waiting], tasks: Collection[asyncio.Future[Any]]) -> None:
    """Let the event loop run until nothing changes."""
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
    """Return the result of a process, or the refusal that it raised."""
    error = _ended_error(task)
    return task.result() if error is None else error


async def _end(crossings: Collection[Crossing], tasks: Collection[asyncio.Future[Any]]) -> None:
    """End the remaining processes. A dead process passes no point, not even in its clean-up."""
    for crossing in crossings:
        crossing.is_dead = True
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
