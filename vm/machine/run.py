"""A run as its caller sees it."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from functools import cached_property
from typing import Any, NamedTuple

from stepward.vm.journal.canonical import opened
from stepward.vm.journal.store import Entry
from stepward.vm.machine.plan import Plan
from stepward.vm.machine.state import State, snapshot
from stepward.vm.machine.views import View, view


class Suspension(NamedTuple):
    """A step that waits for somebody: `token` resumes it, once; `request` is what its tool asks for."""

    step: str
    token: str
    request: Any


class Doubt(NamedTuple):
    """A write of which nobody knows whether it happened: look, and call `reconcile`.

    `key` is the idempotency key that the tool was given.
    """

    step: str
    tool: str
    key: str
    why: str


class Run:
    """What is known of a run: immutable, and read from its journal.

    `status` is RUNNING, SUSPENDED or IN_DOUBT, or how it ended: SUCCESS, FAILED, BUDGET_EXCEEDED, STALLED, CANCELLED;
    `reason` says why. `error` is what went wrong, where something did. `step` is the one that it is at.
    """

    def __init__(
        self,
        run: str,
        plan: Plan,
        state: State,
        last: Entry,
        suspensions: tuple[Suspension, ...] = (),
        doubts: tuple[Doubt, ...] = (),
    ) -> None:
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

    def __repr__(self) -> str:
        return f"Run({self.id!r}, {self.status})"

    @property
    def is_over(self) -> bool:
        """Whether the run has ended."""
        return self._state.is_over

    @property
    def step(self) -> str:
        """The id of the step that the run is at, or ended at."""
        return self._plan.steps[self._state.at].id

    @cached_property
    def output(self) -> Any:
        """What the `end` step returned, frozen; None where there was none. Raises ErasedError when it was erased."""
        return opened(self._state.output)

    @property
    def steps(self) -> int:
        """Steps, sub-steps and further attempts that were charged."""
        return self._state.steps

    @property
    def tokens(self) -> int:
        """Tokens that model calls used, rejected replies included."""
        return self._state.tokens

    @property
    def cost(self) -> int | Decimal:
        """What model calls cost, exactly."""
        return self._state.cost

    @property
    def head(self) -> str:
        """The digest of the last record, in hexadecimal."""
        return self._last.digest.hex()

    @property
    def trace_hash(self) -> str:
        """The digest of what happened, without times, costs and ids: equal runs have equal ones, on any machine."""
        return self._state.trace.hex()

    @cached_property
    def broken(self) -> tuple[tuple[str, str], ...]:
        """The `followed_by` rules that the ended run broke, and how."""
        state = self._state
        return self._plan.watch.complaints(state.monitors, state.status, state.reason) if state.is_over else ()

    def view(self, kind: View) -> Mapping[str, Any]:
        """Return the values that a model, a tool or a trace may see, by name."""
        return view(self._plan, self._state, kind)

    def snapshot(self) -> bytes:
        """Return the canonical bytes of the state: equal on every machine that folds the same records."""
        return snapshot(self._plan, self._state)
