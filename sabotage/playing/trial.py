"""One run under attack: its inputs, its world, its clock, its machines, and the oracle that watches it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from stepward.sabotage.invariants import Invariant
from stepward.sabotage.playing.case import Case, named
from stepward.sabotage.playing.machines import Machine, WatchedStore
from stepward.sabotage.playing.oracle import Oracle, Watched
from stepward.sabotage.playing.points import Points
from stepward.sabotage.playing.virtual_time import VirtualClock
from stepward.sabotage.playing.world import World, WorldClock
from stepward.sabotage.target import Route, Target
from stepward.vm.journal.receipts import Receipt
from stepward.vm.journal.store import Journal
from stepward.vm.journal.verdict import Fault
from stepward.vm.journal.verify import verify
from stepward.vm.machine.history import History, load
from stepward.vm.machine.replay import replayer
from stepward.vm.machine.run import Run
from stepward.vm.machine.state import Limits
from stepward.vm.values import to_json

STARTER: Final = "the starter"
"""Who starts runs under policies that ask for two people."""

LEASE_SECONDS: Final = 60.0
MAX_DELIVERIES: Final = 200
"""The largest number of deliveries to one run. No example of ours needs as many."""


class Trial:
    """A run of the target, not started yet. `inputs` and all answers are decided under the trial's name.

    Trials of one name make the same decisions: the same inputs, the same answers. `store` and `target` are those of the
    case unless the attack passes others. `limits` are those of the machines. `route` is the known run that this one
    follows, if any. `by` is the person who starts the run, None where no policy asks for one.
    """

    def __init__(
        self,
        case: Case,
        name: str = "",
        *,
        faults: bool = True,
        store: Journal | None = None,
        target: Target | None = None,
        limits: Limits = Limits(),  # noqa: B008 - a frozen tuple
    ) -> None:
        self.case = case
        self.target = target or case.target
        self.limits = limits
        self.name = name
        self.by: str | None = STARTER if self.target.plan.four_eyes else None
        self.clock: WorldClock | VirtualClock = WorldClock()
        self.route = self._route()
        self.world = World(case, self.target, name, self.route, faults=faults)
        run = Watched(case.run_id(), self._inputs(), store or case.store)
        self.oracle = Oracle(self.world, run, limits, self.history)
        self.world.observer = self.oracle
        self._store = WatchedStore(run.store, self.oracle)

    def named(self, what: str) -> str:
        """Return the name of a decision of this trial."""
        return named(self.name, what)

    @property
    def run(self) -> str:
        """The id of the run."""
        return self.oracle.run.id

    @run.setter
    def run(self, run: str) -> None:
        self.oracle.run.id = run

    @property
    def inputs(self) -> dict[str, Any]:
        """The inputs of the run."""
        return self.oracle.run.inputs

    @inputs.setter
    def inputs(self, inputs: dict[str, Any]) -> None:
        self.oracle.run.inputs = inputs

    @property
    def store(self) -> WatchedStore:
        """The store that the machines of this trial use."""
        return self._store

    @store.setter
    def store(self, store: WatchedStore) -> None:
        self._store = store
        self.oracle.run.store = store.inner

    def enter(self, world: World) -> None:
        """Continue in another world, which the oracle observes from now on."""
        self.world = self.oracle.world = world
        world.observer = self.oracle

    def _route(self) -> Route | None:
        from hypothesis import strategies as st

        routes = self.target.routes
        if not routes:
            return None
        number = self.case.pick(self.named("route"), st.integers(0, len(routes)))
        return routes[number - 1] if 0 < number <= len(routes) else None

    def _inputs(self) -> dict[str, Any]:
        name = self.named("inputs")
        if self.route is not None:
            self.case.choices.decisions.setdefault(name, dict(self.route.inputs))
        inputs: dict[str, Any] = self.case.pick(name, self.target.inputs)
        return inputs

    def machine(self, points: Points | None = None, **options: Any) -> Machine:
        """Return a machine in its own process. `options` override those of `ExecutionVM`."""
        weakness = self.case.weakness
        store = self.store if weakness.store is None else weakness.store(self.store)
        options = {"lease_seconds": LEASE_SECONDS, "limits": self.limits, **weakness.options, **options}
        return Machine(self.world, self.clock, points or Points(), store, **options)

    # -- playing -------------------------------------------------------------------------------------------------------

    def start(self, machine: Machine | None = None) -> Run:
        """Start the run and return it at its first stop."""
        case = self.case
        case.act(f"run the program with {to_json(self.inputs)}")
        return case.do((machine or self.machine()).run(self.target.program, self.inputs, run_id=self.run, by=self.by))

    def carry_on(self, run: Run, machine: Machine | None = None) -> Run:
        """Deliver what the run waits for until it ends, and return the run."""
        driver = machine or self.machine()
        for _ in range(MAX_DELIVERIES):
            if run.is_over:
                return run
            run = self.deliver(run, driver)
        return run

    def deliver(self, run: Run, machine: Machine) -> Run:
        """Deliver the first thing that a run waits for: a recovery, the outcome of a write, a time, or a payload."""
        case = self.case
        case.count()
        if run.status == "RUNNING":
            case.log("recover the run")
            recovered = case.do(machine.recover(run.id))
            return recovered[0]
        if run.doubts:
            return self._reconcile(run, machine)
        if run.due is not None and not self.answers(run):
            case.log("let time pass until a wait is over, or a deadline has passed")
            row = self.store.inner.row(run.id)
            # A dead process may have taken the run up.
            leased = 0.0 if row is None else row.expires
            self.clock.time = max(self.clock.time, int(max(run.due, leased) * 1e6) + 1)
            return case.do(machine.recover(run.id))[0]
        token = run.suspensions[0]
        payload = self.payload(token.step)
        case.log(f"resume `{token.step}` with {to_json(payload)}")
        return case.do(machine.resume(token.token, payload, by=self.settler))

    def answers(self, run: Run) -> bool:
        """Return whether `deliver` settles a write or answers a suspended step, and does not just let time pass."""
        from hypothesis import strategies as st

        if run.doubts or not run.suspensions:
            return bool(run.doubts)
        return run.due is None or bool(self.case.pick("there is an answer in time", st.booleans()))

    def payload(self, step: str) -> Any:
        """Return the payload for a step that waits."""
        target = self.target
        number = self.oracle.due(step)
        answer = self.route and self.route.answer(step, number, 1)
        name = self.named(f"payload {number} for {step}")
        if answer and answer["does"] == "returns":
            self.case.choices.decisions.setdefault(name, answer.get("value"))
        payload = self.case.pick(name, target.output(target.calls[step]))
        self.oracle.expect(step, payload)
        return payload

    def _reconcile(self, run: Run, machine: Machine) -> Run:
        """Settle a write in doubt truthfully: the world knows whether it happened."""
        doubt = run.doubts[0]
        case = self.case
        has_happened = any(effect.key == doubt.key for effect in self.world.effects)
        if not has_happened:
            case.log(f"reconcile `{doubt.step}`: not done")
            self.world.settled[doubt.place] += 1
            return case.do(machine.reconcile(run.id, doubt.place, "not_done", by=self.settler))
        output = self.payload(doubt.step)
        case.log(f"reconcile `{doubt.step}`: done, with {to_json(output)}")
        return case.do(machine.reconcile(run.id, doubt.place, "done", output, by=self.settler))

    @property
    def settler(self) -> str | None:
        """The person who delivers: another one than the starter, if the starter is known."""
        return None if self.by is None else f"not {self.by}"

    def rehearse(self, *, to_its_end: bool = True) -> Points:
        """Play the run without an attack, leave it out of the story, and return the points of its first process."""
        whole = Points()
        run = self.start(self.machine(whole))
        if to_its_end:
            self.carry_on(run)
        self.case.story.clear()
        return whole

    def finish(self, machine: Machine | None = None) -> Run:
        """Start the run, drive it to its end, and let the oracle judge it."""
        driver = machine or self.machine()
        run = self.carry_on(self.start(driver), driver)
        self.oracle.judge(run)
        return run

    def outlive(self, run: Run) -> Run:
        """Let a new process find and finish a run whose process is dead, and let the oracle judge the end."""
        self.oracle.forget()
        self.clock.time += int(2 * LEASE_SECONDS * 1_000_000)
        ended = self.carry_on(self.recovered() if run.status == "RUNNING" else run)
        self.oracle.judge(ended)
        return ended

    def recovered(self) -> Run:
        """Let a new process recover all runs that nobody drives, this one among them."""
        case = self.case
        case.act("a new process recovers all runs")
        with self.alone():
            found = case.do(self.machine().recover())
        case.hold([run.id for run in found] == [self.run], Invariant.KEPT, f"of `{self.run}`, {found} is recovered")
        return found[0]

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Let the list of runs show no run of another trial."""
        before, self.store.shows_others = self.store.shows_others, False
        try:
            yield
        finally:
            self.store.shows_others = before

    def reload(self) -> Run:
        """Return the run as a new process reads it. Raises NoSuchRun if there is none."""
        run = self.case.do(self.machine().get(self.run))
        self.oracle.listed(run)
        return run

    def found(self) -> Run | None:
        """Return the run as a new process reads it, or None if the process died before the run existed."""
        return None if self.store.inner.head(self.run) is None else self.reload()

    def history(self) -> History:
        """Return the history of the run from its journal. Raises JournalError if it is damaged."""
        found = load(self.store.inner, self.run, self.machine()._stored_plan)
        assert found is not None, "a run that was started is there"
        return found

    def faults(self, receipts: Sequence[Receipt] = (), *, trusts_key: bool = True) -> tuple[Fault, ...]:
        """Return the faults that a verification finds in chain, head, signature, documents, values and meaning."""
        keys = [self.case.key.public] if trusts_key else []
        store = self.store.inner
        return verify(store, self.run, keys=keys, receipts=receipts, replay=replayer(store, self.run, receipts)).faults
