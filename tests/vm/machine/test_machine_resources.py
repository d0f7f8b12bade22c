"""What a machine holds on to: descriptors, memory, and the size of what comes in."""

from __future__ import annotations

import gc
import os
import threading
import tracemalloc
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from machines import Bench, ask, end, program, tool, unchecked
from stepward.vm import DeliveryRefused, MemoryJournal, ModelReply, RunRefused, Suspend
from stepward.vm.journal.verify import verify_all
from stepward.vm.machine import ask as asking
from stepward.vm.machine.replay import cached_plans, replayer
from stepward.vm.machine.state import Limits
from stepward.vm.values import ByteBudget, TooLarge, ValueRefused, freeze

ENDS = program(end())


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="descriptors are counted by way of /proc")
def test_a_thread_that_has_ended_leaves_no_descriptor_open() -> None:
    vm = unchecked({})
    count: list[int] = []
    for _ in range(30):
        thread = threading.Thread(target=vm.run_sync, args=(ENDS,))
        thread.start()
        thread.join()
        count.append(len(os.listdir("/proc/self/fd")))
    assert max(count[1:]) <= count[0]


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="descriptors are counted by way of /proc")
def test_a_machine_that_nobody_has_any_more_leaves_none_open() -> None:
    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(10):
        unchecked({}).run_sync(ENDS)
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) <= before


# -- the size of what comes in -----------------------------------------------------------------------------------------


def shared(depth: int, make: Callable[[Any], Any]) -> Any:
    """Return a value that holds itself twice at each level, as YAML with aliases gives it: 2^depth when written out."""
    value: Any = []
    for _ in range(depth):
        value = make(value)
    return value


class Endless(Mapping[str, Any]):
    """An object that never ends."""

    def __getitem__(self, key: str) -> Any:
        return 1

    def __iter__(self) -> Iterator[str]:
        number = 0
        while True:
            number += 1
            yield str(number)

    def __len__(self) -> int:
        return 1


HUGE: dict[str, Callable[[], Any]] = {
    "lists": lambda: shared(60, lambda value: [value, value]),
    "tuples": lambda: shared(60, lambda value: (value, value)),
    "objects": lambda: shared(60, lambda value: {"a": value, "b": value}),
    "texts": lambda: ["x" * 1_000] * 10**6,
    "one text": lambda: "x" * 400_000,
    "keys": lambda: shared(30, lambda value: [{"x" * 1_000: value}, value]),
    "flat objects": lambda: [{"a": "x" * 1_000}] * 10**6,
    "an object without an end": Endless,
}


@pytest.mark.parametrize("name", HUGE)
def test_what_is_huge_when_written_out_is_refused_on_the_way_in(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "LEAST_BUDGET", 2_000)
    says = "has more than the 2000 bytes allowed"
    limits = Limits(2_000, 2_000)
    bench = Bench({"a": lambda **_: HUGE[name]()}, limits=limits)
    assert bench.run(program(tool("a"))).error == f"the output of `a` {says}"
    bench = Bench({"a": lambda **_: HUGE[name]()}, limits=limits)
    assert bench.run(program(tool("a", "write"))).doubts[0].why == f"the output of `a` {says}"
    bench = Bench(model={"m": ModelReply(HUGE[name]())}, limits=limits)
    assert f"`m` {says}" in bench.run(program(ask("m", returns=TREE))).error
    bench = Bench({"w": lambda: Suspend(HUGE[name]())}, limits=limits)
    run = bench.run(program(tool("w", "ask")))
    assert run.suspensions[0].request == "its request can't be kept: it has more than the 2000 bytes allowed"
    with pytest.raises(DeliveryRefused, match=says):
        bench.resume(run, HUGE[name]())
    with pytest.raises(RunRefused, match="the inputs have more than the 2000 bytes allowed"):
        Bench(limits=limits).run(program(end(), inputs={"x": {}}), "run", x=HUGE[name]())


TREE: dict[str, Any] = {"type": ["array", "object", "string"]}


@pytest.mark.parametrize(
    "value",
    ["", "x", "é", "#", '"', None, True, 1, -1.5, [], {}, [None, "a"], {"a": 1}, {"a": {"b": []}}, [[], [[]]], "\n"],
)
def test_a_value_has_room_exactly_as_long_as_it_is_not_longer_than_it_may_be(value: Any) -> None:
    from stepward.vm.journal.canonical import canonical, portable

    size = len(canonical(portable(freeze(value))).encode())
    assert freeze(value, room=ByteBudget(size)) == freeze(value), "what fits is never refused"
    with pytest.raises(TooLarge, match="it has more than 1000 bytes"):
        freeze([value] * 1_001, room=ByteBudget(1_000))


def test_what_is_no_value_is_told_before_what_is_too_large() -> None:
    with pytest.raises(ValueRefused, match="not a set"):
        freeze([set(), "x" * 100], room=ByteBudget(50))


# -- many runs ---------------------------------------------------------------------------------------------------------


def test_verifying_holds_one_run_at_a_time() -> None:
    same = program(tool("a"), end())

    def peak(runs: int) -> int:
        vm = unchecked({"read": lambda: 1}, journal=MemoryJournal())
        for number in range(runs):
            vm.run_sync(same, run_id=f"r{number}")
        plans = cached_plans(vm.journal)
        gc.collect()
        tracemalloc.start()
        try:
            verdicts = verify_all(vm.journal, replay=lambda run, receipts: replayer(vm.journal, run, receipts, plans))
            for number, verdict in enumerate(verdicts):
                assert verdict.is_intact
                if number % 20 == 0:
                    gc.collect()
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    few, many = peak(20), peak(100)
    assert many < few + 10_000, "what is held does not grow with the runs, but for their names"
