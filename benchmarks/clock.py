"""CPU time, fairly: the candidates take turns in one process, under one state of the garbage collector."""

from __future__ import annotations

import gc
import os
import resource
import statistics
import subprocess
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from time import process_time
from typing import Final

Work = Callable[[], object]

LEAST_SECONDS: Final = 0.03
"""What one turn takes at least."""


@contextmanager
def collector(enabled: bool) -> Iterator[None]:
    """Keep the garbage collector in one state, and leave it as it was.

    While it is off, what is there is put aside: to look at it all before each turn takes longer than the turn.
    """
    before = gc.isenabled()
    (gc.enable if enabled else gc.disable)()
    puts_aside = not enabled and not gc.get_freeze_count()
    if puts_aside:
        gc.freeze()
    try:
        yield
    finally:
        if puts_aside:
            gc.unfreeze()
        (gc.enable if before else gc.disable)()


def cpu_seconds(work: Work, calls: int = 1) -> float:
    """Return the CPU time of one call, letting go of what it returned included; cycles are collected outside of it."""
    gc.collect()
    started = process_time()
    for _ in range(calls):
        work()
    return (process_time() - started) / calls


def take_turns(candidates: Sequence[Work], rounds: int, *, gc_enabled: bool = False) -> list[list[float]]:
    """Return the CPU seconds of each candidate in each round, after a call to warm up that does not count.

    What is quick is called several times in its turn: a clock that ticks is no measure of a millisecond.
    """
    with collector(gc_enabled):
        calls = [max(1, round(LEAST_SECONDS / cpu_seconds(work))) for work in candidates]
        turns = [[cpu_seconds(*turn) for turn in zip(candidates, calls, strict=True)] for _ in range(rounds)]
    return [list(column) for column in zip(*turns, strict=True)]


def commands_take_turns(
    commands: Sequence[Sequence[str]], rounds: int, allowed: Collection[int] = (0,)
) -> list[list[float]]:
    """Return the CPU seconds (user and system) of each command in each round, after one round that does not count."""
    turns = [[_child_seconds(command, allowed) for command in commands] for _ in range(rounds + 1)]
    return [list(column) for column in zip(*turns[1:], strict=True)]


def _child_seconds(command: Sequence[str], allowed: Collection[int]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode in allowed, f"{command}: exit status {done.returncode}\n{done.stdout}{done.stderr}"
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def multiple(times: Sequence[float], of: Sequence[float]) -> float:
    """Return the median, over the rounds, of one time as a multiple of the other of the same round."""
    return statistics.median(one / other for one, other in zip(times, of, strict=True))


def spread(times: Sequence[float], of: Sequence[float]) -> float:
    """Return how far the multiples of the rounds lie apart: half the range, as a part of their median."""
    ratios = [one / other for one, other in zip(times, of, strict=True)]
    return (max(ratios) - min(ratios)) / 2 / statistics.median(ratios)
