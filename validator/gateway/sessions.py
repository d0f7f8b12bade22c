"""The sessions of callers: turns in Lisp, each judged by the gate and counted as a run.

A session lies in the journal. Here are those that are in use; another one is read when its caller names it.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from stepward.validator.gateway.refusals import RequestRefused
from stepward.validator.repl.answers import TurnAnswer
from stepward.validator.repl.gate import Called, Refusal, passed
from stepward.validator.repl.session import Session
from stepward.vm.machine.refusals import RunRefused
from stepward.vm.values import ValueRefused, freeze

if TYPE_CHECKING:
    from stepward.validator.gateway.callers import Caller
    from stepward.validator.gateway.metering import Meter
    from stepward.vm.language.policy import Policy
    from stepward.vm.language.program import Program
    from stepward.vm.reading.document import Document

MAX_SESSIONS: Final = 20
"""Sessions of one caller that are in memory; the one that was used least recently makes room for another."""

Started = Callable[[str, Mapping[str, Any], str | None, Any], Session]
"""Makes a session of a name, data and a signature, with a gate."""


@dataclass
class OpenSession:
    """A session of a caller, and the turn that is under way or was the last."""

    session: Session
    task: asyncio.Task[TurnAnswer] | None = None

    @property
    def is_busy(self) -> bool:
        """Whether a turn is under way."""
        return self.task is not None and not self.task.done()


@dataclass
class Sessions:
    """The sessions of all callers, by caller and name. `gate` lets one check at a time run."""

    gate: asyncio.Lock
    wait: float
    _held: dict[str, dict[str, OpenSession]] = field(default_factory=dict)

    async def judged(
        self, document: Document, policies: Sequence[Policy], earlier: Sequence[Called]
    ) -> tuple[Refusal | None, Program | None]:
        """Return the judgement of the gate on a turn, when it is its turn."""
        async with self.gate:
            return await asyncio.to_thread(passed, document, policies, earlier)

    async def find(
        self, caller: Caller, name: str, make: Started, is_kept: Callable[[str], Awaitable[bool]]
    ) -> OpenSession:
        """Return a session of a caller, from the journal if it is not here; `is_kept` says whether it is there.

        Raises RequestRefused for one of another caller in the same words as for none, and for one that can't go on.
        """
        sessions = self._held.setdefault(caller.name, {})
        if name not in sessions:
            if not await is_kept(name):
                raise RequestRefused("you have no such session", "leave `session` out: that starts one")
            session = make(name, {}, None, self.judged)
            await _catch_up(session)
            if name not in sessions:  # nobody else has read it meanwhile
                _make_room(sessions)
                sessions[name] = OpenSession(session)
        sessions[name] = sessions.pop(name)  # the one that was used last is the last
        return sessions[name]

    def under_way(self) -> set[asyncio.Task[TurnAnswer]]:
        """Return the turns that are under way."""
        tasks = [one.task for sessions in self._held.values() for one in sessions.values() if one.task is not None]
        return {task for task in tasks if not task.done()}

    def start(
        self, caller: Caller, data: Mapping[str, Any], signature: str | None, make: Started
    ) -> tuple[str, OpenSession]:
        """Start a session. Raises RequestRefused for data or a signature without use, or if all sessions are busy."""
        sessions = self._held.setdefault(caller.name, {})
        _make_room(sessions)
        name = secrets.token_hex(16)
        try:
            for value in data.values():
                freeze(value)
            session = make(name, data, signature, self.judged)
        except ValueRefused as error:
            raise RequestRefused(f"`data` has what is no value: {error}", "send values of JSON") from None
        except ValueError as error:
            raise RequestRefused(str(error), "write it as `{:total :float}`") from None
        sessions[name] = OpenSession(session)
        return name, sessions[name]

    async def turn(self, name: str, session: OpenSession, text: str | None, meter: Meter) -> dict[str, Any]:
        """Take a turn of a session, or ask for the answer to the last one; return it, or that the turn goes on.

        A turn goes on although its caller has cancelled the request.
        """
        if text is None and not session.is_busy:
            await _catch_up(session.session)  # another server may have taken a turn
            if waiting := session.session.pending:  # somebody may have settled it
                session.task = asyncio.create_task(session.session.turn(waiting))
                session.task.add_done_callback(_note_error)
        if text is not None:
            if session.is_busy:
                raise RequestRefused(
                    "a turn of this session is under way", "leave `program` out: that waits for its answer"
                )
            session.task = asyncio.create_task(_metered(session.session, text, meter))
            session.task.add_done_callback(_note_error)
        if session.task is None:
            raise RequestRefused("no turn of this session is under way", "send one as `program`")
        done, _ = await asyncio.wait([session.task], timeout=self.wait)
        if session.task.cancelled():
            raise RequestRefused("the server ends", f"when it is back, call `run_lisp` with the session `{name}` alone")
        if not done:
            return {"session": name, "status": "running", "next": "call `run_lisp` with the `session` alone"}
        return {"session": name, **session.task.result().as_value()}


async def _catch_up(session: Session) -> None:
    """Read what the journal has of a session; raises RequestRefused for one that can't go on."""
    try:
        await session.catch_up()
    except RunRefused as error:
        raise RequestRefused(str(error), "leave `session` out: that starts another one") from None


def _make_room(sessions: dict[str, OpenSession]) -> None:
    """Forget the session that was used least recently, if there are too many; raises RequestRefused if all are busy."""
    if len(sessions) < MAX_SESSIONS:
        return
    idle = next((name for name, one in sessions.items() if not one.is_busy), None)
    if idle is None:
        raise RequestRefused(f"{MAX_SESSIONS} of your sessions have a turn under way", "wait until one has ended")
    del sessions[idle]


async def _metered(session: Session, text: str, meter: Meter) -> TurnAnswer:
    meter.start()
    answer = await session.turn(text)
    if not answer.run:  # nothing was run
        meter.take_back()
    return answer


def _note_error(task: asyncio.Task[Any]) -> None:
    """Take note of the error of a task: whoever waits for it is told, and nobody else has to be."""
    if not task.cancelled():
        task.exception()
