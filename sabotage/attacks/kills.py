"""Crash, for real: processes with a store on the disk, killed by the system."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any, Final

from stepward.sabotage.attack import Attack, Family, Need
from stepward.sabotage.campaigns.killing import Forks
from stepward.sabotage.invariants import Invariant, Outcome
from stepward.sabotage.playing.case import Case
from stepward.sabotage.playing.points import Points
from stepward.sabotage.playing.trial import Trial
from stepward.sabotage.stores.images import memory_folder

MOST_KILLS: Final = 100
"""The largest number of processes that one case kills. For a run with more points, evenly spaced ones are taken."""


class Sigkill(Attack):
    """The system kills the process; two others recover the run at the same time, and a last one ends it."""

    family = Family.CRASH
    surface = "operating system"
    action = "SIGKILL at a point of a run on a SQLite store, then two recoveries at once"
    invariant = Invariant.ONCE
    defence = "appended records are in the file even if the process dies, and there is one lease at a time"
    enumerates = "every point of the generated run, or 100 evenly spaced points if it has more"
    weight = 100
    needs = (Need("processes can't fork on this system", lambda _: hasattr(os, "fork")),)

    def __init__(self) -> None:
        self._forks = Forks()

    def play(self, case: Case) -> Outcome:
        """Run once in memory to count the points and to decide the answers, then for real."""
        from hypothesis import strategies as st

        whole = Points()
        trial = Trial(case)
        driver = trial.machine(whole)
        trial.oracle.judge(trial.carry_on(trial.start(driver), driver))
        case.story.clear()
        stride = -(-len(whole.passed) // MOST_KILLS)
        first = case.pick("first point", st.integers(0, stride - 1))
        points = range(first, len(whole.passed), stride)
        decisions = dict(case.choices.decisions)
        with memory_folder() as folder:
            for number in case.each("killed at the point of number", range(len(points))):
                inner = folder / str(number)
                inner.mkdir()
                case.log(f"SIGKILL {whole.passed[points[number]]}")
                self._kill(case, inner, decisions, points[number])
        return Outcome.ABSORBED

    def _kill(self, case: Case, folder: Path, decisions: dict[str, Any], point: int) -> None:
        target = case.target
        (dead,) = self._forks.play(target, folder, decisions, "begin", kill=point)
        if dead.status != -signal.SIGKILL:
            dead.hold()
            case.hold(False, Invariant.REPLAY, "the same run passes other points in another process")
        case.count()
        racing = self._forks.play(target, folder, decisions, "recover", generation=1, processes=2)
        (last,) = self._forks.play(target, folder, decisions, "end", generation=2)
        for process in (*racing, last):
            case.count(process.events)
            for line in process.story:
                case.log(line)
            process.hold()
