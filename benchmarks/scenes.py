"""Orders the scenes that are recorded, or chooses them: those first that come to many branches of `vm/` in little time.

`python benchmarks/scenes.py operations` plays the recorded scenes under coverage (`pip install coverage`), and records
them in that order, which is the order of play. `--among 3000 --keep 350` chooses among so many scenes. A branch that
`--times` scenes have passed counts for nothing any more; scenes that pass no other come last, the cheap ones first.
"""

from __future__ import annotations

import argparse
import heapq
import logging
import sqlite3
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from stepward.sabotage.recorded.recordings import SCENES, played, record, recordings

LEAST: Final = 0.02
"""Seconds of CPU that are added to what a scene costs, so that the order does not depend on those that cost nothing."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Play scenes, order them, and record them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=SCENES, help="the kind of scene")
    parser.add_argument("--among", type=int, default=0, help="the number of scenes to choose among")
    parser.add_argument("--keep", type=int, help="the number of scenes that are recorded")
    parser.add_argument("--times", type=int, default=3, help="how many of them pass a branch of the code")
    options = parser.parse_args(arguments)
    logging.disable(logging.CRITICAL)
    seeds = [str(number) for number in range(options.among)] or [one.seed for one in recordings(options.kind)]
    with tempfile.TemporaryDirectory() as folder:
        passed = _passed(options.kind, seeds, Path(folder, "data"))
    chosen = ordered(passed, _costs(options.kind, seeds), options.times)[: options.keep]

    record(options.kind, chosen)
    print(f"{len(chosen)} scenes of {len(seeds)} are recorded; {_missed(passed, chosen)} branches are not passed")


Branch = tuple[int, int, int]
"""A file, and the lines from which and to which a branch goes."""


def _costs(kind: str, seeds: Sequence[str]) -> dict[str, float]:
    """Play scenes, and return the seconds of CPU that each takes."""
    costs = {}
    for seed in seeds:
        began = time.process_time()
        played(kind, seed, {})
        costs[seed] = time.process_time() - began
    return costs


def _passed(kind: str, seeds: Sequence[str], file: Path) -> dict[str, set[Branch]]:
    """Play scenes, and return the branches that each passes."""
    from coverage import Coverage

    coverage = Coverage(branch=True, source_pkgs=["stepward.vm"], data_file=str(file))
    coverage.start()
    for seed in seeds:
        coverage.switch_context(seed)
        played(kind, seed, {})
    coverage.stop()
    coverage.save()
    found: dict[str, set[Branch]] = defaultdict(set)
    asked = "SELECT context, file_id, fromno, tono FROM arc JOIN context ON context.id = arc.context_id"
    for name, *branch in sqlite3.connect(file).execute(asked):
        if name:
            found[name].add(tuple(branch))
    return found


def ordered(passed: Mapping[str, set[Branch]], costs: Mapping[str, float], times: int) -> list[str]:
    """Return scenes in the order of what they add for what they cost. What passes a branch anew adds half as much."""
    count: Counter[Branch] = Counter()

    def worth(seed: str) -> float:
        gain = sum(2.0 ** -count[branch] for branch in passed[seed] if count[branch] < times)
        return -gain / (costs[seed] + LEAST)

    left = [(worth(seed), costs[seed], seed) for seed in passed]
    heapq.heapify(left)
    order: list[str] = []
    while left:
        before, cost, seed = heapq.heappop(left)
        now = worth(seed)
        if now > before and left and left[0][0] < now:  # it has lost some of its worth: look again later
            heapq.heappush(left, (now, cost, seed))
            continue
        order.append(seed)
        count.update(passed[seed])
    return order


def _missed(passed: Mapping[str, set[Branch]], chosen: Sequence[str]) -> int:
    every = set().union(*passed.values())
    return len(every - set().union(*(passed[seed] for seed in chosen)))


if __name__ == "__main__":
    main()
