"""Runs that are killed for real; a helper that is run as a script, no tests stand here.

One warm interpreter forks a process for each kill point: the fork opens the journal, runs the program, and kills itself
with SIGKILL at that point. Two more forks recover the run at once, another drives it to its end. What happened in the
world is what the recorder says (`crash_world.py`), and `judge` holds the machine's word against it.

    python tests/support/crash_child.py '{"folder": "/somewhere", "program": "every"}'
"""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from crash_judge import erased, judge, records_of, told
from crash_world import (
    Hasty,
    Ticker,
    TickingJournal,
    World,
    forked,
    waited_for,
    why_failed,
)
from sizes import MANY
from stepward.vm import SQLiteJournal


class Campaign:
    """All trials of one program: `spec` names it, and which share of its kill points is wanted.

    A canary seeks a fault: with `sought` and a number the campaign ends once so many faults have that text.
    """

    def __init__(self, spec: Mapping[str, Any]) -> None:
        self.folder = Path(spec["folder"])
        self.name = spec["program"]
        self.mode = spec.get("mode", "inline")
        self.share, self.shares = spec.get("share", (0, 1))
        self.depth, self.deepest = spec.get("depth", (0, 0))
        self.only = spec.get("only", "")
        self.sought, self.enough = spec.get("sought", ("", 0))
        self.shelf = Hasty if spec.get("without") == "intents" else TickingJournal
        self.trials = 0
        self.killed = 0
        self.faults: list[str] = []
        self.world("rehearsal").rehearse()
        world = self.world("reference")
        self.points = self.counted(world, world.begin)
        assert waited_for(forked(world.folder, world.finish, 1)) == 0, why_failed(world.folder)
        self.reference = world.ended()
        self.expected = world.recorder.effects()

    def world(self, name: str) -> World:
        folder = self.folder / name
        folder.mkdir(parents=True)
        return World(folder, self.name, self.mode, self.shelf)

    @property
    def has_enough(self) -> bool:
        """Whether the faults that a canary seeks were found."""
        return 0 < self.enough <= sum(self.sought in fault for fault in self.faults)

    def counted(self, world: World, work: Callable[..., None], *args: Any) -> list[str]:
        """Do some work in a process that is not killed, and return the points that it passed."""
        path = world.folder / f"points-{work.__name__}"
        pid = forked(world.folder, lambda: work(*args, Ticker(0, path)))
        assert waited_for(pid) == 0, why_failed(world.folder)
        return path.read_text().splitlines()

    def run(self) -> None:
        for number in range(1, len(self.points) + 1):
            if number % self.shares == self.share and self.only in self.points[number - 1] and not self.has_enough:
                self.trial(number)

    def trial(self, number: int) -> None:
        """Kill the run at a point, and recover it by two processes at once; then again, and kill the recovery too."""
        where = f"{number} ({self.points[number - 1]})"
        world = self.world(f"{number}")
        self.kill(world, world.begin, number)
        self.race(world, 1)
        self.end(world, 2, where)
        # An effect without an outcome is where recovery has most to do.
        depth = self.deepest if "behind" in where else self.depth
        for again in range(1, depth + 1):
            world = self.world(f"{number}-{again}")
            self.kill(world, world.begin, number)
            if not self.kill(world, world.finish, 1, again):
                break
            self.race(world, 2)
            self.end(world, 3, f"{where}, in recovery at {again}")

    def kill(self, world: World, work: Callable[..., None], *args: int) -> bool:
        """Do some work in a process that is killed at a point, and return whether it came there."""
        *given, target = args
        status = waited_for(forked(world.folder, lambda: work(*given, Ticker(target))))
        if status not in (0, -signal.SIGKILL):
            self.faults.append(f"{world.folder.name}: {why_failed(world.folder)}")
        self.killed += status == -signal.SIGKILL
        return status == -signal.SIGKILL

    def race(self, world: World, hours: int) -> None:
        """Let two processes recover the run at once."""
        ready, start = os.pipe(), os.pipe()

        def racer() -> None:
            os.close(start[1])
            os.write(ready[1], b".")
            os.read(start[0], 1)  # returns when the parent closes its end
            world.recover(hours, lambda point: None)

        racers = [forked(world.folder, racer) for _ in range(2)]
        for _ in racers:
            os.read(ready[0], 1)
        os.close(start[1])
        statuses = [waited_for(pid) for pid in racers]
        for end in (*ready, start[0]):
            os.close(end)
        if any(statuses):
            self.faults.append(f"{world.folder.name}: {why_failed(world.folder)}")

    def end(self, world: World, hours: int, where: str) -> None:
        """Drive the run to its end, and judge it."""
        self.trials += 1
        faults = told(world)
        if waited_for(forked(world.folder, world.finish, hours)):
            faults.append(why_failed(world.folder))
        else:
            faults += judge(world, self.reference, self.expected)
        self.faults += [f"{where}: {fault}" for fault in faults]


class Endings(Campaign):
    """Kills whoever cancels or erases a run that waits, or that is in doubt.

    By day each of them is killed at every second point: at the odd ones of a run that waits, else at the even ones.
    """

    def run(self) -> None:
        for work in ("cancel", "erase"):
            for first, start in enumerate(("suspended", "in doubt"), 1):
                number = 1 if MANY else first
                while self.ending(start, work, number):
                    number += 1 if MANY else 2

    def ending(self, start: str, work: str, number: int) -> bool:
        """Kill a process that cancels or erases at a point; return whether it came there."""
        where = f"{work} of a run that is {start}, killed at {number}"
        world = self.world(where.replace(" ", "-"))
        world.has_manager = start == "in doubt"
        self.kill(world, world.begin, self.points.index("behind issue_refund") + 1 if world.has_manager else 0)
        if world.has_manager:
            self.race(world, 1)
        happened = world.recorder.effects()
        is_killed = self.kill(world, getattr(world, work), 2, number)
        self.race(world, 3)
        with closing(SQLiteJournal(world.folder / "runs.db")) as journal:
            status, asked = journal.rows()[0].status, [record["kind"] for record in records_of(journal)].count("cancel")
        faults = [f"asked to cancel {asked} times"] if asked > 1 else []
        if asked and status != "CANCELLED":
            faults.append(f"stuck: somebody asked to cancel, and the run is {status}")
        if waited_for(forked(world.folder, lambda: world.erase(4, lambda point: None))):
            faults.append((world.folder / "errors").read_text())
        faults += erased(world, ["refund"] if world.has_manager else [])
        if world.recorder.effects() != happened:
            faults.append("something happened while the run was ended")
        self.trials += 1
        self.faults += [f"{where}: {fault}" for fault in faults]
        return is_killed


def main() -> None:
    spec = json.loads(sys.argv[1])
    gc.freeze()  # what every fork shares is not to be copied by its collector
    campaign = (Endings if spec.get("endings") else Campaign)(spec)
    campaign.run()
    said = {"points": campaign.points, "trials": campaign.trials, "killed": campaign.killed, "faults": campaign.faults}
    print(json.dumps(said))


if __name__ == "__main__":
    main()
