"""Say whether a newcomer has done a task: `python tests/newcomers/judge.py TASK FOLDER`.

With `--prepare` it makes FOLDER instead: the start files of the task, and what a newcomer finds there. The exit status
is 0 if the task is done, 1 if something is missing, 2 if the command can't be used.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from adapting import adapted
from gating import gated
from mending import mended
from resuming import begin, resumed
from ruling import ruled
from trial import CACHES, HERE, Command, Trial, installed
from writing import written

Check = Callable[[Trial], Iterator[str]]
CHECKS: dict[str, Check] = {
    "01-invoice": written,
    "02-policy": ruled,
    "03-transfer": mended,
    "04-parcel": mended,
    "05-desk": mended,
    "06-support": mended,
    "07-renewal": mended,
    "08-resume": resumed,
    "09-adapter": adapted,
    "10-gate": gated,
}


def prepare(task: str, folder: Path, stepward: Command = installed) -> None:
    """Make a folder in which a newcomer can begin; it must not exist."""
    shutil.copytree(HERE / task, folder, ignore=shutil.ignore_patterns(*CACHES))
    if CHECKS[task] is resumed:
        begin(Trial(task, folder, stepward))


def missing(task: str, folder: Path, stepward: Command = installed) -> list[str]:
    """Return what is missing until a task is done."""
    return list(CHECKS[task](Trial(task, folder, stepward)))


def main(arguments: list[str]) -> int:
    """Judge, or prepare, as the command line says."""
    match arguments:
        case ["--prepare", task, folder] if task in CHECKS and not Path(folder).exists():
            prepare(task, Path(folder))
            return 0
        case [task, folder] if task in CHECKS and Path(folder).is_dir():
            problems = missing(task, Path(folder).resolve())
        case _:
            print(f"usage: judge.py [--prepare] TASK FOLDER\ntasks: {', '.join(CHECKS)}", file=sys.stderr)
            return 2
    print("\n".join(f"missing: {problem}" for problem in problems) or "done")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
