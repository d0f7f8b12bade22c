"""Crash: the process dies, at every point and not at some; in recovery and while something is delivered, too."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

from stepward.sabotage.answers import Answer
from stepward.sabotage.attack import Attack, Family
from stepward.sabotage.interleaving import interleave
from stepward.sabotage.invariants import Invariant, Outcome
from stepward.sabotage.machines import Machine
from stepward.sabotage.points import Killed, Points
from stepward.sabotage.scene import LEASE_SECONDS, Scene
from stepward.sabotage.stage import Stage
from stepward.sabotage.target import Target
from stepward.sabotage.world import Asking
from stepward.vm.machine.refusals import DeliveryRefused, RunBusy
from stepward.vm.machine.run import Run


def wait_for_leases(scene: Scene) -> None:
    """Let so much time go by that no lease of a dead process lasts."""
    scene.oracle.forget()
    scene.clock.time += int(2 * LEASE_SECONDS * 1_000_000)


def killed_at(stage: Stage, number: int, *, faults: bool = True) -> tuple[Scene, Run | None]:
    """Start a run whose process is killed at a point; return it as the store has it, None where it is not there."""
    scene = Scene(stage, faults=faults)
    with suppress(Killed):
        scene.start(scene.machine(Points(number, stage.tell)))
    return scene, scene.found()


def states(points: Points) -> list[int]:
    """Return a point for each state in which a process can leave the store and the world: before anything, after each.

    What a process does between two of them stays inside of it.
    """
    return [number for number, name in enumerate(points.passed) if number == 0 or name.startswith("after")]


def refuse_needless_doubts(scene: Scene) -> None:
    """Raise Breach where a recovery is in doubt of something that can just be done again."""
    for record in scene.oracle.records:
        if record["kind"] == "doubt":
            call = scene.target.calls[record["body"]["step"]]
            is_honest = call.writes and not call.is_idempotent
            scene.stage.hold(is_honest, Invariant.KEPT, f"`{call.id}` is in doubt, and it can just be done again")


MAX_WAITS = 8
"""Deliveries after which a run is not carried on to look for more."""


class KilledAnywhere(Attack):
    """The process is killed before or after any append and any effect; another one recovers the run."""

    name = "killed-anywhere"
    family = Family.CRASH
    surface = "process"
    action = "killed at a point of a run"
    invariant = Invariant.ONCE
    defence = "the intent is durable before the effect starts, and a write that had started is in doubt"
    severity = "critical"
    enumerates = "every append and every effect of the run that was drawn, before and after"
    weight = 25

    def play(self, stage: Stage) -> Outcome:
        """Run once to count the points, then once for each of them."""
        whole = Points()
        scene = Scene(stage)
        scene.carry_on(scene.start(scene.machine(whole)), scene.machine())
        stage.story.clear()
        for number in stage.each("killed at point", len(whole.passed)):
            scene, run = killed_at(stage, number)
            wait_for_leases(scene)
            run = run or scene.start()
            if run.status == "RUNNING":
                run = scene.deliver(run, scene.machine())
            refuse_needless_doubts(scene)
            scene.outlive(run)
        return Outcome.ABSORBED


class KilledInRecovery(Attack):
    """The process is killed, and so is the one that recovers the run; a third one ends it."""

    name = "killed-in-recovery"
    family = Family.CRASH
    surface = "recovering process"
    action = "killed at a point of the recovery"
    invariant = Invariant.ONCE
    defence = "recovery is the same fold, intents and doubts are durable before anything follows from them"
    severity = "critical"
    enumerates = (
        "each state in which the run that was drawn can be left, and each in which its recovery can be left; "
        "tools that do not fail"
    )
    weight = 60

    def play(self, stage: Stage) -> Outcome:
        """Kill the run in each state, and its recovery in each."""
        whole = Points()
        scene = Scene(stage, faults=False)
        scene.start(scene.machine(whole))
        outcome = Outcome.NOT_APPLICABLE
        stage.story.clear()
        first = states(whole)
        for number in stage.each("state of the run", len(first)):
            again = Points()
            self._recover(stage, first[number], again)
            second = states(again)
            for inner in stage.each("state of the recovery", len(second)):
                scene = self._recover(stage, first[number], Points(second[inner], stage.tell))
                scene.outlive(scene.found() or scene.start())
                outcome = Outcome.ABSORBED
        return outcome

    def _recover(self, stage: Stage, number: int, points: Points) -> Scene:
        """Recover a run that was killed, by a process that passes points."""
        scene, run = killed_at(stage, number, faults=False)
        wait_for_leases(scene)
        machine = scene.machine(points)
        with suppress(Killed):
            if run is None:
                scene.start(machine)
            elif not run.is_over:
                scene.deliver(run, machine)
        return scene


def _stops(stage: Stage) -> int:
    """Return how often a run waits for somebody until it ends."""
    scene, run = _stopped(stage, 0)
    waits = 0
    while not run.is_over and waits < MAX_WAITS:
        run = scene.deliver(run, scene.machine())
        waits += 1
    stage.story.clear()
    return waits


def _stopped(stage: Stage, before: int) -> tuple[Scene, Run]:
    """Start a run, deliver what it waits for so many times, and return it where it waits again.

    Every write that is not idempotent is in doubt when it is made for the first time.
    """
    from hypothesis import strategies as st

    scene = Scene(stage, faults=False)
    how = stage.pick("what is unknown of a write", st.sampled_from(["unknown-done", "unknown"]))

    def decide(asking: Asking) -> Answer | None:
        call = asking.call
        is_unknown = call.writes and not call.is_idempotent and not scene.world.settled[call.id]
        return Answer(how) if is_unknown else None

    scene.world.decides.append(decide)
    run = scene.start()
    for _ in range(before):
        run = scene.deliver(run, scene.machine())
    return scene, run


class KilledWhileDelivering(Attack):
    """The process that resumes a run or settles a doubt is killed; the same is delivered again."""

    name = "killed-while-delivering"
    family = Family.CRASH
    surface = "delivering process"
    action = "killed at a point of a resumption or reconciliation, which is then delivered again"
    invariant = Invariant.DELIVERY
    defence = "what was delivered is durable before anything follows from it, and its token is used then"
    severity = "critical"
    enumerates = "every append and every effect of the delivery, before and after"
    weight = 8

    def misses(self, target: Target) -> str | None:
        """It needs a run that waits for somebody."""
        waits = target.waits or any(not call.is_idempotent for call in target.writes)
        return None if waits else "no run waits for a delivery"

    def play(self, stage: Stage) -> Outcome:
        """Deliver once to count the points, then once for each of them, and twice each time."""
        from hypothesis import strategies as st

        waits = _stops(stage)
        if not waits:
            return Outcome.NOT_APPLICABLE
        before = stage.pick("deliveries before", st.integers(0, waits - 1))
        scene, run = _stopped(stage, before)
        whole = Points()
        scene.deliver(run, scene.machine(whole))
        stage.story.clear()
        for number in stage.each("killed at point", len(whole.passed)):
            scene, run = _stopped(stage, before)
            with suppress(Killed):
                scene.deliver(run, scene.machine(Points(number, stage.tell)))
            wait_for_leases(scene)
            self._again(stage, scene, run)
            scene.outlive(scene.reload())
        return Outcome.ABSORBED

    def _again(self, stage: Stage, scene: Scene, before: Run) -> None:
        """Deliver the same again: taken where the store does not have it yet, refused where it has."""
        waiting = before.doubts[0].step if before.doubts else before.suspensions[0].step
        is_open = _waited_for(before)[0] in _waited_for(scene.reload())
        try:
            scene.deliver(before, scene.machine())
        except DeliveryRefused:
            stage.tell("the second delivery is refused")
            stage.hold(not is_open, Invariant.DELIVERY, f"`{waiting}` waits, and what is delivered is refused")
        else:
            stage.hold(is_open, Invariant.DELIVERY, f"`{waiting}` took the same delivery twice")


def _waited_for(run: Run) -> list[str]:
    """Return what a run waits for: keys of writes in doubt, and tokens."""
    return [*(doubt.key for doubt in run.doubts), *(suspension.token for suspension in run.suspensions)]


class KilledWhileEnding(Attack):
    """The process that cancels or erases a run is killed; the same is asked for again."""

    name = "killed-while-ending"
    family = Family.CRASH
    surface = "cancelling or erasing process"
    action = "killed at a point of a cancellation or erasure, which is then asked for again"
    invariant = Invariant.ERASURE
    defence = "the request is durable before the run ends, and the tombstone before the values are destroyed"
    severity = "high"
    enumerates = "every append and every write of the vault of the cancellation or erasure, before and after"
    weight = 8

    def play(self, stage: Stage) -> Outcome:
        """Cancel or erase a run once to count the points, then once for each of them, and twice each time."""
        from hypothesis import strategies as st

        what = stage.pick("what is asked for", st.sampled_from(["erase", "cancel"]))
        whole = Points()
        scene, run = self._begun(stage)
        if what == "cancel" and run.is_over:
            return Outcome.NOT_APPLICABLE
        stage.do(_asked(what, scene.machine(whole), run))
        stage.story.clear()
        for number in stage.each("killed at point", len(whole.passed)):
            scene, run = self._begun(stage)
            effects = len(scene.world.effects)
            secrets = set(scene.store.vault.get(run.id))
            stage.tell(f"{what} the run")
            with suppress(Killed):
                stage.do(_asked(what, scene.machine(Points(number, stage.tell)), run))
            wait_for_leases(scene)
            stage.tell(f"{what} the run again")
            stage.count()
            self._judge(stage, scene, stage.do(_asked(what, scene.machine(), run)), what, secrets)
            stage.hold(len(scene.world.effects) == effects, Invariant.ENDINGS, "something happened while the run ended")
        return Outcome.ABSORBED

    def _begun(self, stage: Stage) -> tuple[Scene, Run]:
        """Return a run that has ended, that waits, or whose process died, as was drawn."""
        from hypothesis import strategies as st

        dies = stage.pick("the process died at point", st.integers(0, 24))
        scene = Scene(stage, faults=False)
        try:
            return scene, scene.start(scene.machine(Points(dies or None, stage.tell)))
        except Killed:
            wait_for_leases(scene)
            return scene, scene.found() or scene.start()

    def _judge(self, stage: Stage, scene: Scene, run: Run, what: str, secrets: set[str]) -> None:
        stage.hold(run.is_over, Invariant.ENDINGS, f"the run is {run.status} after somebody asked to {what} it")
        scene.oracle.look()
        read = scene.reload()
        stage.hold(read.snapshot() == run.snapshot(), Invariant.REPLAY, "the run, read again, is another one")
        faults = scene.faults()
        stage.hold(not faults, Invariant.REPLAY, f"an honest journal is called damaged: {faults[:1]}")
        if what == "erase":
            stage.hold(not scene.store.vault.get(run.id), Invariant.ERASURE, "the vault still has what was erased")
            gone = {name for record in scene.oracle.records for name in record["body"].get("references", ())}
            values = {name for name in secrets if not name.startswith("token:")}
            stage.hold(values <= gone, Invariant.ERASURE, "what was erased has no tombstone")


def _asked(what: str, machine: Machine, run: Run) -> Coroutine[Any, Any, Run]:
    return machine.cancel(run.id) if what == "cancel" else machine.erase(run.id)


class TwoRecoveries(Attack):
    """The process is killed, and two others recover the run at once, one step of each at a time."""

    name = "two-recoveries"
    family = Family.CRASH
    surface = "two recovering processes"
    action = "both at one run whose process was killed, interleaved"
    invariant = Invariant.DRIVER
    defence = "one lease at a time, and appends only behind the entry and the fence that their writer knows"
    severity = "critical"
    weight = 3

    def play(self, stage: Stage) -> Outcome:
        """Kill the run at a point, recover it twice at once, and carry on."""
        from hypothesis import strategies as st

        whole = Points()
        scene = Scene(stage, faults=False)
        scene.start(scene.machine(whole))
        stage.story.clear()
        appends = [number for number in states(whole) if "append" in whole.passed[number]]
        found = range(appends[0], appends[-1])
        if not found:
            return Outcome.NOT_APPLICABLE
        scene, run = killed_at(stage, stage.pick("killed at point", st.sampled_from(found)), faults=False)
        assert run is not None, "it was made before"
        wait_for_leases(scene)
        machines: dict[str, Callable[[Points], Coroutine[Any, Any, Any]]] = {
            name: lambda points: scene.machine(points).recover(scene.run) for name in ("A", "B")
        }
        stage.count(2)
        results = stage.do(interleave(stage, machines))
        busy = [name for name, result in results.items() if isinstance(result, RunBusy)]
        for name, result in results.items():
            is_known = isinstance(result, list | RunBusy)
            stage.hold(is_known, Invariant.REFUSAL, f"the recovery by {name} ends with {result!r}")
        scene.outlive(scene.reload())
        return Outcome.BLOCKED if busy else Outcome.ABSORBED


ATTACKS: tuple[type[Attack], ...] = (
    KilledAnywhere,
    KilledInRecovery,
    KilledWhileDelivering,
    KilledWhileEnding,
    TwoRecoveries,
)
