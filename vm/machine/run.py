"""The public view of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import cached_property
from typing import Any, NamedTuple

from stepward.vm.journal.canonical import opened
from stepward.vm.journal.store import Entry
from stepward.vm.language.steps import Stage
from stepward.vm.machine.continuing import Continues, continues_of
from stepward.vm.machine.due import due_of
from stepward.vm.machine.events import MOVED, Spent
from stepward.vm.machine.history import History
from stepward.vm.machine.keys import FrameName, shown
from stepward.vm.machine.plan import Plan
from stepward.vm.machine.state import State, snapshot
from stepward.vm.machine.views import View, traced, view
from stepward.vm.trace import AnyRecord, Attempt, record_of
from stepward.vm.values import arithmetic


class Suspension(NamedTuple):
    """A suspended step: `token` resumes it, once; `request` is the question of its tool. `frame` is where it is."""

    step: str
    token: str
    request: Any
    frame: FrameName = ()


class Doubt(NamedTuple):
    """A write in doubt: nobody knows whether it happened. Find out, and call `reconcile`.

    `key` is the idempotency key of the call, `frame` is where it is.
    """

    step: str
    tool: str
    key: str
    why: str
    frame: FrameName = ()

    @property
    def place(self) -> str:
        """The step with its frame, as `reconcile` takes it: `each[3]/pay`."""
        return shown(self.frame, self.step)


class Run:
    """A run, as read from its journal; immutable. `history` reads its records again, for `trace`.

    `status` is RUNNING, SUSPENDED or IN_DOUBT, or how it ended: SUCCESS, FAILED, BUDGET_EXCEEDED, STALLED, CANCELLED;
    `reason` says why. `error` is the error of the run, if any. `step` is its present step. `held_by` is the breaker
    that has just stopped it here, if one did; it goes on when that is closed.
    """

    def __init__(
        self,
        run: str,
        plan: Plan,
        state: State,
        last: Entry,
        suspensions: tuple[Suspension, ...] = (),
        doubts: tuple[Doubt, ...] = (),
        *,
        history: Callable[[], History | None] = lambda: None,
        held_by: str | None = None,
    ) -> None:
        self.held_by = held_by
        self.id = run
        self.program = plan.program.name
        self.status = state.status
        self.reason = state.reason
        self.error = state.error
        self.suspensions = suspensions
        self.doubts = doubts
        self.seq = last.seq
        self._plan = plan
        self._state = state
        self._last = last
        self._history = history

    @property
    def continues(self) -> Continues | None:
        """The run that this one continues, with what it reads of it; None for a run that continues none."""
        found = self._history()
        return None if found is None else continues_of(found.events[0].body)

    def __repr__(self) -> str:
        return f"Run({self.id!r}, {self.status})"

    @property
    def is_over(self) -> bool:
        """Whether the run has ended."""
        return self._state.is_over

    @property
    def has_moved(self) -> bool:
        """Whether the run has ended because another one goes on with a new version of its program."""
        return self.is_over and self.reason == MOVED

    @property
    def step(self) -> str:
        """The id of the step that the run is at, or ended at."""
        step = self._plan.steps[self._state.at].step
        return step.owner if isinstance(step, Stage) else step.id

    @cached_property
    def output(self) -> Any:
        """The output of the `end` step, frozen; None if there was none. Raises ErasedError if it was erased."""
        return opened(self._state.output)

    @property
    def due(self) -> float | None:
        """The time from which on a worker can go on with the run, in seconds since the epoch, 0.0 for any time.

        None if nobody can, because it is over or waits for a delivery.
        """
        return due_of(self._state)

    @property
    def steps(self) -> int:
        """The number of charged steps, sub-steps and further attempts."""
        return self._state.steps

    @property
    def tokens(self) -> int:
        """The tokens of all model calls, including rejected replies."""
        return self._state.tokens

    @property
    def cost(self) -> int | Decimal:
        """The exact cost of all model calls."""
        return self._state.cost

    @property
    def head(self) -> str:
        """The digest of the last record, in hexadecimal."""
        return self._last.digest.hex()

    @property
    def trace_hash(self) -> str:
        """The digest of the events, without times, costs and ids: equal for equal runs, on any machine."""
        return self._state.trace.hex()

    @cached_property
    def broken(self) -> tuple[tuple[str, str], ...]:
        """The `followed_by` rules that the ended run broke, or a frame of it, with the reasons."""
        state = self._state
        if not state.is_over:
            return state.broken
        return (*state.broken, *self._plan.watch.complaints(state.monitors, state.status, state.reason))

    @cached_property
    def trace(self) -> tuple[AnyRecord, ...]:
        """The records of the run up to this state, with the types of `stepward.vm.trace`, without sensitive values.

        They are read from the journal on first use, which may block: in an event loop with a store on disk, use
        `asyncio.to_thread(lambda: run.trace)`. Raises JournalError if they can't be read.
        """
        found = self._history()
        if found is None:
            return ()
        pairs = list(zip(found.records, found.events, strict=True))[: self.seq + 1]
        return tuple(record_of(one.seq, one.at, one.kind, traced(event.body), one.note) for one, event in pairs)

    @cached_property
    def spent(self) -> Mapping[str, Spent]:
        """What each step or sub-step that asked a model has spent, by its id: the tokens and exact cost of all replies,
        also of rejected ones, and the model of the last one.

        It is read from the journal, as `trace` is, and raises the same errors.
        """
        found: dict[str, Spent] = {}
        asking = {call.id for step in self._plan.steps for call in step.calls if call.is_model}
        for record in self.trace:
            if isinstance(record, Attempt) and record.step in asking:
                before = found.get(record.step, Spent())
                cost = arithmetic("+", before.cost, record.cost)
                found[record.step] = Spent(before.tokens + record.tokens, cost, record.model)
        return found

    def view(self, kind: View) -> Mapping[str, Any]:
        """Return the values that a model, a tool or a trace may see, by name."""
        return view(self._plan, self._state, kind)

    def snapshot(self) -> bytes:
        """Return the canonical bytes of the state: equal on every machine that folds the same records."""
        return snapshot(self._plan, self._state)
