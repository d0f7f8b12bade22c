"""Several processes at one run, one of them moving at a time: whose turn it is, the attack decides."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from stepward.sabotage.points import Killed, Points

if TYPE_CHECKING:
    from stepward.sabotage.stage import Stage

MAX_TURNS: Final = 2_000
"""Turns after which a case is given up: no example of ours needs as many."""

QUIET_ROUNDS: Final = 8
"""Rounds of the event loop without news after which every process is taken to stand at a point."""

Work = Callable[[Points], Coroutine[Any, Any, Any]]
"""What a process does, given the points that its machine is to pass."""


class _Waiting(NamedTuple):
    process: str
    point: str
    turn: asyncio.Future[None]


class _Crossing(Points):
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


async def interleave(stage: Stage, works: Mapping[str, Work]) -> dict[str, Any]:
    """Run processes to their ends, by name, one step at a time; return what each returned, or the error it raised.

    The decision `turn n` names the process that moves; the first one moves on and on in the simplest case.
    """
    from hypothesis import strategies as st

    waiting: list[_Waiting] = []
    tasks = {name: asyncio.ensure_future(work(_Crossing(name, waiting))) for name, work in works.items()}
    try:
        for number in range(MAX_TURNS):
            await _quiet(waiting, tasks.values())
            names = [name for name in works if any(one.process == name for one in waiting)]
            if not names:
                break
            name = names[0] if len(names) == 1 else stage.pick(f"turn {number}", st.sampled_from(names))
            here = next(one for one in waiting if one.process == name)
            waiting.remove(here)
            stage.tell(f"process {name}: {here.point}")
            here.turn.set_result(None)
        return {name: await _ended(task) for name, task in tasks.items()}
    finally:
        for task in tasks.values():
            task.cancel()


async def _quiet(waiting: list[_Waiting], tasks: Any) -> None:
    """Let the event loop go round until nothing new happens."""
    quiet = 0
    before = (-1, -1)
    while quiet < QUIET_ROUNDS:
        await asyncio.sleep(0)
        now = (len(waiting), sum(task.done() for task in tasks))
        quiet = quiet + 1 if now == before else 0
        before = now


async def _ended(task: asyncio.Future[Any]) -> Any:
    try:
        return await task
    except (Exception, Killed) as error:
        return error
