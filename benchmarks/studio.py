"""What a studio costs the machine that it watches, and what 200 runs a second cost it: `python benchmarks/studio.py`.

The studio is a process of its own, and so is its reader, who asks for what a page asks for. The fleet of the second
part has its journal in memory: that measures the studio, and not the disk. Needs the extra `studio`; with `chromium` a
page in a browser is measured as well.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple

from check import table
from clock import collector, multiple, spread
from runs import EFFECTS, STEPS, Tools, chain

from stepward.sabotage.stores.images import memory_folder
from stepward.vm import ExecutionVM, Program, SQLiteJournal

RUNS: Final = 150
"""Runs in one turn."""

RATE: Final = 200
"""Runs a second, in the second part."""

FRAMES: Final = """
const gaps = []; let last = performance.now();
function look(now) { gaps.push(now - last); last = now; requestAnimationFrame(look); }
requestAnimationFrame(look); window.gaps = gaps;
"""


class Seen(NamedTuple):
    """What a reader was sent: updates, their bytes, and the parts of the page that it asked for."""

    updates: int
    size: int
    parts: int


def main(arguments: Sequence[str] | None = None) -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--read", help="be the reader of a studio at this address, until the input ends")
    options = parser.parse_args(arguments)
    if options.read:
        read(options.read)
        return
    rows = [cost_of_being_watched(effect, options.rounds) for effect in EFFECTS]
    header = ["", "CPU of a run", "watched: CPU", "watched: wall"]
    table(f"{STEPS} no-op steps on SQLite, as a multiple of the same run that nobody watches", header, rows)
    header = ["", "runs a second", "CPU of the studio", "memory", "updates a second", "kB a second", "longest frame"]
    table(f"the studio while a fleet runs, for {options.seconds:g} s", header, [load(options.seconds)])


# -- the studio and its reader -----------------------------------------------------------------------------------------


@contextmanager
def studio_of(journal: Path) -> Iterator[tuple[str, int]]:
    """Start a studio of a journal; return its address, and the id of its process."""
    command = [sys.executable, "-c", "from stepward.validator.cli import main; main()", "studio"]
    command += ["--journal", str(journal), "--port", "0", "--isolated"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            yield process.stderr.readline().split()[-1], process.pid
        finally:
            process.terminate()
            process.communicate(timeout=30)


@contextmanager
def reader_of(address: str) -> Iterator[list[Seen]]:
    """Start a reader; what it has seen is in the list once it has ended."""
    found: list[Seen] = []
    command = [sys.executable, __file__, "--read", address]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield found
        said, _ = process.communicate("", timeout=60)
        found.append(Seen(*json.loads(said)))


def read(address: str) -> None:
    """Read updates as a page does that follows the newest run, until the standard input is closed."""
    import select

    updates = size = parts = 0
    with urllib.request.urlopen(f"{address}events", timeout=60) as stream:
        print("ready", flush=True)
        while not select.select([sys.stdin], [], [], 0)[0]:
            line = stream.readline()
            size += len(line)
            if not line.startswith(b"data: "):
                continue
            updates += 1
            rows = json.loads(line.removeprefix(b"data: "))["runs"]
            if rows:
                with urllib.request.urlopen(f"{address}run?run={rows[-1][0]}", timeout=60) as part:
                    part.read()
                parts += 1
    print(json.dumps([updates, size, parts]), flush=True)


# -- what is measured --------------------------------------------------------------------------------------------------


class Fleet:
    """A machine that makes runs of one program in a journal on disk."""

    def __init__(self, journal: SQLiteJournal, effect: str) -> None:
        self._machine = ExecutionVM(Tools(), None, journal, checker=None)
        self._program = Program.from_dict({**chain(STEPS, effect)})

    def make(self, runs: int) -> None:
        """Make runs."""
        for _ in range(runs):
            assert self._machine.run_sync(self._program).status == "SUCCESS"


def cost_of_being_watched(effect: str, rounds: int) -> list[str]:
    """Return a row: runs while nobody reads and while somebody does, in turns, on one journal."""
    alone: list[tuple[float, float]] = []
    watched: list[tuple[float, float]] = []
    with tempfile.TemporaryDirectory() as folder, closing(SQLiteJournal(Path(folder) / "runs.db")) as journal:
        fleet = Fleet(journal, effect)
        fleet.make(RUNS)
        with studio_of(Path(folder) / "runs.db") as (address, _), collector(False):
            for _ in range(rounds):
                alone.append(timed(fleet))
                with reader_of(address):
                    watched.append(timed(fleet))
    cpu, wall = ([turn[number] for turn in alone] for number in (0, 1))
    cpu_watched, wall_watched = ([turn[number] for turn in watched] for number in (0, 1))
    return [
        f"effect {effect}",
        f"{1e6 * median(cpu) / RUNS:,.0f} µs",
        f"{multiple(cpu_watched, cpu):.2f} ± {spread(cpu_watched, cpu):.0%}",
        f"{multiple(wall_watched, wall):.2f} ± {spread(wall_watched, wall):.0%}",
    ]


def timed(fleet: Fleet) -> tuple[float, float]:
    """Return the CPU and the wall seconds of one turn."""
    cpu, wall = time.process_time(), time.perf_counter()
    fleet.make(RUNS)
    return time.process_time() - cpu, time.perf_counter() - wall


def load(seconds: float) -> list[str]:
    """Return the row of the second table: a fleet at RATE, a reader, and a page if there is a browser."""
    with ExitStack() as stack:
        folder = stack.enter_context(memory_folder())
        journal = stack.enter_context(closing(SQLiteJournal(folder / "runs.db")))
        fleet = Fleet(journal, "none")
        fleet.make(RATE)
        address, process = stack.enter_context(studio_of(folder / "runs.db"))
        window = page_of(stack, address)
        with reader_of(address) as seen:
            before, start = cpu_of(process), time.perf_counter()
            made = pace(fleet, seconds)
            took, cpu = time.perf_counter() - start, cpu_of(process) - before
            memory = memory_of(process)
            frame = "no browser" if window is None else f"{max(window.run('return window.gaps')):,.0f} ms"
    (found,) = seen
    return [
        "one reader, one page" if window is not None else "one reader",
        f"{made / took:,.0f}",
        f"{cpu / took:.0%} of a core",
        memory,
        f"{found.updates / took:.1f}",
        f"{found.size / 1e3 / took:,.0f}",
        frame,
    ]


def pace(fleet: Fleet, seconds: float) -> int:
    """Make RATE runs a second for some seconds, and return how many it were."""
    start, made = time.perf_counter(), 0
    while (now := time.perf_counter() - start) < seconds:
        due = int(now * RATE) - made
        fleet.make(due)
        made += due
        time.sleep(0.01)
    return made


def page_of(stack: ExitStack, address: str) -> Any:
    """Open the page in a browser that counts its frames; None if there is no browser."""
    sys.path.append(str(Path(__file__).resolve().parents[1] / "tests/support"))
    from browser import CAN_BROWSE, browser

    if not CAN_BROWSE:
        return None
    window = stack.enter_context(browser())
    window.open(address)
    time.sleep(2)
    window.run(FRAMES)
    return window


def cpu_of(process: int) -> float:
    """Return the CPU seconds of a process so far."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory_of(process: int) -> str:
    """Return the largest resident memory of a process so far."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{process}/status").read_text())
    return "" if found is None else f"{int(found[1]) / 1024:,.0f} MB"


if __name__ == "__main__":
    main()
