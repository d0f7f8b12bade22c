"""What a check costs that finds everything in the cache: `python benchmarks/cache.py`.

CPU time of whole processes, imports included, taken in turns: fifty programs from the cache, one program without it,
and Python with nothing to do. README.md beside this file says what the figures mean.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import chdir
from pathlib import Path
from statistics import median
from typing import Final

from check import table
from clock import commands_take_turns, multiple, spread
from shapes import chain

FILES: Final = 50
GOOD: Final = Path(__file__).parents[1] / "specs/programs/good"
STEPWARD: Final = str(Path(sys.executable).with_name("stepward"))


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=11, help="turns of each command")
    rounds = parser.parse_args(arguments).rounds
    os.environ.pop("STEPWARD_NO_CACHE", None)
    programs = {
        "ten_steps.json": json.dumps({**chain(10), "name": "NAME"}),
        "customer_refund.yaml": (GOOD / "customer_refund.yaml")
        .read_text()
        .replace("name: customer_refund", "name: NAME"),
    }
    rows = [row(name, text, rounds) for name, text in programs.items()]
    header = ["program", f"{FILES} cached", "1 uncached", "ratio", "", "python -c pass"]
    table(f"the cache, CPU of a process, median of {rounds}", header, rows)


def row(name: str, text: str, rounds: int) -> list[str]:
    """Measure copies of one program, each under a name of its own."""
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        os.environ["XDG_CACHE_HOME"] = str(Path(folder, "user"))
        for number in range(FILES):
            path = Path("programs", f"{number}-{name}")
            path.parent.mkdir(exist_ok=True)
            path.write_text(text.replace("NAME", f"p{number}"), encoding="utf-8")
        cached = [STEPWARD, "check", "programs"]
        told = subprocess.run(cached, capture_output=True, text=True, check=True).stdout
        assert told == f"{FILES} programs: no findings\n", told
        kept = sorted(Path(".stepward_cache").iterdir())
        assert len(kept) == FILES + 2, "an entry for each file, and two files of the folder's own"
        single = [STEPWARD, "check", "--no-cache", str(Path("programs", f"0-{name}"))]
        times = commands_take_turns([cached, single, [sys.executable, "-c", "pass"]], rounds)
        assert sorted(Path(".stepward_cache").iterdir()) == kept, "nothing was looked at again"
    many, one, _ = times
    cells = [f"{median(seconds) * 1000:.0f} ms" for seconds in times]
    return [name, cells[0], cells[1], f"{multiple(many, one):.2f}", f"±{spread(many, one):.0%}", cells[2]]


if __name__ == "__main__":
    main()
