"""Crash: one machine recovers exactly those runs of a full store that no machine drives."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Mapping
from typing import Any, Final

from stepward.sabotage.attack import Attack, Family
from stepward.sabotage.invariants import Breach, Invariant, Outcome
from stepward.sabotage.needs import TOOL
from stepward.sabotage.playing.case import Case
from stepward.sabotage.playing.points import Killed, Points
from stepward.sabotage.playing.trial import LEASE_SECONDS, Trial
from stepward.sabotage.playing.variants import under, variant
from stepward.sabotage.playing.world import ProcessModel, ProcessTools, WorldClock
from stepward.sabotage.stores.forging import raw_store_of
from stepward.sabotage.stores.through import ThroughStore
from stepward.vm.errors import StepwardError
from stepward.vm.journal.memory import MemoryJournal
from stepward.vm.journal.store import Append, JournalError, Lease, Row
from stepward.vm.machine.execution import ExecutionVM
from stepward.vm.machine.models import ModelReply, ModelRequest
from stepward.vm.machine.refusals import NoSuchRun, RunBusy, RunRefused
from stepward.vm.machine.run import Run
from stepward.vm.machine.tools import ToolContext

STATES: Final = (
    "its process died",
    "it is driven",
    "its lease ends in a moment",
    "its lease ended just now",
    "its lease was given by a clock that was ahead",
    "its lease is as long as any",
    "it waits or has ended",
    "its first record was edited",
    "its line in the list can't be read",
    "its policy is new, and broken",
    "its tools are another machine's",
)
"""The states in which the machine finds a run."""

DAY: Final = 86_400
AHEAD: Final[Mapping[str, float]] = {
    "it is driven": LEASE_SECONDS / 2,
    "its lease ends in a moment": 0.5,
    "its lease ended just now": -0.5,
    "its lease was given by a clock that was ahead": 3.5 * DAY,
    "its lease is as long as any": DAY - 5,
}
"""The seconds until the lease of a run ends, by state. For other states it ended long ago."""

MOST: Final = 5
LONG_AGO: Final = -1_000.0
FAULT: Final = "`started` can't be read"


class _Store(ThroughStore):
    """A store in which some rows of the list can't be read. It records which run was leased last."""

    def __init__(self) -> None:
        super().__init__(MemoryJournal())
        self.faulty: set[str] = set()
        self.trials: dict[str, Trial] = {}
        self.last = ""

    def acquire(self, run: str, holder: str, now: float, ttl: float) -> Lease | None:
        """Lease a run."""
        self.last = run
        lease = super().acquire(run, holder, now, ttl)
        if lease is not None and run in self.trials:
            self.trials[run].oracle.look(durable=True)
        return lease

    def append(self, append: Append, fence: int | None) -> None:
        """Add entries, then call the oracle of the run."""
        super().append(append, fence)
        if append.run in self.trials:
            self.trials[append.run].oracle.look(durable=append.durable)

    def rows(self, statuses: Any = None, **filters: Any) -> list[Row]:
        """Return the list of runs."""
        found = super().rows(statuses, **filters)
        return [row._replace(fault=FAULT, started=0.0) if row.run in self.faulty else row for row in found]


class _AllWorlds:
    """The tools and model of one machine for the worlds of many runs."""

    def __init__(self, store: _Store, trials: Mapping[str, Trial], missing: frozenset[str]) -> None:
        self._store = store
        self._trials = trials
        self._missing = missing

    def has(self, name: str) -> bool:
        """Return whether there is a tool of that name."""
        return name not in self._missing

    def call(self, name: str, args: Mapping[str, Any], context: ToolContext) -> Awaitable[Any]:
        """Return an awaitable for the output of a tool."""
        trial, row = self._trials[context.run], self._store.inner.row(context.run)
        left = 0.0 if row is None else row.expires - trial.clock.time / 1e6
        if not 0 < left <= LEASE_SECONDS:
            trial.case.error = Breach(Invariant.DRIVER, f"the lease of a run that was picked up lasts {left:g} s more")
            raise Killed("the lease is wrong")
        return ProcessTools(trial.world, Points()).call(name, args, context)

    async def complete(self, request: ModelRequest) -> ModelReply:
        """Return the reply."""
        return await ProcessModel(self._trials[self._store.last].world, Points()).complete(request)


class RunsFoundTogether(Attack):
    """One machine finds many runs: dead ones, driven ones, ended ones, damaged ones, ones that break a new policy and
    ones whose tools it lacks. It recovers all, then each by its name."""

    family = Family.CRASH
    surface = "list of runs"
    action = "with runs in every state, all recovered at once"
    invariant = Invariant.DRIVER
    defence = "recovery takes the runs that no machine drives, in their order, and one bad run does not stop the others"
    weight = 2
    needs = (TOOL,)

    def play(self, case: Case) -> Outcome:
        """Recover all, and check which runs are recovered, reported with an error, or left alone."""
        from hypothesis import strategies as st

        states = case.pick("runs", st.lists(st.sampled_from(STATES), min_size=1, max_size=MOST))
        return _Fleet(case, [*states, STATES[0]]).play()


class _Fleet:
    """The runs of one case, which share a clock."""

    def __init__(self, case: Case, states: list[str]) -> None:
        self.case = case
        self.store = _Store()
        self.clock = WorldClock()
        self.trials = self.store.trials
        self.states: dict[str, str] = {}
        self.broken = under(case.target, "nothing may", {"policy": "nothing-may", "allow": []})
        for number, state in enumerate(states):
            self._bring(number, state)

    def _bring(self, number: int, state: str) -> None:
        """Bring a run into a state."""
        case = self.case
        target = case.target
        if state == "its tools are another machine's":
            target = variant(target, "other tools", _with_other_tools)
        trial = Trial(case, f"run {number}", faults=False, store=self.store, target=target)
        trial.clock = self.clock
        points = Points(None if state == "it waits or has ended" else 3 + number)
        try:
            trial.start(trial.machine(points))
        except Killed:
            trial.oracle.forget()
        if trial.found() is None:
            return
        self.trials[trial.run] = trial
        self.states[trial.run] = state
        case.log(f"run {number}: {state}")
        if state == "its first record was edited":
            trial.oracle.rest()
            entries = self.store.inner.read(trial.run)
            edited = entries[0]._replace(record=entries[0].record.replace(b'"at":1', b'"at":2', 1))
            raw_store_of(self.store.inner).put(trial.run, [edited, *entries[1:]], None, None)
        elif state == "its line in the list can't be read":
            self.store.faulty.add(trial.run)

    def play(self) -> Outcome:
        """Set the leases, recover all, and check each run."""
        self.clock.time += 10_000_000_000
        now = self.clock.time / 1e6
        runs = {run: self.trials[run].reload() for run, state in self.states.items() if "edited" not in state}
        for run, state in self.states.items():
            self.store.inner._runs[run].expires = now + AHEAD.get(state, LONG_AGO)  # type: ignore[attr-defined]
        machine = self._machine()
        due = [run for run in self.states if self._is_due(run, runs)]
        calls_before = {run: len(trial.world.attempts) for run, trial in self.trials.items()}
        if self._is_strict():  # the reference does not know the outcome of a run under a new policy
            for trial in self.trials.values():
                trial.oracle.rest()
        self.case.act("a machine recovers all runs")
        recovered, failures = self.case.do(machine.recover_all())
        self._same("the runs that are picked up", [run.id for run in recovered], due)
        wrong = [run for run in self.states if self._is_wrong(run, runs)]
        self._same("the runs that are named with an error", sorted(failures), sorted(wrong))
        for run, error in failures.items():
            self._hold(type(error) is self._error(run), f"`{error}` is said of a run: {self.states[run]}")
        for run in self.states:
            self._left(run, run in due, calls_before[run])
        self._by_name(machine, runs, due)
        self._unknown(machine)
        return Outcome.BLOCKED if len(due) < len(self.states) else Outcome.ABSORBED

    def _machine(self) -> ExecutionVM:
        plan = self.case.target.plan
        others = frozenset(f"{call.tool}_elsewhere" for step in plan.steps for call in step.calls if not call.is_model)
        worlds = _AllWorlds(self.store, self.trials, others)
        broken = [run for run, state in self.states.items() if state == "its policy is new, and broken"]
        policies = self.broken.policies if broken else self.case.target.policies
        case = self.case
        return ExecutionVM(
            worlds, worlds, self.store, policies, checker=None, key=case.key, clock=self.clock, random=case.random
        )

    def _is_due(self, run: str, runs: Mapping[str, Run]) -> bool:
        """Whether a run must be recovered."""
        free = AHEAD.get(self.states[run], LONG_AGO) <= 0
        known = runs.get(run)
        is_whole = known is not None and known.status == "RUNNING" and run not in self.store.faulty
        is_ours = self.states[run] != "its tools are another machine's"
        return free and is_whole and is_ours and not self._is_wrong(run, runs)

    def _is_wrong(self, run: str, runs: Mapping[str, Run]) -> bool:
        """Whether a run must be reported with an error."""
        known, row = runs.get(run), self.store.inner.row(run)
        if row is None:
            return False
        if self.states[run] == "its first record was edited":
            return self._was_running(run)
        if known is None or known.status != "RUNNING":
            return False
        return run in self.store.faulty or (
            self._is_strict() and AHEAD.get(self.states[run], LONG_AGO) <= 0 and self._has_called(run)
        )

    def _was_running(self, run: str) -> bool:
        row = self.store.inner.row(run)
        return row is not None and row.status == "RUNNING"

    def _is_strict(self) -> bool:
        return "its policy is new, and broken" in self.states.values()

    def _has_called(self, run: str) -> bool:
        """Whether a tool has started that no policy allows now."""
        records = [json.loads(entry.record) for entry in self.store.inner.read(run)]
        return any(one["kind"] == "intent" and one["body"]["tool"] for one in records) or any(
            not call.asking.call.is_model and self._is_recorded(run, call.asking.call.id)
            for call in self.trials[run].world.attempts
        )

    def _is_recorded(self, run: str, step: str) -> bool:
        field = f'"step":"{step}"'.encode()
        return any(
            b'"kind":"attempt"' in entry.record and field in entry.record for entry in self.store.inner.read(run)
        )

    def _error(self, run: str) -> type[StepwardError]:
        state = self.states[run]
        is_damaged = state == "its first record was edited" or run in self.store.faulty
        return JournalError if is_damaged else RunRefused

    def _left(self, run: str, is_due: bool, calls_before: int) -> None:
        """Check that a run that is not recovered is unchanged, and still free if it was free."""
        row = self.store.inner.row(run)
        assert row is not None, "the run was there"
        if not is_due:
            self._hold(
                len(self.trials[run].world.attempts) == calls_before, "a run that is not to be picked up has called"
            )
            ends = self.clock.time / 1e6
            free = AHEAD.get(self.states[run], LONG_AGO) <= 0
            self._hold(not free or row.expires <= ends, "a run that was not picked up is leased all the same")
            return
        if self._is_strict():
            later = [
                one.asking.call.id
                for one in self.trials[run].world.attempts[calls_before:]
                if not one.asking.call.is_model
            ]
            self._hold(not later, f"`{later[:1]}` was called, which a policy that is new to the run does not allow")
        if self._status(run) != "RUNNING":
            over = self._status(run) not in ("SUSPENDED", "IN_DOUBT")
            self._hold(over or row.expires <= self.clock.time / 1e6, "a run that waits again is leased")

    def _status(self, run: str) -> str:
        row = self.store.inner.row(run)
        return "" if row is None else row.status

    def _by_name(self, machine: ExecutionVM, runs: Mapping[str, Run], due: list[str]) -> None:
        """Recover each by its name, which overrides an impossible lease but no other."""
        for run, known in runs.items():
            state, ends = self.states[run], AHEAD.get(self.states[run], LONG_AGO)
            if run in due or known.status != "RUNNING":
                continue
            self.case.log(f"it recovers a run by its name: {state}")
            is_ahead = ends > DAY
            expected: type[StepwardError] | None = RunBusy if ends > 0.4 and not is_ahead else None
            if state == "its tools are another machine's" or (expected is None and self._refuses(run)):
                expected = RunRefused
            if is_ahead and expected is None:
                self._is_said(machine, run)
            got: type[StepwardError] | None = None
            try:
                self.case.do(machine.recover(run))
            except (RunBusy, RunRefused, JournalError) as error:
                got = RunRefused if isinstance(error, RunRefused) else type(error)
            self._same(f"what a recovery by name comes to ({state})", got, expected)
            row = self.store.inner.row(run)
            is_over = row is not None and row.status in ("SUCCESS", "FAILED", "BUDGET_EXCEEDED", "STALLED", "CANCELLED")
            if expected is None and row is not None and not is_over:
                self._hold(row.expires <= self.clock.time / 1e6, "a run that was recovered by its name stays leased")

    def _refuses(self, run: str) -> bool:
        return self._is_strict() and self._has_called(run)

    def _is_said(self, machine: ExecutionVM, run: str) -> None:
        """Check that a refusal names the end of a lease that a wrong clock has set."""
        row = self.store.inner.row(run)
        assert row is not None, "the run was there"
        days = (row.expires - self.clock.time / 1e6) / DAY
        busy = self.case.do(machine._busy(run))
        self._hold(f"{days:,.0f} more days" in str(busy), f"of a lease that lasts {days} days is said: {busy}")

    def _unknown(self, machine: ExecutionVM) -> None:
        try:
            self.case.do(machine.recover("no such run"))
        except NoSuchRun:
            return
        raise Breach(Invariant.REFUSAL, "a run that does not exist was recovered")

    def _same(self, what: str, got: Any, due: Any) -> None:
        self._hold(got == due, f"{what}: {got}, and they have to be {due}")

    def _hold(self, is_met: bool, what: str) -> None:
        self.case.hold(is_met, Invariant.DRIVER, what)


def _with_other_tools(data: dict[str, Any]) -> None:
    from stepward.sabotage.playing.variants import calls_in

    for call in calls_in(data):
        if call["type"] == "tool":
            if call["tool"] in data.get("tools", {}):
                data["tools"][f"{call['tool']}_elsewhere"] = data["tools"][call["tool"]]
            call["tool"] = f"{call['tool']}_elsewhere"
    data.pop("guardrails", None)
