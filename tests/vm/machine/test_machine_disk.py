"""A store that fails, before or after it has written: the run stops with that error, and a later recovery ends it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from crash_judge import judge, told
from crash_world import World
from sizes import MANY, size
from stepward.vm.journal.store import JournalError
from stepward.vm.machine.clock import ManualClock

pytestmark = pytest.mark.slow

STORE = ("document", "secrets", "append", "acquire", "release")


class Failing:
    """Raises at one of the points where a store is written to, and counts them."""

    def __init__(self, target: int = 0, times: int = 1) -> None:
        self.target = target
        self.times = times
        self.points: list[str] = []

    def __call__(self, point: str) -> None:
        if point.split()[1].rstrip(":") not in STORE:
            return
        self.points.append(point)
        if self.target <= len(self.points) < self.target + self.times:
            raise JournalError(f"the disk failed {point}")


class Reference:
    """A run whose disk never failed."""

    def __init__(self, folder: Path, program: str, mode: str) -> None:
        self.folder, self.program, self.mode = folder, program, mode
        world = self.world("reference")
        counter = Failing()
        world.begin(counter)
        world.finish(1)
        self.points = counter.points
        self.expected = world.recorder.effects()
        self.ended = world.ended()

    def world(self, name: str) -> World:
        folder = self.folder / name
        folder.mkdir()
        return World(folder, self.program, self.mode)

    def judge(self, world: World) -> list[str]:
        return judge(world, self.ended, self.expected)


def begun(world: World, failing: Failing) -> str | None:
    """Begin a run whose disk fails at a point, and return which one; None where it did not come so far."""
    try:
        world.begin(failing)
    except JournalError as error:
        assert "the disk failed" in str(error)  # noqa: PT017 - threads make the number of points vary
        return failing.points[failing.target - 1]
    assert world.mode == "threads"
    return None


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("times", "share"), [(1, 0), (1000, 1)])
@pytest.mark.parametrize(
    ("program", "mode", "more"), [("every", "inline", 0), ("refund", "inline", 0), ("every", "threads", 1)]
)
def test_a_disk_that_fails(tmp_path: Path, program: str, mode: str, more: int, times: int, share: int) -> None:
    """At each point, once or from then on: the run stops, and when the disk is back it ends as if nothing had been.

    By day at every third point, and the four tests of `every` do not take the same ones.
    """
    reference = Reference(tmp_path, program, mode)
    assert len(reference.points) >= 18
    missed = 0
    for number in range(1 + size((share + more) % 3, 0), len(reference.points) + 1, size(3, 1)):
        world = reference.world(f"{number}")
        point = begun(world, Failing(number, times))
        if point is None:
            missed += 1
            continue
        # The lease was given back, unless that failed as well, or nobody knew that there was one.
        is_leased = times > 1 or "release" in point or "acquire" in point or point == "after append: started"
        world.recover(1 if is_leased else 0, lambda _: None)
        assert not told(world), point
        world.finish(2)
        assert not reference.judge(world), point
    assert missed <= 4


@pytest.mark.parametrize("again", [2, 3, 4])
def test_a_disk_that_fails_in_recovery_too(tmp_path: Path, again: int) -> None:
    reference = Reference(tmp_path, "every", "inline")
    for number, point in enumerate(reference.points, 1):
        if not MANY and number % 3 != again % 3:
            continue
        world = reference.world(f"{number}")
        with pytest.raises(JournalError):
            world.begin(Failing(number))
        try:
            world.finish(1, Failing(again))
        except JournalError as error:
            assert "the disk failed" in str(error)  # noqa: PT017 - a recovery with fewer points ends
        world.finish(2)
        assert not reference.judge(world), point


def test_nobody_is_left_behind(tmp_path: Path) -> None:
    """The error of a sub-step waits for its siblings: what a tool does after its run has stopped, nobody tells of."""
    reference = Reference(tmp_path, "every", "threads")
    for number in range(1, len(reference.points) + 1):
        world = reference.world(f"{number}")
        world.slowness = 0.02
        begun(world, Failing(number))
        happened = world.recorder.effects()
        time.sleep(0.05)
        assert world.recorder.effects() == happened, number


def test_a_lease_that_can_not_be_renewed(tmp_path: Path) -> None:
    """Renewals that fail are no failure of the run, and nothing is said on the side; the next one may succeed.

    Time goes by at the failures alone, two thirds of a lease at each: after two of them in a row it would be over.
    """
    world = World(tmp_path, "every")
    world.lease_seconds = 0.03
    world.mode = "threads"
    clock = ManualClock(tick=0)
    complaints: list[Any] = []
    tried: Counter[str] = Counter()
    is_late = threading.Event()

    def renew(inner: Callable[..., Any]) -> Callable[..., Any]:
        def renewed(*args: Any) -> Any:
            tried["renew"] += 1
            if tried["renew"] >= 8:
                is_late.set()
            if tried["renew"] % 2:
                clock.time += 20_000
                raise JournalError("the disk failed")
            tried["renewed"] += 1
            return inner(*args)

        return renewed

    def slow(point: str) -> None:
        assert point != "before pay" or is_late.wait(60), "nobody renews the lease"

    async def run() -> str:
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: complaints.append(context))
        with world.machine(0, slow) as vm:
            vm.clock.now = clock.now  # type: ignore[method-assign]
            vm.journal.renew = renew(vm.journal.inner.renew)  # type: ignore[attr-defined, method-assign]
            return (await vm.run(world.program, world.inputs)).status

    assert asyncio.run(run()) == "SUCCESS"
    assert tried["renewed"] >= 3
    assert not complaints
