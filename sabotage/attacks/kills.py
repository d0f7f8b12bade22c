"""Crash, for real: processes with a store on the disk, killed by the system."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any, Final

from stepward.sabotage.attack import Attack, Family
from stepward.sabotage.images import memory_folder
from stepward.sabotage.invariants import Invariant, Outcome
from stepward.sabotage.killing import Forks
from stepward.sabotage.points import Points
from stepward.sabotage.scene import Scene
from stepward.sabotage.stage import Stage
from stepward.sabotage.target import Target

MOST_KILLS: Final = 100
"""Processes that one case kills at most: of a run with more points, which is a long one, every second, ... is taken."""


class Killed9(Attack):
    """The system kills the process for good; two others recover the run at once, and a last one ends it."""

    name = "sigkill"
    family = Family.CRASH
    surface = "operating system"
    action = "SIGKILL at a point of a run on a SQLite store, then two recoveries at once"
    invariant = Invariant.ONCE
    defence = "what a process had appended is in the file, whatever becomes of the process; one lease at a time"
    severity = "critical"
    enumerates = "every point of the run that was drawn; of a run with over 100, so many, evenly spaced"
    weight = 100

    def __init__(self) -> None:
        self._forks = Forks()

    def misses(self, target: Target) -> str | None:  # noqa: ARG002 - the platform decides
        """It needs processes that fork."""
        return None if hasattr(os, "fork") else "processes can't fork on this system"

    def play(self, stage: Stage) -> Outcome:
        """Run once in memory to count the points and to decide the answers, then for real."""
        from hypothesis import strategies as st

        whole = Points()
        scene = Scene(stage)
        driver = scene.machine(whole)
        scene.oracle.judge(scene.carry_on(scene.start(driver), driver))
        stage.story.clear()
        stride = -(-len(whole.passed) // MOST_KILLS)
        first = stage.pick("first point", st.integers(0, stride - 1))
        points = range(first, len(whole.passed), stride)
        made = dict(stage.choices.made)
        with memory_folder() as folder:
            for number in stage.each("killed at the point of number", len(points)):
                inner = folder / str(number)
                inner.mkdir()
                stage.tell(f"SIGKILL {whole.passed[points[number]]}")
                self._kill(stage, inner, made, points[number])
        return Outcome.ABSORBED

    def _kill(self, stage: Stage, folder: Path, made: dict[str, Any], point: int) -> None:
        target = stage.target
        (dead,) = self._forks.play(target, folder, made, "begin", kill=point)
        if dead.status != -signal.SIGKILL:
            dead.hold()
            stage.hold(False, Invariant.REPLAY, "the same run passes other points in another process")
        stage.count()
        racing = self._forks.play(target, folder, made, "recover", generation=1, processes=2)
        (last,) = self._forks.play(target, folder, made, "end", generation=2)
        for process in (*racing, last):
            stage.count(process.events)
            for line in process.story:
                stage.tell(line)
            process.hold()


ATTACKS: tuple[type[Attack], ...] = (Killed9,)
