"""Crash: the process dies, the disk fails, the power goes; at every point, not at some."""

from __future__ import annotations

from stepward.sabotage.attack import Attack, Family
from stepward.sabotage.invariants import Invariant, Outcome
from stepward.sabotage.points import Killed, Points
from stepward.sabotage.stage import Stage


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
    weight = 10

    def play(self, stage: Stage) -> Outcome:
        """Run once to count the points, then once for each of them."""
        whole = Points()
        scene = stage.scene()
        scene.carry_on(scene.start(scene.machine(whole)), scene.machine())
        stage.story.clear()
        for number in stage.each("killed at point", len(whole.passed)):
            scene = stage.scene()
            try:
                run = scene.start(scene.machine(Points(number, stage.tell)))
            except Killed:
                run = scene.found() or scene.start()
            scene.outlive(run)
        return Outcome.ABSORBED


ATTACKS: tuple[type[Attack], ...] = (KilledAnywhere,)
