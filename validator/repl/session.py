"""A session: turns in Lisp that are one run. Each turn is proved from the state after the one before, and then run."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from stepward.validator.repl.answers import (
    MAX_MESSAGE,
    Answer,
    TurnError,
    error_of,
    lisp_text,
    shortened,
    visible,
)
from stepward.validator.repl.failures import failure_of, waiting
from stepward.validator.repl.gate import Called, Refusal, passed
from stepward.validator.repl.memory import Made, Recalled, made_in, recalled
from stepward.validator.repl.records import Told, told_in
from stepward.validator.repl.signature import signature_type
from stepward.validator.repl.values import hidden_texts, in_words, type_of
from stepward.vm.journal.canonical import ErasedError, opened
from stepward.vm.language.program import Program
from stepward.vm.lisp.compiling.document import Turn
from stepward.vm.lisp.compiling.ground import Ground
from stepward.vm.lisp.faults import Fault
from stepward.vm.machine.equipment import require_facts
from stepward.vm.machine.history import History, load, stored_plan
from stepward.vm.machine.redaction import redacted
from stepward.vm.machine.refusals import RunRefused
from stepward.vm.machine.runs import run_of
from stepward.vm.machine.turns import turn_name, turn_policies
from stepward.vm.reading.document import Document
from stepward.vm.values import freeze

if TYPE_CHECKING:
    from stepward.vm.journal.store import Journal
    from stepward.vm.language.policy import Policy
    from stepward.vm.machine.authority import Envelope
    from stepward.vm.machine.execution import ExecutionVM
    from stepward.vm.machine.run import Run
    from stepward.vm.machine.tools import Tools

NAME: Final = "turn"
"""The name of the programs of turns."""

MAX_PRINTED: Final = 8_000
"""Characters that the `println` of one turn may leave."""

MAX_TURNS: Final = 1_000
"""Turns of one session."""

LAST: Final = 3
"""How many of the last values have a name: `*1`, `*2`, `*3`."""

MIN_HIDDEN: Final = 4
"""Characters of the shortest hidden text that is looked for in what is shown: a shorter one is in many words."""

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
    answer: Answer
    is_waiting: bool


@dataclass
class _State:
    """What the turns so far have left."""

    policies: tuple[Policy, ...]
    values: dict[str, Any] = field(default_factory=dict)
    functions: dict[str, str] = field(default_factory=dict)
    last: tuple[Any, ...] = ()
    made: list[Made] = field(default_factory=list)
    called: list[Called] = field(default_factory=list)
    hidden: set[str] = field(default_factory=set)
    number: int = 0
    steps: int = 0
    before: History | None = None
    pending: _Pending | None = None
    is_over: bool = False


class Session:
    """The turns of one session.

    `tools` are those of the operator, `policies` the rules in force, the last of them with the facts of all tools.
    `data` are the values that turns read as `data/NAME`. `signature` is the type of what `(return x)` may give, as
    Lisp: `{:total :float}`. `max_steps` bounds the steps of all turns together. Runs are named after `name`: a session
    that is started again under its name, in the same journal, goes through its turns again without calling a tool.
    `announce` is told of runs that wait for a person.

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
        self._returns = None if signature is None else signature_type(signature)
        self._max_steps = max_steps
        self._by, self._envelope, self._gate, self._announce = by, envelope, gate, announce
        self._state = _State(self._policies)
        self._turn = asyncio.Lock()
        for given, value in (data or {}).items():
            self._state.values[f"data/{given}"] = freeze(value)
        self._note_hidden(self._state.values)

    @property
    def is_over(self) -> bool:
        """Whether a turn has returned."""
        return self._state.is_over

    @property
    def pending(self) -> str:
        """The text of a turn that has not ended, empty if there is none."""
        return "" if self._state.pending is None else self._state.pending.text

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

    # -- a turn --------------------------------------------------------------------------------------------------------

    async def turn(self, text: str, signature: str | None = None) -> Answer:
        """Prove and run a turn, and return what it came to. A `signature` counts for this turn alone.

        It raises nothing for what the text is; raises JournalError if the journal can't be used.
        """
        async with self._turn:
            settled = await self._settled()
            if settled is not None and (settled.is_waiting or text.strip() == settled.text):
                return settled.answer
            number = self.next_number
            why = self._closed()
            if why is not None:
                return Answer(number, error=why)
            try:
                returns = self._returns if signature is None else signature_type(signature)
            except ValueError as error:
                return Answer(number, error=TurnError("signature", str(error), hint="write it as `{:total :float}`"))
            return await self._proved(number, text, returns)

    def _closed(self) -> TurnError | None:
        state = self._state
        if state.is_over:
            return TurnError("closed", "the session has returned", hint="start another session")
        if state.number >= MAX_TURNS:
            return TurnError("closed", f"the session has had {MAX_TURNS:,} turns", hint="start another session")
        if self._max_steps is not None and state.steps >= self._max_steps:
            why = f"the session has used its {self._max_steps:,} steps"
            return TurnError("limit", why, hint="start another session")
        return None

    async def _settled(self) -> _Settled | None:
        """Return what came of a turn whose run had not ended; None if there is no such turn."""
        pending = self._state.pending
        if pending is None:
            return None
        history = await asyncio.to_thread(self._history, pending.run)
        assert history is not None, "the run exists"
        if not history.state.is_over:
            answer = Answer(pending.number, pending.run, error=waiting(history))
            return _Settled(pending.text, answer, is_waiting=True)
        self._state.pending = None
        return _Settled(pending.text, await self._ended(pending, history), is_waiting=False)

    async def _proved(self, number: int, text: str, returns: Mapping[str, Any] | None) -> Answer:
        state = self._state
        left = None if self._max_steps is None else self._max_steps - state.steps
        lasts = {f"*{place}": value for place, value in enumerate(state.last, 1)}
        known = {**state.values, **lasts}
        ground = Ground({name: type_of(value) for name, value in known.items()}, state.functions, returns, left)

        def inputs(turn: Turn, results: Mapping[int, Any]) -> Mapping[str, Any]:
            raw = {one: known[of] if isinstance(of, str) else results[of] for one, of in turn.sources.items()}
            return {one: opened(value) for one, value in raw.items()}

        try:
            found = await recalled(f"{NAME}.clj", text, ground, state.made, inputs, self._policies[-1])
            given = inputs(found.turn, found.results)
        except Fault as fault:
            return Answer(number, error=error_of(fault.error()))
        except KeyError as error:
            name = str(error.args[0])
            return Answer(number, error=TurnError("unbound_var", f"there is no `{name}`", {"name": name}, self._hint()))
        except RecursionError:
            return Answer(
                number, error=TurnError("depth_exceeded", "forms are nested too deep", hint="write functions")
            )
        except ErasedError:
            return Answer(number, error=TurnError("unbound_var", "a value was erased", hint="get it again"))
        policies = state.policies if state.before is None else turn_policies(state.policies, state.before)
        refused, program = await self._gate(found.turn.document, policies, state.called)
        if refused is not None:
            return Answer(number, error=self._redacted(refused.error), told=self._text(refused.told))
        assert program is not None, "what is not refused has passed"
        return await self._run(number, text, found, program, policies, given)

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
        given: Mapping[str, Any],
    ) -> Answer:
        state = self._state
        machine = self._machines(self._tools, policies)
        pending = _Pending(turn_name(self.name, number), number, text.strip(), found.turn)
        try:
            run = await machine.run(program, given, run_id=pending.run, by=self._by, envelope=self._envelope)
        except RunRefused as error:
            hint = "name the session otherwise" if str(error).startswith("run `") else "correct the turn"
            return Answer(number, error=self._redacted(TurnError("refused", str(error), hint=hint)))
        except BaseException:
            if await asyncio.shield(asyncio.to_thread(self._history, pending.run)) is not None:
                # Nobody knows yet what it did: the next turn waits for its end.
                state.number, state.policies, state.pending = number, tuple(policies), pending
            raise
        state.number, state.policies = number, tuple(policies)
        if self._announce is not None and run.suspensions:
            await asyncio.to_thread(self._announce, run)
        history = await asyncio.to_thread(self._history, run.id)
        assert history is not None, "the run exists"
        if run.is_over:
            return await self._ended(pending, history)
        state.pending = pending
        return Answer(number, run.id, error=waiting(history))

    async def _ended(self, pending: _Pending, history: History) -> Answer:
        """Take over what a turn has left, and return its answer."""
        state, run = self._state, run_of(history)
        self._note_hidden(*(event.body.get("output") for event in history.events))
        told = await asyncio.to_thread(told_in, history, MAX_PRINTED)
        made = await asyncio.to_thread(made_in, history, pending.turn)
        state.called += [Called(pending.number, one.tool, one.site[0]) for one in made]
        state.before, state.steps = history, state.steps + run.steps
        if run.status == "SUCCESS":
            return self._kept(pending.number, pending.turn, history, told)
        state.made = [*state.made, *made]
        error = failure_of(run, history, pending.turn, told.error)
        return self._answer(pending.number, history, told, error=self._redacted(error))

    def _kept(self, number: int, turn: Turn, history: History, told: Told) -> Answer:
        """Keep what a turn has defined, and return its answer."""
        state, output = self._state, history.state.output
        value, defined = output["value"], output["defined"]
        for name in turn.functions:
            state.values.pop(name, None)
        for name in defined:
            state.functions.pop(name, None)
        state.values |= defined
        state.functions |= turn.functions
        state.last = (value, *state.last)[:LAST]
        state.made = []
        state.is_over = bool(output["returned"])
        names = (*defined, *turn.functions)
        return self._answer(number, history, told, value=value, defined=names, is_last=state.is_over)

    def _answer(self, number: int, history: History, told: Told, *, value: Any = None, **more: Any) -> Answer:
        shown = self._shown(visible(value))
        lines = tuple(map(self._text, told.lines))
        text = lisp_text(shown) if "error" not in more else ""
        return Answer(number, history.run, shown, text, lines, told.cut, **more)

    def _history(self, run: str) -> History | None:
        return load(self._journal, run, partial(stored_plan, self._journal))

    # -- what is hidden ------------------------------------------------------------------------------------------------

    def _note_hidden(self, *values: Any) -> None:
        self._state.hidden |= {text for value in values for text in hidden_texts(value) if len(text) >= MIN_HIDDEN}

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
