"""What a run costs, as multiples of something everybody can run: `python benchmarks/machine.py`.

Every figure is a ratio of times that were taken in turns in this one run; README.md beside this file says what each
of them means. It needs orjson for the floors; what else is not installed is said to be so.
"""

from __future__ import annotations

import argparse
import asyncio
import platform
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing
from pathlib import Path
from statistics import median, quantiles
from typing import Any, Final

from check import table
from clock import multiple, take_turns
from commits import listening
from crashes import ENGINES, crash
from floors import Commit, Same, Small
from machine_peers import DBOS, LANGGRAPH, NANO, NOT_INSTALLED, is_installed, nano
from runs import EFFECTS, STEPS, Tools, chain, loop, performed, record_bytes, run
from turns import ASYNC, FLOOR, LANGGRAPH_ASYNC, LANGGRAPH_SYNC, SYNC, Turn, contenders, course
from turns import DBOS as DBOS_TURNS

from stepward.vm import ExecutionVM, MemoryJournal, Program, SQLiteJournal

BATCH: Final = 100
"""Runs of five steps in one turn; runs of other lengths have as many steps in all, or one run of more."""

GROWTH: Final = (10, 100, 1_000)
DISK_RUNS: Final = {FLOOR: 5, SYNC: 5, ASYNC: 5}
PEER_RUNS: Final = 1
"""Few, so that the turns come round often: how long a disk takes changes from second to second."""

FRESH: Final = 10
"""Rounds after which the floor and ours get new files: how long a sync takes also depends on where a file lies."""

FILE_RUNS: Final = 100

Once = Callable[[], Awaitable[object]]


def main(arguments: Sequence[str] | None = None) -> None:
    """Print every table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--rounds", type=int, help="rounds of everything instead of 15 in memory, 50 on disk, 5 of growth"
    )
    rounds = parser.parse_args(arguments).rounds
    print(f"Python {platform.python_version()}, {platform.machine()}; ratios, garbage collector off")
    in_memory(rounds or 15)
    for effect in EFFECTS:
        on_disk(effect, rounds or 50)
    growth(rounds or 5)
    sizes()
    crashes()


# -- in memory ---------------------------------------------------------------------------------------------------------


def in_memory(rounds: int) -> None:
    """Runs of five no-op steps in memory, and how many a second of CPU has room for."""
    tools = Tools()
    work = dict(memory_contenders(tools))
    batches = [batch(once, BATCH) for once in work.values()]
    times = take_turns(batches, rounds)
    collected = take_turns(batches, rounds, gc_enabled=True)
    rows = []
    for name, seconds, with_collector in zip(work, times, collected, strict=True):
        of = [f"{multiple(times[floor], seconds):.3f}" for floor in (0, 1)]
        on = f"{multiple(collected[0], with_collector):.3f}"
        rows.append([name, f"{BATCH / median(seconds):,.0f}", of[0], middle_half(times[0], seconds), of[1], on])
    if not is_installed(NANO):
        rows.append([NANO, NOT_INSTALLED, "", "", "", ""])
    header = ["in memory", "runs/s", "of the small floor", "", "of the same fields", "small, collector on"]
    table(f"{STEPS} no-op steps, effect none: runs per second of CPU", header, rows)


def memory_contenders(tools: Tools) -> list[tuple[str, Once]]:
    """Return what runs five no-op steps once, by name; each looks at its result."""
    data = chain(STEPS)
    program = Program.from_dict(data)
    path = course(program, "none")
    machine = ExecutionVM(tools, journal=MemoryJournal(), checker=None)
    kept: dict[str, Any] = {}

    def floor(kind: type[Small | Same]) -> Once:
        async def once() -> object:
            bare = kind(path)
            await bare.run(tools.noop)
            assert len(bare.kept) == STEPS + 1
            assert len(bare.state) == STEPS
            kept[bare.id] = bare.kept
            return bare

        return once

    async def ours() -> object:
        return await run(machine, program, STEPS)

    found: list[tuple[str, Once]] = [
        ("floor, small records", floor(Small)),
        ("floor, same fields, both chains", floor(Same)),
        ("Stepward, MemoryJournal", ours),
    ]
    return [*found, (NANO, nano(data, tools, STEPS))] if is_installed(NANO) else found


def batch(once: Once, count: int) -> Callable[[], object]:
    """Return what does something so many times in an event loop."""

    async def several() -> None:
        for _ in range(count):
            await once()

    return lambda: asyncio.run(several())


# -- on disk -----------------------------------------------------------------------------------------------------------


def on_disk(effect: str, rounds: int) -> None:
    """Runs of five no-op steps on SQLite, beside bare SQLite that makes the same commits, and beside the peers."""
    peers = [LANGGRAPH_SYNC, LANGGRAPH_ASYNC] if is_installed(LANGGRAPH) else []
    peers += [DBOS_TURNS] if is_installed(DBOS) else []
    names = [*DISK_RUNS, *peers]
    columns: list[list[Turn]] = [[] for _ in names]
    with tempfile.TemporaryDirectory() as folder:
        schedule = commits_of_a_run(effect, Path(folder))
        more = {"effect": effect, "schedule": schedule}
        with contenders([{"contender": name, "folder": folder, **more} for name in peers]) as others:
            for first in range(0, rounds, FRESH):
                fresh = tempfile.mkdtemp(dir=folder)
                with contenders([{"contender": name, "folder": fresh, **more} for name in DISK_RUNS]) as ours:
                    started = [*ours, *others]
                    for contender in ours if first else started:
                        contender.turn(PEER_RUNS)  # to warm up
                    for number in range(first, min(first + FRESH, rounds)):
                        for place in rotated(len(names), number):
                            columns[place].append(started[place].turn(DISK_RUNS.get(names[place], PEER_RUNS)))
                    for contender in ours:
                        contender.end()
            for contender in others:
                contender.end()
    floor = columns[0]
    rows = []
    for name, column in zip(names, columns, strict=True):
        cells = []
        for part in ("wall", "cpu"):
            mine, bare = [getattr(turn, part) for turn in column], [getattr(turn, part) for turn in floor]
            cells += [f"{median(mine) * 1000:.2f} ms", f"{multiple(bare, mine):.3f}", middle_half(bare, mine)]
            cells += [f"{min(bare) / min(mine):.3f}"] if part == "wall" else []
        rows.append([name if name not in (SYNC, ASYNC) else f"Stepward, {name}", *cells])
    rows += [[peer, NOT_INSTALLED, *[""] * 6] for peer in (LANGGRAPH, DBOS) if not is_installed(peer)]
    durable = sum(commit.durable for commit in schedule)
    what = f"{durable} durable and {len(schedule) - durable} other commits a run, floor and Stepward alike"
    header = ["on SQLite", "wall", "of the floor", "", "quickest turns", "CPU", "of the floor", ""]
    table(f"{STEPS} no-op steps, effect {effect}: {what}", header, rows)


def middle_half(times: Sequence[float], of: Sequence[float]) -> str:
    """Return between which multiples the middle half of the rounds lies; a disk has outliers."""
    ratios = [one / other for one, other in zip(times, of, strict=True)]
    low, _, high = quantiles(ratios, n=4, method="inclusive") if len(ratios) > 1 else ratios * 3
    return f"{low:.2f} to {high:.2f}"


def rotated(count: int, first: int) -> list[int]:
    """Return the places of a round, beginning at another one each time: nobody always comes behind the same one."""
    return [(first + place) % count for place in range(count)]


def commits_of_a_run(effect: str, folder: Path) -> list[Commit]:
    """Return the commits of one of our runs, heard from SQLite: not of a machine's first, which keeps the program."""
    program, tools = Program.from_dict(chain(STEPS, effect)), Tools()
    with listening() as heard, closing(SQLiteJournal(folder / f"heard-{effect}.db")) as journal:
        machine = ExecutionVM(tools, journal=journal, checker=None)
        machine.run_sync(program)
        heard.clear()
        done = machine.run_sync(program)
        found = list(heard)
        assert sum(commit.records for commit in found) == len(journal.read(done.id))
    assert tools.noops == 2 * STEPS
    return found


# -- growth ------------------------------------------------------------------------------------------------------------


def growth(rounds: int) -> None:
    """CPU per step of long runs beside that of short ones, for a chain and for a loop."""
    work, keys = [], []
    for name, make, steps_of in (("chain", chain, int), ("loop", loop, performed)):
        for engine in ("Stepward", NANO) if is_installed(NANO) else ("Stepward",):
            for size in GROWTH:
                keys.append((f"{engine}, {name}", size, steps_of(size)))
                work.append(batch(long_run(engine, make(size), steps_of(size)), max(GROWTH) // size))
    times = take_turns(work, rounds)
    rows = []
    for name in dict.fromkeys(name for name, _, _ in keys):
        each = [
            ([one / (steps * (max(GROWTH) // size)) for one in seconds], steps, size)
            for (of, size, steps), seconds in zip(keys, times, strict=True)
            if of == name
        ]
        (short, _, _), (middle, few, _), (long, many, _) = each
        tail = [(b * many - a * few) / (many - few) for a, b in zip(middle, long, strict=True)]
        cells = [f"{median(seconds) * 1e6:.1f} µs" for seconds, _, _ in each]
        ratios = [f"{multiple(long, short):.2f}", f"{multiple(long, middle):.2f}", f"{multiple(tail, middle):.2f}"]
        rows.append([name, *cells, *ratios])
    if not is_installed(NANO):
        rows.append([NANO, NOT_INSTALLED, *[""] * 5])
    header = ["CPU per step", *(f"{size:,}" for size in GROWTH), "1,000 / 10", "1,000 / 100", "last 900 / first 100"]
    table("growth: steps of a chain, rounds of a loop", header, rows)


def long_run(engine: str, data: dict[str, Any], steps: int) -> Once:
    """Return what runs a program once in memory; a loop's counter starts anew."""
    tools = Tools()
    calls = steps if data["name"] == "chain" else (steps - 1) // 2 + 1
    if engine == NANO:
        go = nano(data, tools, steps)
    else:
        program, machine = Program.from_dict(data), ExecutionVM(tools, checker=None)

        async def go() -> None:
            await run(machine, program, steps)

    async def once() -> None:
        tools.noops = tools.ticks = 0
        await go()
        assert tools.noops + tools.ticks == calls

    return once


# -- sizes -------------------------------------------------------------------------------------------------------------


def sizes() -> None:
    """Bytes of the journal for each no-op step, and how much an SQLite file grows by a step."""
    rows = []
    for effect in EFFECTS:
        for steps, runs in ((STEPS, FILE_RUNS), (1_000, 1)):
            records, whole, file = bytes_per_step(steps, effect, runs)
            rows.append([f"{steps:,} steps, effect {effect}", f"{records:.0f}", f"{whole:.0f}", f"{file:.0f}"])
    header = ["bytes per no-op step", "records of steps", "all records", "SQLite file"]
    table("journal sizes, in bytes per step; the run's first record is in the second column", header, rows)


def bytes_per_step(steps: int, effect: str, runs: int) -> tuple[float, float, float]:
    """Return bytes per step: of the records that steps write, of all records, and of the file that holds such runs."""
    program, tools = Program.from_dict(chain(steps, effect)), Tools()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sizes.db"
        SQLiteJournal(path).close()
        before = path.stat().st_size
        with closing(SQLiteJournal(path)) as journal:
            machine = ExecutionVM(tools, journal=journal, checker=None)
            found = [record_bytes(journal, machine.run_sync(program).id) for _ in range(runs)]
        assert not path.with_name("sizes.db-wal").exists(), "all of it is in the file"
        file = path.stat().st_size - before
    assert tools.noops == steps * runs
    assert all(len(records) == 1 + steps * (2 if effect == "write" else 1) for records in found)
    whole, first = sum(map(sum, found)), sum(records[0] for records in found)
    return (whole - first) / (steps * runs), whole / (steps * runs), file / (steps * runs)


# -- crashes -----------------------------------------------------------------------------------------------------------


def crashes() -> None:
    """A process that is killed between an effect and the record of it, and another that recovers the run."""
    rows = []
    for engine in ENGINES:
        if engine in (LANGGRAPH, DBOS) and not is_installed(engine):
            rows.append([engine, NOT_INSTALLED, "", ""])
            continue
        with tempfile.TemporaryDirectory() as folder:
            found = crash(engine, Path(folder))
        keys = "none is given" if found.keys == {""} else str(len(found.keys))
        rows.append([engine, str(found.performed), keys, found.status])
    header = ["killed behind the effect, then recovered", "performed", "different keys", "status"]
    table("a crash between an effect and its record", header, rows)


if __name__ == "__main__":
    main()
