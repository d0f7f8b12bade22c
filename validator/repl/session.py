"""A session: turns in Lisp that are one run. Each turn is proved from the state after the one before, and then run.

What a session knows follows from its turns, and these lie in the journal: so a session goes on in another process.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from stepward.validator.repl.answers import (
    MAX_MESSAGE,
    TurnAnswer,
    TurnError,
    error_of,
    lisp_text,
    shortened,
    visible,
)
from stepward.validator.repl.failures import failure_of, taken_elsewhere, waiting
from stepward.validator.repl.gate import Called, Refusal, passed
from stepward.validator.repl.memory import Recalled
from stepward.validator.repl.records import TurnOutput, printed_in
from stepward.validator.repl.restoring import Opening, require_same_rules, restored
from stepward.validator.repl.signature import signature_type
from stepward.validator.repl.values import in_words
from stepward.vm.journal.canonical import ErasedError
from stepward.vm.language.program import Program
from stepward.vm.lisp.compiling.document import Turn
from stepward.vm.lisp.faults import Fault
from stepward.vm.machine.equipment import require_facts
from stepward.vm.machine.events import RUNNING
from stepward.vm.machine.history import History, load, stored_plan
from stepward.vm.machine.redaction import redacted
from stepward.vm.machine.refusals import RunBusy, RunRefused, RunTaken
from stepward.vm.machine.runs import run_of
from stepward.vm.machine.turns import TurnRequest, turn_name, turn_policies
from stepward.vm.reading.document import Document

if TYPE_CHECKING:
    from stepward.vm.journal.store import Journal
    from stepward.vm.language.policy import Policy
    from stepward.vm.machine.authority import Envelope
    from stepward.vm.machine.execution import ExecutionVM
    from stepward.vm.machine.run import Run
    from stepward.vm.machine.tools import Tools

MAX_PRINTED: Final = 8_000
"""Characters that the `println` of one turn may leave."""

MAX_TURNS: Final = 1_000
"""Turns of one session."""

Gate = Callable[[Document, Sequence["Policy"], Sequence[Called]], Awaitable[tuple[Refusal | None, Program | None]]]
"""Judges the program of a turn."""


async def _judged(
    document: Document, policies: Sequence[Policy], earlier: Sequence[Called]
) -> tuple[Refusal | None, Program | None]:
    return await asyncio.to_thread(passed, document, policies, earlier)


Machines = Callable[[Any, Sequence[Any]], "ExecutionVM"]
"""Makes a machine of tools and policies; its journal is that of the session, and it checks no programs."""


class _Pending(NamedTuple):
    """A turn whose run has not ended: the id of the run, the number of the turn, its text and its program."""

    run: str
    number: int
    text: str
    turn: Turn


class _Settled(NamedTuple):
    """What came of such a turn, or that it still waits."""

    text: str
    answer: TurnAnswer
    is_waiting: bool


class Session:
    """The turns of one session.

    `tools` are those of the operator, `policies` the rules in force, the last of them with the facts of all tools.
    `data` are the values that turns read as `data/NAME`. `signature` is the type of what `(return x)` may give, as
    Lisp: `{:total :float}`. `max_steps` bounds the steps of all turns together. Runs are named after `name`: a session
    whose name is in the journal goes on after its last turn, with its data, its signature and what it has left of its
    budget; what is given of these has to be the same. `announce` is told of runs that wait for a person.

    Raises ValueError for a signature, and TypeError for a tool that can't take what the policies declare.
    """

    def __init__(  # noqa: PLR0913 - each is a part that users may replace
        self,
        tools: Tools,
        policies: Sequence[Policy],
        machines: Machines,
        journal: Journal,
        *,
        data: Mapping[str, Any] | None = None,
        signature: str | None = None,
        max_steps: int | None = None,
        name: str | None = None,
        by: str | None = None,
        envelope: Envelope | None = None,
        gate: Gate = _judged,
        announce: Callable[[Run], None] | None = None,
    ) -> None:
        self.name = f"session-{secrets.token_hex(8)}" if name is None else name
        require_facts(tools, policies)
        self._tools = tools
        self._policies = tuple(policies)
        self._machines = machines
        self._journal = journal
        if signature is not None:
            signature_type(signature)
        self._given = self._opening = Opening.of(data or {}, signature, max_steps)
        self._by, self._envelope, self._gate, self._announce = by, envelope, gate, announce
        self._pending: _Pending | None = None
        self._answered: _Settled | None = None
        self._turn = asyncio.Lock()
        self._is_read = name is None
        self._state = self._opening.state(self._policies)

    @property
    def is_over(self) -> bool:
        """Whether a turn has returned."""
        return self._state.is_over

    @property
    def pending(self) -> str:
        """The text of a turn that has not ended, empty if there is none."""
        return "" if self._pending is None else self._pending.text

    @property
    def next_number(self) -> int:
        """The number of the next turn."""
        return self._state.number + 1

    @property
    def values(self) -> Mapping[str, Any]:
        """The values that have a name, as the machine holds them: sensitive parts are sealed."""
        return self._state.values

    @property
    def names(self) -> dict[str, str]:
        """What has a name, with what it is in a few words."""
        state = self._state
        found = {name: in_words(value) for name, value in state.values.items()}
        return found | dict.fromkeys(state.functions, "a function")

    # -- what the journal has ------------------------------------------------------------------------------------------

    async def catch_up(self) -> None:
        """Read the turns that the journal has of this session, unless all of them were read. A last turn that has not
        ended, or that had to wait, becomes the pending one: nobody may have seen what came of it.

        Raises RunRefused, in words, for a session that can't go on here, and JournalError for records that no machine
        would have written.
        """
        async with self._turn:
            self._is_read = self._is_read and await self._next_taken() is None
            await self._caught_up()

    async def settle(self) -> TurnAnswer | None:
        """Return what came of the turn that had not ended, None without one; it is recovered if nobody drives it.

        If it is sent once more as the next turn, it is answered, and not run.
        """
        async with self._turn:
            settled = await self._settled()
            self._answered = None if settled is None or settled.is_waiting else settled
            return None if settled is None else settled.answer

    async def _caught_up(self) -> None:
        if self._is_read:
            return
        turns = await self._machines(self._tools, self._policies).turns(self.name)
        opening, pending = self._given, None
        state = opening.state(self._policies)
        if turns:
            opening = self._given.as_recorded(self.name, turns[0])
            require_same_rules(self.name, self._policies, turns[0])
            state = opening.state(self._policies)
            last = await restored(self.name, state, turns)
            if last is not None:
                pending = _Pending(turns[-1].run, len(turns), last[0].strip(), last[1])
        self._opening, self._state, self._pending, self._is_read = opening, state, pending, True

    # -- a turn --------------------------------------------------------------------------------------------------------

    async def turn(self, text: str) -> TurnAnswer:
        """Prove and run a turn, and return what it came to.

        It raises nothing for what the text is; raises JournalError if the journal can't be used.
        """
        async with self._turn:
            try:
                await self._caught_up()
            except RunRefused as error:
                return TurnAnswer(
                    self.next_number, error=TurnError("refused", str(error), hint="start another session")
                )
            settled = self._answered or await self._settled()
            self._answered = None
            if settled is not None and (settled.is_waiting or text.strip() == settled.text):
                return settled.answer
            number = self.next_number
            run_taken = await self._next_taken()
            if run_taken is not None:
                return self._stale(number, RunTaken(f"there is a run `{run_taken}` already"))
            why = self._closed()
            return TurnAnswer(number, error=why) if why is not None else await self._proved(number, text)

    async def _next_taken(self) -> str | None:
        """Return the run of the next turn if somebody else has taken it: then what is known here is too old."""
        run = turn_name(self.name, self.next_number)
        return None if await asyncio.to_thread(self._journal.head, run) is None else run

    def _stale(self, number: int, error: RunTaken) -> TurnAnswer:
        """Return that somebody else has taken a turn. What that has done is read before the next one."""
        self._is_read = False
        return TurnAnswer(number, error=taken_elsewhere(error, self.name))

    def _closed(self) -> TurnError | None:
        state = self._state
        if state.is_over:
            return TurnError("closed", "the session has returned", hint="start another session")
        if state.number >= MAX_TURNS:
            return TurnError("closed", f"the session has had {MAX_TURNS:,} turns", hint="start another session")
        if state.left is not None and state.left <= 0:
            why = f"the session has used its {self._opening.max_steps:,} steps"
            return TurnError("limit", why, hint="start another session")
        return None

    async def _settled(self) -> _Settled | None:
        """Return what came of a turn whose run had not ended; None if there is no such turn.

        A turn that nobody drives any more is recovered first.
        """
        pending = self._pending
        if pending is None:
            return None
        history = await self._history(pending.run)
        if history.state.status == RUNNING:
            try:
                await self._machines(self._tools, history.plan.policies).recover(pending.run)
            except (RunBusy, RunRefused) as error:
                refused = self._redacted(waiting(history, str(error)))
                return _Settled(pending.text, TurnAnswer(pending.number, pending.run, error=refused), is_waiting=True)
            history = await self._history(pending.run)
        if not history.state.is_over:
            answer = TurnAnswer(pending.number, pending.run, error=waiting(history))
            return _Settled(pending.text, answer, is_waiting=True)
        self._pending = None
        return _Settled(pending.text, await self._ended(pending, history), is_waiting=False)

    async def _proved(self, number: int, text: str) -> TurnAnswer:
        state = self._state
        try:
            found, inputs = await state.compiled(text)
        except Fault as fault:
            return TurnAnswer(number, error=error_of(fault.error()))
        except KeyError as error:
            name = str(error.args[0])
            return TurnAnswer(
                number, error=TurnError("unbound_var", f"there is no `{name}`", {"name": name}, self._hint())
            )
        except RecursionError:
            return TurnAnswer(
                number, error=TurnError("depth_exceeded", "forms are nested too deep", hint="write functions")
            )
        except ErasedError:
            return TurnAnswer(number, error=TurnError("unbound_var", "a value was erased", hint="get it again"))
        policies = state.policies if state.before is None else turn_policies(state.policies, state.before)
        refused, program = await self._gate(found.turn.document, policies, state.called)
        if refused is not None:
            return TurnAnswer(number, error=self._redacted(refused.error), told=self._text(refused.told))
        assert program is not None, "what is not refused has passed"
        return await self._run(number, text, found, program, policies, inputs)

    def _hint(self) -> str:
        data = sorted(name for name in self._state.values if name.startswith("data/"))
        return f"there are: {', '.join(data)}" if data else "no data were given to this session"

    # -- running -------------------------------------------------------------------------------------------------------

    async def _run(
        self,
        number: int,
        text: str,
        found: Recalled,
        program: Program,
        policies: Sequence[Policy],
        inputs: Mapping[str, Any],
    ) -> TurnAnswer:
        state = self._state
        machine = self._machines(self._tools, policies)
        pending = _Pending(turn_name(self.name, number), number, text.strip(), found.turn)
        request = self._opening.turn_request(text) if state.before is None else TurnRequest(text)
        try:
            run = await machine.take_turn(
                pending.run, program, inputs, request, state.before, by=self._by, envelope=self._envelope
            )
        except RunTaken as error:
            return self._stale(number, error)
        except RunRefused as error:
            hint = error.help or "correct the turn"
            return TurnAnswer(number, error=self._redacted(TurnError("refused", str(error), hint=hint)))
        except BaseException:
            if await asyncio.shield(asyncio.to_thread(self._load, pending.run)) is not None:
                # Nobody knows yet what it did: the next turn waits for its end.
                state.number, state.policies, self._pending = number, tuple(policies), pending
            raise
        state.number, state.policies = number, tuple(policies)
        if self._announce is not None and run.suspensions:
            await asyncio.to_thread(self._announce, run)
        history = await self._history(run.id)
        if run.is_over:
            return await self._ended(pending, history)
        self._pending = pending
        return TurnAnswer(number, run.id, error=waiting(history))

    async def _ended(self, pending: _Pending, history: History) -> TurnAnswer:
        """Take over what a turn has left, and return its answer."""
        run, output = run_of(history), history.state.output
        printed = await asyncio.to_thread(printed_in, history, MAX_PRINTED)
        await asyncio.to_thread(self._state.take_over, pending.number, pending.turn, history)
        if run.status != "SUCCESS":
            error = failure_of(run, history, pending.turn, printed.error)
            return self._answer(pending.number, history, printed, error=self._redacted(error))
        names = (*output["defined"], *pending.turn.functions)
        is_last = self._state.is_over
        return self._answer(pending.number, history, printed, value=output["value"], defined=names, is_last=is_last)

    def _answer(
        self, number: int, history: History, output: TurnOutput, *, value: Any = None, **more: Any
    ) -> TurnAnswer:
        shown = self._shown(visible(value))
        lines = tuple(map(self._text, output.lines))
        text = lisp_text(shown) if "error" not in more else ""
        return TurnAnswer(number, history.run, shown, text, lines, output.cut, **more)

    async def _history(self, run: str) -> History:
        found = await asyncio.to_thread(self._load, run)
        assert found is not None, "the run exists"
        return found

    def _load(self, run: str) -> History | None:
        return load(self._journal, run, partial(stored_plan, self._journal))

    # -- what is hidden ------------------------------------------------------------------------------------------------

    def _text(self, text: str) -> str:
        return redacted(text, self._state.hidden) if self._state.hidden else text

    def _shown(self, value: Any) -> Any:
        """Return a value without the texts and numbers that are hidden elsewhere."""
        if not self._state.hidden:
            return value
        if isinstance(value, Mapping):
            return {self._text(key): self._shown(item) for key, item in value.items()}
        if isinstance(value, tuple | list):
            return tuple(map(self._shown, value))
        if isinstance(value, str):
            return self._text(value)
        from stepward.vm.values import as_text

        is_hidden = value is not None and not isinstance(value, bool) and as_text(value) in self._state.hidden
        return "[sensitive]" if is_hidden else value

    def _redacted(self, error: TurnError) -> TurnError:
        message = shortened(self._text(error.message), MAX_MESSAGE)
        return replace(error, message=message, details=self._shown(error.details), hint=self._text(error.hint))
