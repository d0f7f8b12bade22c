"""Crash: the process dies at every point of a run, of a recovery, or of a delivery."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from stepward.sabotage.attack import Attack, Family, Need
from stepward.sabotage.invariants import Invariant, Outcome
from stepward.sabotage.playing.answers import CallAnswer
from stepward.sabotage.playing.case import Case
from stepward.sabotage.playing.interleaving import interleave
from stepward.sabotage.playing.machines import Machine
from stepward.sabotage.playing.points import Killed, Points
from stepward.sabotage.playing.trial import LEASE_SECONDS, Trial
from stepward.sabotage.playing.world import Asking
from stepward.vm.machine.keys import shown
from stepward.vm.machine.refusals import DeliveryRefused, RunBusy
from stepward.vm.machine.run import Run


def wait_for_leases(trial: Trial) -> None:
    """Wait until every lease of a dead process has expired."""
    trial.oracle.forget()
    trial.clock.time += int(2 * LEASE_SECONDS * 1_000_000)


def killed_at(case: Case, number: int, *, faults: bool = True) -> tuple[Trial, Run | None]:
    """Start a run whose process is killed at a point. Return the run in the store, or None if it is not there."""
    trial = Trial(case, faults=faults)
    with suppress(Killed):
        trial.start(trial.machine(Points(number, case.log)))
    return trial, trial.found()


def states(points: Points) -> list[int]:
    """Return one point for each state in which a process can leave the store and the world.

    Between two such points a process changes only its own memory.
    """
    return [number for number, name in enumerate(points.passed) if number == 0 or name.startswith("after")]


def refuse_needless_doubts(trial: Trial) -> None:
    """Raise Breach if a recovery reports a doubt about an effect that can simply be repeated."""
    for record in trial.oracle.records:
        if record["kind"] == "doubt":
            call = trial.target.calls[record["body"]["step"]]
            is_honest = call.writes and not call.is_idempotent
            trial.case.hold(is_honest, Invariant.KEPT, f"`{call.id}` is in doubt, and it can just be done again")


def outlive(trial: Trial) -> None:
    """Let another process recover a run from the current store, and check that it ends as predicted."""
    wait_for_leases(trial)
    run = trial.found() or trial.start()
    if run.status == "RUNNING":
        run = trial.deliver(run, trial.machine())
    refuse_needless_doubts(trial)
    trial.outlive(run)


MAX_WAITS = 8
"""The largest number of deliveries in the search for waiting steps."""


class KilledAnywhere(Attack):
    """The process is killed before or after any append or effect, and another one recovers the run."""

    family = Family.CRASH
    surface = "process"
    action = "killed at a point of a run"
    invariant = Invariant.ONCE
    defence = "the intent is durable before the effect starts, and a write that had started is in doubt"
    enumerates = "the points before and after every append and every effect of the generated run"
    weight = 25

    def play(self, case: Case) -> Outcome:
        """Run once to count the points, then once for each of them."""
        whole = Trial(case).rehearse()
        for number in case.each("killed at point", range(len(whole.passed))):
            outlive(killed_at(case, number)[0])
        return Outcome.ABSORBED


class KilledInRecovery(Attack):
    """The process is killed, and so is the one that recovers the run; a third one ends it."""

    family = Family.CRASH
    surface = "recovering process"
    action = "killed at a point of the recovery"
    invariant = Invariant.ONCE
    defence = (
        "recovery computes the state in the same manner, and intents and doubts are durable before the run continues"
    )
    enumerates = "each state in which the generated run or its recovery can stop, with tools that do not fail"
    weight = 60

    def play(self, case: Case) -> Outcome:
        """Kill the run in each state, and its recovery in each."""
        outcome = Outcome.NOT_APPLICABLE
        first = states(Trial(case, faults=False).rehearse(to_its_end=False))
        for number in case.each("state of the run", first):
            again = Points()
            self._recover(case, number, again)
            for inner in case.each("state of the recovery", states(again)):
                trial = self._recover(case, number, Points(inner, case.log))
                trial.outlive(trial.found() or trial.start())
                outcome = Outcome.ABSORBED
        return outcome

    def _recover(self, case: Case, number: int, points: Points) -> Trial:
        """Recover a run that was killed, by a process that passes points."""
        trial, run = killed_at(case, number, faults=False)
        wait_for_leases(trial)
        machine = trial.machine(points)
        with suppress(Killed):
            if run is None:
                trial.start(machine)
            elif not run.is_over:
                trial.deliver(run, machine)
        return trial


def _stops(case: Case) -> int:
    """Return how often a run waits until it ends."""
    trial, run = _stopped(case, 0)
    waits = 0
    while not run.is_over and waits < MAX_WAITS:
        run = trial.deliver(run, trial.machine())
        waits += 1
    case.story.clear()
    return waits


def _stopped(case: Case, before: int) -> tuple[Trial, Run]:
    """Start a run, make a number of deliveries, and return it where it waits again.

    The first performance of every write that is not idempotent is in doubt.
    """
    from hypothesis import strategies as st

    trial = Trial(case, faults=False)
    how = case.pick("what is unknown of a write", st.sampled_from(["unknown-done", "unknown"]))

    def decide(asking: Asking) -> CallAnswer | None:
        call = asking.call
        is_unknown = call.writes and not call.is_idempotent and not trial.world.settled[shown(asking.frame, call.id)]
        return CallAnswer(how) if is_unknown else None

    trial.world.decides.append(decide)
    run = trial.start()
    for _ in range(before):
        run = trial.deliver(run, trial.machine())
    return trial, run


class KilledWhileDelivering(Attack):
    """The process that resumes a run or settles a doubt is killed, and the delivery is repeated."""

    family = Family.CRASH
    surface = "delivering process"
    action = "killed at a point of a resumption or reconciliation, and the delivery repeated"
    invariant = Invariant.DELIVERY
    defence = "a delivery is durable before the run continues, and its token is then used"
    enumerates = "the points before and after every append and every effect of the delivery"
    weight = 8
    needs = (
        Need(
            "no run waits for a delivery",
            lambda target: target.waits or any(not call.is_idempotent for call in target.writes),
        ),
    )

    def play(self, case: Case) -> Outcome:
        """Deliver once to count the points, then once for each of them, and twice each time."""
        from hypothesis import strategies as st

        case.choices.decisions.setdefault("there is an answer in time", True)  # time that passes is no delivery
        waits = _stops(case)
        case.needs(waits)
        before = case.pick("deliveries before", st.integers(0, waits - 1))
        trial, run = _stopped(case, before)
        case.needs(trial.answers(run))
        whole = Points()
        trial.deliver(run, trial.machine(whole))
        case.story.clear()
        for number in case.each("killed at point", range(len(whole.passed))):
            trial, run = _stopped(case, before)
            with suppress(Killed):
                trial.deliver(run, trial.machine(Points(number, case.log)))
            wait_for_leases(trial)
            self._again(case, trial, run)
            trial.outlive(trial.reload())
        return Outcome.ABSORBED

    def _again(self, case: Case, trial: Trial, before: Run) -> None:
        """Repeat a delivery, and check that it is refused if and only if the store already has it."""
        waiting = before.doubts[0].step if before.doubts else before.suspensions[0].step
        is_late = before.due is not None and trial.clock.time >= before.due * 1e6
        is_open = not is_late and _waited_for(before)[0] in _waited_for(trial.reload())
        try:
            trial.deliver(before, trial.machine())
        except DeliveryRefused:
            case.log("the second delivery is refused")
            case.hold(not is_open, Invariant.DELIVERY, f"`{waiting}` waits, and what is delivered is refused")
        else:
            case.hold(is_open, Invariant.DELIVERY, f"`{waiting}` took the same delivery twice")


def _waited_for(run: Run) -> list[str]:
    """Return the keys of writes in doubt and the tokens that a run waits for."""
    return [*(doubt.key for doubt in run.doubts), *(suspension.token for suspension in run.suspensions)]


class KilledWhileEnding(Attack):
    """The process that cancels or erases a run is killed. Another one recovers all runs, and the request is made
    again."""

    family = Family.CRASH
    surface = "cancelling or erasing process"
    action = "killed at a point of a cancellation or erasure, and the request repeated"
    invariant = Invariant.ERASURE
    defence = (
        "the request is durable before the run ends, and the record of the erasure before the values are destroyed"
    )
    severity = "high"
    enumerates = "the points before and after every append and every vault write of the cancellation or erasure"
    weight = 8

    def play(self, case: Case) -> Outcome:
        """Cancel or erase a run once to count the points, then once for each of them, and twice each time."""
        from hypothesis import strategies as st

        what = case.pick("what is asked for", st.sampled_from(["erase", "cancel"]))
        whole = Points()
        trial, run = self._start(case)
        case.needs(what != "cancel" or not run.is_over)
        case.do(_request(what, trial.machine(whole), run))
        case.story.clear()
        for number in case.each("killed at point", range(len(whole.passed))):
            trial, run = self._start(case)
            effects = len(trial.world.effects)
            secrets = set(trial.store.vault.get(run.id))
            case.log(f"{what} the run")
            with suppress(Killed):
                case.do(_request(what, trial.machine(Points(number, case.log)), run))
            wait_for_leases(trial)
            found = trial.reload()
            if found.status == "RUNNING" and any(record["kind"] == "cancel" for record in trial.oracle.records):
                trial.recovered()
            case.act(f"{what} the run again")
            self._judge(case, trial, case.do(_request(what, trial.machine(), run)), what, secrets)
            case.hold(len(trial.world.effects) == effects, Invariant.ENDINGS, "something happened while the run ended")
        return Outcome.ABSORBED

    def _start(self, case: Case) -> tuple[Trial, Run]:
        """Return a run that has ended, that waits, or whose process died, chosen by the attack."""
        from hypothesis import strategies as st

        dies = case.pick("the process died at point", st.integers(0, 24))
        trial = Trial(case, faults=False)
        try:
            return trial, trial.start(trial.machine(Points(dies or None, case.log)))
        except Killed:
            wait_for_leases(trial)
            return trial, trial.found() or trial.start()

    def _judge(self, case: Case, trial: Trial, run: Run, what: str, secrets: set[str]) -> None:
        case.hold(run.is_over, Invariant.ENDINGS, f"the run is {run.status} after somebody asked to {what} it")
        trial.oracle.look()
        read = trial.reload()
        case.hold(read.snapshot() == run.snapshot(), Invariant.REPLAY, "the run, read again, is another one")
        faults = trial.faults()
        case.hold(not faults, Invariant.REPLAY, f"an honest journal is called damaged: {faults[:1]}")
        if what == "erase":
            case.hold(not trial.store.vault.get(run.id), Invariant.ERASURE, "the vault still has what was erased")
            erased = {name for record in trial.oracle.records for name in record["body"].get("references", ())}
            values = {name for name in secrets if not name.startswith("token:")}
            case.hold(values <= erased, Invariant.ERASURE, "what was erased has no tombstone")


def _request(what: str, machine: Machine, run: Run) -> Coroutine[Any, Any, Run]:
    return machine.cancel(run.id) if what == "cancel" else machine.erase(run.id)


class TwoRecoveries(Attack):
    """The process is killed, and two others recover the run at the same time, interleaved step by step."""

    family = Family.CRASH
    surface = "two recovering processes"
    action = "both recover one run whose process was killed, interleaved"
    invariant = Invariant.DRIVER
    defence = (
        "there is one lease at a time, and an append must follow the last record and the fencing number that its "
        "writer knows"
    )
    weight = 3

    def play(self, case: Case) -> Outcome:
        """Kill the run at a point, recover it twice at once, and carry on."""
        from hypothesis import strategies as st

        whole = Trial(case, faults=False).rehearse(to_its_end=False)
        appends = [number for number in states(whole) if "append" in whole.passed[number]]
        found = range(appends[0], appends[-1])
        case.needs(found)
        trial, run = killed_at(case, case.pick("killed at point", st.sampled_from(found)), faults=False)
        assert run is not None, "it was made before"
        wait_for_leases(trial)
        machines: dict[str, Callable[[Points], Coroutine[Any, Any, Any]]] = {
            name: lambda points: trial.machine(points).recover(trial.run) for name in ("A", "B")
        }
        case.count(2)
        results = case.do(interleave(case, machines))
        busy = [name for name, result in results.items() if isinstance(result, RunBusy)]
        for name, result in results.items():
            is_known = isinstance(result, list | RunBusy)
            case.hold(is_known, Invariant.REFUSAL, f"the recovery by {name} ends with {result!r}")
        trial.outlive(trial.reload())
        return Outcome.BLOCKED if busy else Outcome.ABSORBED
