"""Two processes at one run; a helper that is run as a script, no tests stand here.

    python tests/support/race_child.py '{"folder": "/somewhere", "scenario": "paused"}'

Each scenario prints a list of what went wrong, and how often it was tried. Processes are forks of this one, and the
judge is that of `crash_child.py`.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from crash_child import Campaign
from crash_judge import records_of, settled_keys, told
from crash_programs import APPROVAL
from crash_world import RUN, TOOLS, Ticker, TickingJournal, World, forked, waited_for
from sizes import MANY, size
from stepward.vm import DeliveryRefused, ExecutionVM, SQLiteJournal
from stepward.vm.journal.store import Append, AppendConflict, Lease, LeaseLost
from stepward.vm.journal.verify import verify
from stepward.vm.machine.replay import replayer

CALLERS = 10
SHORT_LEASE = 0.05


class Watched(TickingJournal):
    """Notes what became of each append, in a file that the parent reads."""

    path: Path

    def append(self, append: Append, fence: int | None) -> None:
        try:
            super().append(append, fence)
        except (LeaseLost, AppendConflict) as error:
            self.note(type(error).__name__)
            raise
        self.note("appended")

    def renew(self, lease: Lease, *args: Any) -> Lease:
        try:
            return self.inner.renew(lease, *args)
        except LeaseLost:
            self.note("not renewed")
            raise

    def note(self, what: str) -> None:
        with self.path.open("a") as file:
            file.write(f"{os.getpid()} {what}\n")


class Fenceless(Watched):
    """A store that has lost its fence: the canary."""

    def append(self, append: Append, fence: int | None) -> None:
        super().append(append, None)

    def renew(self, lease: Lease, now: float, ttl: float) -> Lease:
        return lease._replace(expires=now + ttl)


class Races(Campaign):
    """Trials with two processes, on the points of one program."""

    def __init__(self, spec: dict[str, Any]) -> None:
        super().__init__({"program": "refund" if spec.get("scenario") == "one_token" else "every", **spec})
        self.shelf = Fenceless if spec.get("without") == "fence" else Watched

    def world(self, name: str) -> World:
        world = super().world(name)
        if hasattr(self.shelf, "note"):
            world.shelf = type("Noted", (self.shelf,), {"path": world.folder / "notes"})
        return world

    def notes(self, world: World, pid: int) -> list[str]:
        path = world.folder / "notes"
        lines = [line.split(" ", 1) for line in path.read_text().splitlines()] if path.exists() else []
        return [what for number, what in lines if int(number) == pid]

    # -- a driver that is paused, and comes back to life ---------------------------------------------------------------

    def stopped(self, world: World, work: Callable[..., None], *args: Any) -> int | None:
        """Start a process that stops itself at a point, and return its id; None where it never came there."""
        pid = forked(world.folder, lambda: work(*args))
        _, status = os.waitpid(pid, os.WUNTRACED)
        return pid if os.WIFSTOPPED(status) else None

    def go_on(self, world: World, pid: int) -> None:
        os.kill(pid, signal.SIGCONT)
        if waited_for(pid):
            self.faults.append(f"{world.folder.name}: {(world.folder / 'errors').read_text()}")

    def paused(self) -> None:
        """Pause the driver past its lease at each point, let another process recover the run, and wake the first."""
        for number, point in enumerate(self.points, 1):
            if self.only not in point or self.has_enough or not self.has_turn(number):
                continue
            # Nobody can call back a tool that has been called: then the person who is asked must wait for it.
            is_in_tool = point.startswith("before ") and point.split()[1] in TOOLS
            # By day it waits at some of them, and does not at the others; the canary tries both.
            is_both = MANY or self.only
            waits = number % 4 < 2
            if is_in_tool or is_both or waits:
                self.pause(number, point, waits=True)
            if not is_in_tool and (is_both or not waits):
                self.pause(number, point, waits=False)

    def has_turn(self, number: int) -> bool:
        """Return whether a point is tried: all by night and by a canary, by day every third."""
        return bool(MANY or self.only or number % 3 == 1)

    def pause(self, number: int, point: str, *, waits: bool) -> None:
        world = self.world(f"paused-{number}-{waits}")
        world.lease_seconds = SHORT_LEASE
        pid = self.stopped(world, world.begin, Ticker(number, how=signal.SIGSTOP))
        assert pid is not None, point
        time.sleep(SHORT_LEASE)
        other = world.recover if waits else world.finish
        if waited_for(forked(world.folder, lambda: other(1, lambda _: None))):
            self.faults.append((world.folder / "errors").read_text())
        before = len(self.notes(world, pid))
        has_run = self.has_run(world)
        self.go_on(world, pid)
        late = self.notes(world, pid)[before:]
        where = f"{number} ({point}), paused"
        if has_run and "appended" in late[point.startswith("after append") :]:
            self.faults.append(f"{where}: it appended after its lease was over: {late}")
        self.end(world, 2, where)

    def has_run(self, world: World) -> bool:
        with closing(SQLiteJournal(world.folder / "runs.db")) as journal:
            return bool(journal.rows())

    def taken(self) -> None:
        """Two drivers at once, of whom the newer has not yet appended anything: the fence alone tells them apart."""
        for number, point in enumerate(self.points, 1):
            if point not in ("behind mail", "after mail") or self.has_enough:
                continue
            world = self.world(f"taken-{number}")
            world.lease_seconds = SHORT_LEASE
            first = self.stopped(world, world.begin, Ticker(number, how=signal.SIGSTOP))
            assert first is not None
            time.sleep(SHORT_LEASE)
            # Its recovery repeats the mail, and is stopped in there: acquire has two points, the tool comes third.
            tick = Ticker(3, how=signal.SIGSTOP)
            second = self.stopped(world, world.recover, 1, tick)
            assert second is not None
            before = len(self.notes(world, first))
            self.go_on(world, first)
            late = self.notes(world, first)[before:]
            self.go_on(world, second)
            where = f"{number} ({point}), taken over"
            if "LeaseLost" not in late or "appended" in late:
                self.faults.append(f"{where}: the first driver came back to life: {late}")
            self.end(world, 2, where)

    # -- somebody cancels ---------------------------------------------------------------

    def cancelled(self) -> None:
        """Stop the driver at each point; another process asks for the run to be cancelled; the driver has to do it."""
        for number, point in enumerate(self.points, 1):
            if not self.has_turn(number):
                continue
            world = self.world(f"cancelled-{number}")
            pid = self.stopped(world, world.begin, Ticker(number, how=signal.SIGSTOP))
            assert pid is not None, point
            has_run = self.has_run(world)
            if has_run and waited_for(forked(world.folder, lambda world=world: world.cancel(0, lambda _: None))):
                self.faults.append((world.folder / "errors").read_text())
            begun = len(world.recorder.effects())
            self.go_on(world, pid)
            self.trials += 1
            # Once the last call is under way nothing is left to be cancelled.
            last = max(index for index, name in enumerate(self.points, 1) if "append" in name and "intent" in name)
            wanted = "SUCCESS" if number >= last or not has_run else "CANCELLED"
            faults = self.ended_as(world, wanted)
            if wanted == "CANCELLED" and len(world.recorder.effects()) > begun + 1:
                faults.append("it went on for more than the effect that was under way")
            self.faults += [f"{number} ({point}), cancelled: {fault}" for fault in faults]

    def ended_as(self, world: World, wanted: str) -> list[str]:
        faults = told(world)
        with closing(SQLiteJournal(world.folder / "runs.db")) as journal:
            verdict = verify(journal, RUN, replay=replayer(journal, RUN))
            row, records = journal.rows()[0], records_of(journal)
        faults += [f"verify: {fault}" for fault in verdict.faults]
        if row.status != wanted:
            faults.append(f"the run is {row.status}, not {wanted}")
        settled, _ = settled_keys(records)
        happened = Counter(effect.what for effect in world.recorder.effects())
        faults += [f"doubled: {what}" for what, times in happened.items() if times > 1]
        keys = {effect.key for effect in world.recorder.effects()}
        faults += [f"lost: {key}" for key, how in settled.items() if how == "success" and key not in keys]
        return faults

    # -- many callers ---------------------------------------------------------------

    def together(self, world: World, work: Callable[[], Any]) -> list[list[Any]]:
        """Do the same in two processes at once, each with many callers, and return what the callers of each got."""
        ready, start = os.pipe(), os.pipe()

        def racer() -> None:
            os.close(start[1])
            os.write(ready[1], b".")
            os.read(start[0], 1)
            (world.folder / f"got-{os.getpid()}").write_text(json.dumps(work()))

        racers = [forked(world.folder, racer) for _ in range(2)]
        for _ in racers:
            os.read(ready[0], 1)
        os.close(start[1])
        for pid in racers:
            if waited_for(pid):
                self.faults.append((world.folder / "errors").read_text())
        for end in (*ready, start[0]):
            os.close(end)
        return [json.loads((world.folder / f"got-{pid}").read_text()) for pid in racers]

    def same_id(self) -> None:
        """Twenty callers of one run id, in two processes."""
        for number in range(size(5, 10)):
            world = self.world(f"same-{number}")

            def work(world: World = world) -> list[str]:
                with world.machine() as vm:
                    return asyncio.run(called(vm, world))

            got = self.together(world, work)
            if got != [[RUN] * CALLERS] * 2:
                self.faults.append(f"callers got {got}")
            with closing(SQLiteJournal(world.folder / "runs.db")) as journal:
                starts = [record["kind"] for record in records_of(journal)].count("started")
                if len(journal.rows()) != 1 or starts != 1:
                    self.faults.append(f"{len(journal.rows())} runs, {starts} starts")
            self.end(world, 0, f"same id, {number}")

    def one_token(self) -> None:
        """Twenty deliveries of one resume token, in two processes."""
        for number in range(size(5, 10)):
            world = self.world(f"token-{number}")
            world.has_manager = False
            assert not waited_for(forked(world.folder, lambda world=world: world.begin(lambda _: None)))
            with world.machine() as vm:
                token = vm.get_sync(RUN).suspensions[0].token

            def work(world: World = world, token: str = token) -> list[str]:
                with world.machine() as vm:
                    return asyncio.run(delivered(vm, token))

            got = [status for one in self.together(world, work) for status in one]
            with closing(SQLiteJournal(world.folder / "runs.db")) as journal:
                refusals = [record["kind"] for record in records_of(journal)].count("refused")
            if sorted(got) != ["SUCCESS"] + ["refused"] * (2 * CALLERS - 1):
                self.faults.append(f"deliveries came to {Counter(got)}")
            if refusals != 2 * CALLERS - 1:
                self.faults.append(f"{refusals} refusals are in the journal")
            self.end(world, 0, f"one token, {number}")


async def called(vm: ExecutionVM, world: World) -> list[str]:
    """Run one id from many callers, and return the ids of what they got."""
    calls = [vm.run(world.program, world.inputs, run_id=RUN) for _ in range(CALLERS)]
    return [run.id for run in await asyncio.gather(*calls)]


async def delivered(vm: ExecutionVM, token: str) -> list[str]:
    """Deliver one token many times, and return what became of each delivery."""

    async def one() -> str:
        try:
            return (await vm.resume(token, APPROVAL)).status
        except DeliveryRefused:
            return "refused"

    return await asyncio.gather(*(one() for _ in range(CALLERS)))


def main() -> None:
    gc.freeze()
    spec = json.loads(sys.argv[1])
    races = Races(spec)
    getattr(races, spec["scenario"])()
    print(json.dumps({"trials": races.trials, "faults": races.faults}))


if __name__ == "__main__":
    main()
