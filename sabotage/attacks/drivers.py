"""Time: two machines drive one run, or one is paused for too long while others act."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from stepward.sabotage.attack import Attack, Family
from stepward.sabotage.attacks.erasures import not_gone
from stepward.sabotage.invariants import Breach, Invariant, Outcome
from stepward.sabotage.needs import SENSITIVE, WAIT
from stepward.sabotage.playing.case import Case
from stepward.sabotage.playing.delivering import suspended
from stepward.sabotage.playing.interleaving import Crossing, interleave
from stepward.sabotage.playing.machines import Machine, WatchedStore
from stepward.sabotage.playing.oracle import Oracle
from stepward.sabotage.playing.pausing import Paused, SwitchedPoints
from stepward.sabotage.playing.points import Killed, Points
from stepward.sabotage.playing.trial import LEASE_SECONDS, Trial
from stepward.sabotage.target import is_told_first
from stepward.vm.journal.store import Append, JournalError, Lease, LeaseLost
from stepward.vm.machine.refusals import DeliveryRefused, RunBusy
from stepward.vm.machine.run import Run

if TYPE_CHECKING:
    from stepward.vm.journal.store import Journal

LEASE_IS_OVER: Final = int(2 * LEASE_SECONDS * 1_000_000)
"""Microseconds after which a lease without renewal has expired."""

OVER_SINCE: Final = (200_000, LEASE_IS_OVER)
"""Microseconds since the expiry of a lease: short or long."""

LEFT: Final = (None, 1_500_000, 100_000)
"""Microseconds before the end of a lease at which another machine requests it; None for its beginning."""


SECOND_LEASES: Final = (LEASE_SECONDS, 0.5)
"""The lengths of leases of a second machine in seconds: as usual, or much shorter than the lease that it meets."""


class DriverAttack(Attack):
    """The base of attacks that pause a driver at each of its points."""

    family = Family.TIME
    invariant = Invariant.DRIVER
    weight = 10
    enumerates = "the points before and after every append and every effect of the generated run"

    def stops(self, case: Case, *, faults: bool = False, is_stale: bool = False) -> Iterator[tuple[Trial, Paused]]:
        """Yield a trial for each point, with the driver paused there. The process ends when the generator continues.

        With `is_stale` its lease has then expired; or it expired earlier, was renewed, and has expired again. An
        exception is between the machine's last check of its lease and the first line of a tool: a pause there counts as
        one inside the tool, where only the tool could fence.
        """
        from hypothesis import strategies as st

        over = case.pick("the lease is over since", st.sampled_from(OVER_SINCE)) if is_stale else None
        later = "after renew" if is_stale and case.pick("it renews its lease first", st.booleans()) else ""
        whole = Trial(case, faults=faults).rehearse()
        for number in case.each("the driver stands still at point", range(len(whole.passed))):
            if is_stale and is_inside(whole.passed[number]):
                continue
            trial = Trial(case, faults=faults)
            with paused(trial, number, over, later) as process:
                if process.point is not None:
                    yield trial, process


def paused(
    trial: Trial,
    number: int,
    over: int | None = None,
    later: str = "",
    work: Callable[[Machine], Coroutine[Any, Any, Any]] | None = None,
) -> Paused:
    """Start a run in a process that pauses at a point, where its lease has expired for `over` microseconds. `work` is
    what the process does instead.

    With `later` its lease expires at that point, too, and the process pauses at the first later point of that name.
    """

    def let_the_lease_end() -> None:
        if over is not None:
            trial.clock.time = max(trial.clock.time, _end_of_lease(trial)) + over

    machines: list[tuple[Machine, SwitchedPoints]] = []

    def started(points: Points) -> Any:
        switched = SwitchedPoints(points)
        machine = trial.machine(switched)
        machines.append((machine, switched))
        program = trial.case.target.program
        return work(machine) if work is not None else machine.run(program, trial.inputs, run_id=trial.run, by=trial.by)

    process = Paused(trial.case, number, started, let_the_lease_end, later)
    process.machine, process.points = machines[0]
    return process


def _end_of_lease(trial: Trial) -> int:
    """Return the end of the run's lease in microseconds since the epoch, or 0 if there is none."""
    return next((int(row.expires * 1_000_000) for row in trial.store.rows() if row.run == trial.run), 0)


def is_inside(point: str) -> bool:
    """Whether a process at this point is committed to a call and checks its lease no more."""
    return point.startswith("before ") and " is asked by " in point


def _head(trial: Trial) -> Any:
    return trial.store.inner.head(trial.run)


class TwoDrivers(DriverAttack):
    """A second machine, with leases as long or much shorter, recovers a run while the first one drives it, at every
    point, early in its lease or just before its end."""

    surface = "lease"
    action = "a second machine recovers a run that is driven"
    defence = "only the holder of the lease can continue a run"

    def play(self, case: Case) -> Outcome:
        """Check that the second one is refused and does nothing, and that the first one finishes."""
        from hypothesis import strategies as st

        left = case.pick("the lease lasts for", st.sampled_from(LEFT))
        seconds = case.pick("leases of the second machine last for", st.sampled_from(SECOND_LEASES))
        outcome = Outcome.NOT_APPLICABLE
        for trial, process in self.stops(case):
            if left is not None:
                trial.clock.time = max(trial.clock.time, _end_of_lease(trial) - left)
            found = trial.found()
            if found is not None and not found.is_over:
                outcome = Outcome.BLOCKED
                recovered_beside(trial, trial.machine(lease_seconds=float(seconds)), "a second machine")
            run = process.go_on()
            case.hold(isinstance(run, Run), Invariant.DRIVER, f"the driver was disturbed: {run}")
            trial.oracle.judge(trial.carry_on(run))
        return outcome


class TwoTasks(DriverAttack):
    """A machine recovers a run, and at every point of that another task of the same machine recovers it, too."""

    surface = "lease"
    action = "another task of the machine recovers a run that it drives"
    defence = "each task of a machine takes its leases under a name of its own"

    def play(self, case: Case) -> Outcome:
        """Check that the second task is refused and does nothing, and that the first one finishes."""
        passed = Trial(case, faults=False).rehearse(to_its_end=False).passed
        first_append = next(number for number, name in enumerate(passed) if name.startswith("after the append"))
        whole = Points()
        trial = _dead_run(case, first_append)
        case.do(trial.machine(whole).recover(trial.run))
        case.story.clear()
        for number in case.each("the driver stands still at point", range(len(whole.passed))):
            trial = _dead_run(case, first_append)
            with paused(trial, number, work=lambda machine: machine.recover(trial.run)) as process:  # noqa: B023
                found = trial.found()
                if found is None or found.status != "RUNNING" or not _is_leased(trial):
                    continue
                with process.points.of_another_task():
                    recovered_beside(trial, process.machine, "another task of the machine")
                runs = process.go_on()
                case.hold(isinstance(runs, list), Invariant.DRIVER, f"the driver was disturbed: {runs}")
                trial.oracle.judge(trial.carry_on(runs[0]))
        return Outcome.BLOCKED


def _dead_run(case: Case, number: int) -> Trial:
    """Return a run whose process died at a point, and whose lease is over."""
    trial = Trial(case, faults=False)
    with suppress(Killed):
        trial.start(trial.machine(Points(number, case.log)))
    trial.oracle.forget()
    trial.clock.time += LEASE_IS_OVER
    return trial


def _is_leased(trial: Trial) -> bool:
    return any(row.run == trial.run and row.expires > trial.clock.time / 1e6 for row in trial.store.rows())


def recovered_beside(trial: Trial, machine: Machine, who: str) -> None:
    """Recover a run while somebody drives it. Raises Breach unless that is refused, and nothing happens."""
    case = trial.case
    is_leased = _is_leased(trial)
    before = (_head(trial), len(trial.world.attempts))
    case.act(f"{who} recovers the run")
    try:
        case.do(machine.recover(trial.run))
    except RunBusy:
        pass
    else:
        case.hold(not is_leased, Invariant.DRIVER, f"a run that somebody drives was given to {who}")
    now = (_head(trial), len(trial.world.attempts))
    case.hold(now == before, Invariant.DRIVER, f"{who} went on with a run that somebody drives")


class StaleDriver(DriverAttack):
    """A machine is paused for longer than its lease, at every point, or renews it after one pause and is paused again.
    Another one takes over the run and ends it; then the first one continues. A pause between its check of the lease and
    the first line of a tool is out of scope: there only the tool could fence, by its key."""

    surface = "process"
    action = "paused for longer than its lease, and continued after another machine has finished"
    defence = "the lease is checked before every call, and every append has a fencing number"

    def play(self, case: Case) -> Outcome:
        """Check that the first one has no effect after the other has taken over."""
        outcome = Outcome.NOT_APPLICABLE
        for trial, process in self.stops(case, faults=True, is_stale=True):
            case.log("its lease ends, and another machine takes the run over")
            trial.oracle.forget()
            ended = trial.carry_on(trial.found() or trial.start())
            head, calls_before = _head(trial), len(trial.world.attempts)
            result = process.go_on()
            case.hold(
                len(trial.world.attempts) == calls_before,
                Invariant.ONCE,
                "a driver that was fenced has called something",
            )
            case.hold(_head(trial) == head, Invariant.DRIVER, "a record of a driver that was fenced has landed")
            is_told = isinstance(result, Run) and result.status == ended.status
            case.hold(is_told, Invariant.DRIVER, f"a driver that was fenced came to {result}")
            trial.oracle.judge(trial.reload())
            outcome = Outcome.BLOCKED
        return outcome


class FencedStore(WatchedStore):
    """A store that records who holds the newest lease, and checks whose entries are stored."""

    def __init__(self, inner: Journal, oracle: Oracle) -> None:
        super().__init__(inner, oracle)
        self._newest = 0

    def create(self, append: Append, program: str, holder: str, ttl: float) -> Lease | None:
        """Make a run."""
        return self._seen(super().create(append, program, holder, ttl))

    def acquire(self, run: str, holder: str, now: float, ttl: float) -> Lease | None:
        """Lease a run."""
        return self._seen(super().acquire(run, holder, now, ttl))

    def append(self, append: Append, fence: int | None) -> None:
        """Add entries. Raises Breach if they come from a fenced driver."""
        super().append(append, fence)
        if fence is not None and fence < self._newest:
            raise Breach(
                Invariant.DRIVER, f"entries under lease {fence} have landed after lease {self._newest} was given"
            )

    def _seen(self, lease: Lease | None) -> Lease | None:
        if lease is not None:
            self._newest = max(self._newest, lease.fence)
        return lease


class DriversInterleaved(Attack):
    """A machine outlives its lease at some point, and a second one recovers the run; both continue, in any order. A
    pause inside a tool is out of scope, as for `stale-driver`."""

    family = Family.TIME
    surface = "lease"
    action = "taken over while its holder continues"
    invariant = Invariant.DRIVER
    defence = "every append has a fencing number, and names the record before it"
    weight = 5

    def play(self, case: Case) -> Outcome:
        """Check that only entries of the newest lease's holder are stored, and everything happens once."""
        trial = Trial(case, faults=False)
        trial.store = FencedStore(trial.store.inner, trial.oracle)
        crossings: list[Crossing] = []

        def first(points: Crossing) -> Any:
            crossings.append(points)
            return trial.machine(points).run(case.target.program, trial.inputs, run_id=trial.run, by=trial.by)

        async def second(points: Crossing) -> Any:
            while True:
                await points.pass_by("before it looks after the runs")
                if not any(map(is_inside, crossings[0].standing)):
                    break
            case.log("the lease of the first machine ends")
            trial.clock.time += LEASE_IS_OVER
            return None if _head(trial) is None else await trial.machine(points).recover(trial.run)

        case.count()
        results = case.do(interleave(case, {"first": first, "second": second}))
        wrong = [result for result in results.values() if not isinstance(result, Run | list | RunBusy | None)]
        case.hold(not wrong, Invariant.DRIVER, f"a driver came to {wrong[:1]}")
        trial.outlive(trial.reload())
        return Outcome.BLOCKED


class CancelledAnywhere(DriverAttack):
    """The run is cancelled at every point of its driver's work."""

    surface = "cancellation"
    action = "requested at any point while a machine drives the run"
    invariant = Invariant.ENDINGS
    defence = "before it appends, a machine reads what others appended, and it starts nothing after a cancellation"

    def play(self, case: Case) -> Outcome:
        """Check that no further effect starts, that at most the models of one step are asked, and that the run ends."""
        outcome = Outcome.NOT_APPLICABLE
        for trial, process in self.stops(case):
            if trial.found() is None:
                process.go_on()
                continue
            outcome = Outcome.ABSORBED
            case.act("somebody cancels the run")
            case.do(trial.machine().cancel(trial.run))
            length, calls_before = _head(trial).seq, len(trial.world.attempts)
            result = process.go_on()
            case.hold(isinstance(result, Run), Invariant.ENDINGS, f"the driver of a cancelled run came to {result}")
            models = sum(one.asking.call.is_model for one in trial.world.attempts[calls_before:])
            is_heard = models <= max(sum(call.is_model for call in step.calls) for step in case.target.plan.steps)
            case.hold(is_heard, Invariant.ENDINGS, f"models were asked {models} times after the run was cancelled")
            late = [
                call.id
                for record in trial.oracle.records[length + 1 :]
                if record["kind"] == "intent" and is_told_first(call := case.target.calls[record["body"]["step"]])
            ]
            case.hold(not late, Invariant.ENDINGS, f"`{late[:1]}` has started after the run was cancelled")
            run = trial.reload()
            case.hold(run.is_over, Invariant.ENDINGS, f"a cancelled run is {run.status}")
            trial.oracle.judge(run)
        return outcome


class ErasedAnywhere(DriverAttack):
    """The run is erased at every point of its driver's work, whose lease may have expired."""

    surface = "erasure"
    action = "requested at any point while a machine drives the run"
    invariant = Invariant.ERASURE
    defence = (
        "a run is not erased while a machine drives it, and a machine that lost its lease writes nothing to the vault"
    )
    store = "sqlite"
    needs = (SENSITIVE,)

    def play(self, case: Case) -> Outcome:
        """Check that no value is left after the erasure, including those that the driver still writes."""
        from hypothesis import strategies as st

        is_stale = case.pick("the lease of the driver is over", st.booleans())
        outcome = Outcome.NOT_APPLICABLE
        for trial, process in self.stops(case, is_stale=is_stale):
            if trial.found() is None:
                continue
            case.act("somebody erases the run")
            try:
                case.do(trial.machine().erase(trial.run))
                is_erased = True
                outcome = Outcome.ABSORBED
            except RunBusy:
                is_erased = False
                outcome = Outcome.BLOCKED
            result = process.go_on()
            case.hold(isinstance(result, Run), Invariant.ERASURE, f"the driver of an erased run came to {result}")
            if not is_erased:
                case.act("somebody erases the run again")
                case.do(trial.machine().erase(trial.run))
            left = trial.store.inner.vault.get(trial.run)
            case.hold(not left, Invariant.ERASURE, f"the vault has {len(left)} values of a run that was erased")
            shown = not_gone(trial.reload())
            case.hold(not shown, Invariant.ERASURE, f"`{shown[:1]}` can be read after its erasure")
            case.hold(not trial.faults(), Invariant.REPLAY, "an erased run is called damaged")
        return outcome


class ResumeRacedWithCancel(Attack):
    """One process resumes a run while another one cancels it, in any order of their steps."""

    family = Family.TIME
    surface = "resume token"
    action = "delivered while the run is cancelled"
    invariant = Invariant.ENDINGS
    defence = "each append must follow the record that its writer has read, so only the first one succeeds"
    severity = "high"
    needs = (WAIT,)

    def play(self, case: Case) -> Outcome:
        """Let them race, and check that the run has one ending, on which all processes agree."""
        trial = Trial(case, faults=False)
        run = suspended(trial, trial.start())
        token = run.suspensions[0]
        payload = trial.payload(token.step)
        case.count(2)
        works = {
            "resume": lambda points: trial.machine(points).resume(token.token, payload, by=trial.settler),
            "cancel": lambda points: trial.machine(points).cancel(trial.run),
        }
        results = case.do(interleave(case, works))
        is_cancelled = isinstance(results["cancel"], Run)
        case.hold(is_cancelled, Invariant.ENDINGS, f"who cancelled got {results['cancel']!r}")
        is_known = isinstance(results["resume"], Run | DeliveryRefused)
        case.hold(is_known, Invariant.ENDINGS, f"who resumed got {results['resume']!r}")
        found = trial.reload()
        case.hold(found.is_over, Invariant.ENDINGS, f"a cancelled run is {found.status}")
        trial.oracle.judge(found)
        return Outcome.BLOCKED if isinstance(results["resume"], DeliveryRefused) else Outcome.ABSORBED


class _NoRenewal(WatchedStore):
    """A store that fails to renew leases, or renews them but reports a failure."""

    def __init__(self, inner: Journal, oracle: Oracle, *, is_done: bool) -> None:
        super().__init__(inner, oracle)
        self.asked: int | None = None
        self._is_done = is_done

    def renew(self, lease: Lease, now: float, ttl: float) -> Lease:
        """Fail, and record the number of calls so far."""
        if self._is_done:
            self.inner.renew(lease, now, ttl)
        if self.asked is None:
            self.asked = len(self.oracle.world.attempts)
        raise JournalError("the store does not answer")


class LeaseNotRenewed(DriverAttack):
    """A machine is paused for longer than its lease, at every point, and the store fails to renew the lease. A pause
    inside a tool is out of scope, as for `stale-driver`."""

    surface = "store"
    action = "the renewal of an expired lease fails"
    defence = "the machine calls nothing without a valid lease"

    def play(self, case: Case) -> Outcome:
        """Check that nothing is called after the failure, and that another machine ends the run."""
        from hypothesis import strategies as st

        is_done = case.pick("the store has renewed it all the same", st.booleans())
        outcome = Outcome.NOT_APPLICABLE
        for trial, process in self.stops(case, is_stale=True):
            watched = trial.store.inner
            store = _NoRenewal(watched, trial.oracle, is_done=is_done)
            case.log("its lease ends, and the store fails to renew it")
            original = trial.store.renew
            trial.store.renew = store.renew  # type: ignore[method-assign]
            result = process.go_on()
            trial.store.renew = original  # type: ignore[method-assign]
            if store.asked is not None:
                outcome = Outcome.BLOCKED
                is_kept = store.asked == len(trial.world.attempts)
                case.hold(is_kept, Invariant.DRIVER, "something was called under a lease that was over")
                is_said = isinstance(result, JournalError) and not isinstance(result, LeaseLost)
                case.hold(is_said, Invariant.DRIVER, f"the failure of the store was not told, but {result}")
            trial.outlive(trial.found() or trial.start())
        return outcome
