"""What it costs that every proof is checked a second time: checks with and without it, in turns, as whole processes.

    python benchmarks/recheck.py [--rounds 5] [--size 1000] [--each]

CPU is that of child processes (`resource.getrusage`), so imports and start count, as they do for whoever types the
command. A figure is the median of the ratios of the rounds. Every program must say that its proofs were rechecked.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from shapes import Data, chain, ladder, loops

ROOT: Final = Path(__file__).parents[1]
GOOD: Final = ROOT / "specs/programs/good"
COMMAND: Final = (str(Path(sys.executable).with_name("stepward")), "check", "--isolated", "--no-cache")


def ruled(data: Data) -> Data:
    """Return a program of a shape with three rules that hold in it, about its first step and its last."""
    first, last = ({"step": data["steps"][at]["id"]} for at in (0, -1))
    rules: list[dict[str, Any]] = [
        {"name": "first-came", "protects": last, "requires": first},
        {"name": "last-once", "at_most_once": last},
        {"name": "last-follows", "followed_by": {"first": first, "then": last}, "ends": "success"},
    ]
    return {**data, "guardrails": rules}


SHAPES: Final[dict[str, Callable[[int], Data]]] = {"chain": chain, "ladder": ladder, "loops": loops}


def cpu(path: Path, *, recheck: bool) -> tuple[float, int]:
    """Return the CPU seconds of one check, and how many proofs it says were rechecked."""
    options = ["--output-format", "json", "--exit-zero", *([] if recheck else ["--no-recheck"])]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([*COMMAND, str(path), *options], capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    summary = json.loads(done.stdout)["summary"]
    assert summary["verdicts"]["unknown"] == 0, f"{path} has what is not proved"
    assert summary["rechecked"] == (summary["verdicts"]["proved"] if recheck else 0), f"{path} is not rechecked"
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, summary["verdicts"]["proved"]


def row(name: str, path: Path, rounds: int) -> str:
    """Return the line of one program, or of a folder of programs."""
    found = [(cpu(path, recheck=False), cpu(path, recheck=True)) for _ in range(rounds)]
    without, with_ = (statistics.median(pair[at][0] for pair in found) for at in (0, 1))
    ratios = [second[0] / first[0] for first, second in found]
    spread = (max(ratios) - min(ratios)) / 2
    return f"{name:28} {found[0][0][1]:6} {without:9.2f} {with_:9.2f} {statistics.median(ratios):7.2f} ±{spread:.2f}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--size", type=int, default=1000, help="steps of the generated programs")
    parser.add_argument("--each", action="store_true", help="also each of the good programs by itself")
    options = parser.parse_args()
    print(f"{'program':28} {'proofs':>6} {'without':>9} {'with':>9} {'ratio':>7}")
    print(row("the good programs, one run", GOOD, options.rounds), flush=True)
    for path in sorted(GOOD.glob("*.yaml")) if options.each else ():
        print(row(path.stem, path, options.rounds), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for name, make in SHAPES.items():
            path = Path(folder, f"{name}.json")
            path.write_text(json.dumps(ruled(make(options.size))), encoding="utf-8")
            print(row(f"{name}, {options.size:,} steps", path, options.rounds), flush=True)


if __name__ == "__main__":
    main()
