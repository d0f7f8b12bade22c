"""Chooses the scenes that are recorded: those that come to the branches of `vm/` that few scenes come to.

`python benchmarks/scenes.py operations --among 3000 --keep 350` plays that many scenes under coverage (`pip install
coverage`), and records the chosen ones. Each branch of the code is passed by `--times` of them, where so many were
found; the rest are the first ones.
"""

from __future__ import annotations

import argparse
import heapq
import logging
import sqlite3
import tempfile
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

from stepward.sabotage.recorded.recordings import SCENES, played, record


def main(arguments: Sequence[str] | None = None) -> None:
    """Play scenes, choose some, and record them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=SCENES, help="the kind of scene")
    parser.add_argument("--among", type=int, default=3000, help="the number of scenes that are played")
    parser.add_argument("--keep", type=int, default=350, help="the number of scenes that are recorded")
    parser.add_argument("--times", type=int, default=5, help="how many of them pass a branch of the code")
    options = parser.parse_args(arguments)
    logging.disable(logging.CRITICAL)
    with tempfile.TemporaryDirectory() as folder:
        passed = _passed(options.kind, options.among, Path(folder, "data"))
    chosen = _chosen(passed, options.times)[: options.keep]
    rest = [number for number in range(options.among) if number not in set(chosen)]
    chosen = sorted([*chosen, *rest[: options.keep - len(chosen)]])

    record(options.kind, map(str, chosen))
    print(f"{len(chosen)} scenes of {options.among} are recorded; {_missed(passed, chosen)} branches are not passed")


Branch = tuple[int, int, int]
"""A file, and the lines from which and to which a branch goes."""


def _passed(kind: str, among: int, file: Path) -> dict[int, set[Branch]]:
    """Play scenes, and return the branches that each passes."""
    from coverage import Coverage

    coverage = Coverage(branch=True, source_pkgs=["stepward.vm"], data_file=str(file))
    coverage.start()
    for number in range(among):
        coverage.switch_context(str(number))
        played(kind, str(number), {})
    coverage.stop()
    coverage.save()
    found: dict[int, set[Branch]] = defaultdict(set)
    asked = "SELECT context, file_id, fromno, tono FROM arc JOIN context ON context.id = arc.context_id"
    for name, *branch in sqlite3.connect(file).execute(asked):
        if name:
            found[int(name)].add(tuple(branch))
    return found


def _chosen(passed: dict[int, set[Branch]], times: int) -> list[int]:
    """Return scenes by which each branch is passed so many times, the most useful first."""
    count = Counter(branch for branches in passed.values() for branch in branches)
    owed = {branch: min(times, number) for branch, number in count.items()}
    share = {branch: 1 / number for branch, number in count.items()}
    left = [(-sum(map(share.__getitem__, branches)), number) for number, branches in passed.items()]
    heapq.heapify(left)
    chosen: list[int] = []
    while left and owed:
        worth, number = heapq.heappop(left)
        now = -sum(share[branch] for branch in passed[number] if branch in owed)
        if now > worth and now and left and left[0][0] < now:  # it has lost some of its worth: look again later
            heapq.heappush(left, (now, number))
            continue
        if not now:
            continue
        chosen.append(number)
        for branch in passed[number] & owed.keys():
            owed[branch] -= 1
            if not owed[branch]:
                del owed[branch]
    return chosen


def _missed(passed: dict[int, set[Branch]], chosen: Sequence[int]) -> int:
    every = set().union(*passed.values())
    return len(every - set().union(*(passed[number] for number in chosen)))


if __name__ == "__main__":
    main()
