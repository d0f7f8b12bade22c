"""The founding posts' chaos suite, on the real machine and store: `python benchmarks/chaos.py --scale 0.01`.

The scenarios and their numbers are those of llm-nano-vm's posts: 450,000 replays, 50,000 corrupted payloads and so on.
`--scale 1` is all of it, some 45 minutes of CPU. Equal seeds make equal events but for `kill -9`, which hits a process
wherever it is. Ends with status 1 when anything was violated.
"""

from __future__ import annotations

import argparse
import gc
import platform
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Final

from chaos_scenarios import SCENARIOS, Scenario, play
from chaos_world import Score
from check import table

SHARDS: Final = 8
"""Parts of a scenario, each with a seed of its own: what is played does not hang on the number of processes."""

HEADER: Final = ("scenario", "events", "runs", "violations", "doubled effects", "broken resumes", "a second", "store")


def main(arguments: Sequence[str] | None = None) -> int:
    """Play the scenarios, print the table, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=0.01, help="1 is the full size; 0.01 unless said")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--workers", type=int, default=2, help="processes")
    parser.add_argument("--only", default="", help="scenarios whose names have this in them")
    options = parser.parse_args(arguments)
    chosen = [scenario for scenario in SCENARIOS if options.only in scenario.name]
    if not chosen:
        parser.error(f"no scenario has `{options.only}` in its name")
    if options.scale <= 0 or options.workers < 1:
        parser.error("--scale is above 0, and --workers at least 1")
    print(f"Python {platform.python_version()}, {platform.machine()}; scale {options.scale:g}, seed {options.seed}")
    scores = suite(chosen, options.scale, options.seed, options.workers)
    return report(chosen, scores)


def suite(chosen: Sequence[Scenario], scale: float, seed: str, workers: int) -> list[Score]:
    """Play scenarios, each in shards, and return what each found."""
    scores = [Score() for _ in chosen]
    jobs = [
        (number, shard, count)
        for number, scenario in enumerate(chosen)
        for shard, count in enumerate(parts(max(1, round(scenario.count * scale))))
    ]
    names = [SCENARIOS.index(chosen[number]) for number, _, _ in jobs]
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        seeds = [f"{seed}/{number}/{shard}" for number, shard, _ in jobs]
        counts = [count for _, _, count in jobs]
        for (number, _, _), score in zip(jobs, pool.map(_played, names, counts, seeds), strict=True):
            scores[number].add(score)
            print(".", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return scores


def parts(count: int) -> list[int]:
    """Return a count in at most SHARDS parts."""
    each = -(-count // SHARDS)
    return [min(each, count - first) for first in range(0, count, each)]


def _played(number: int, count: int, seed: str) -> Score:
    gc.set_threshold(50_000, 20, 50)  # machines come and go: the collector would look at them all too often
    return play(SCENARIOS[number], count, seed)


def report(chosen: Sequence[Scenario], scores: Sequence[Score]) -> int:
    """Print the table, what was asserted, and what was violated; return the exit status."""
    rows = []
    for scenario, score in zip(chosen, scores, strict=True):
        made = score.runs if scenario.unit == "runs" else score.events
        rows.append(
            [
                scenario.name,
                f"{score.events:,}",
                f"{score.runs:,}",
                f"{score.violations:,}",
                f"{score.doubled:,}",
                f"{score.broken:,}",
                f"{made / score.seconds:,.0f} {scenario.unit}" if score.seconds else "",
                scenario.store,
            ]
        )
    table("The founding posts' chaos suite; speed in a second of CPU", list(HEADER), rows)
    whole = Score()
    for score in scores:
        whole.add(score)
    print(f"\n{whole.events:,} adversarial events, {whole.runs:,} runs judged, {whole.seconds:,.0f} s of CPU")
    for scenario in chosen:
        print(f"asserted[{scenario.name}]: {scenario.asserts}")
    for scenario, score in zip(chosen, scores, strict=True):
        for complaint in score.complaints:
            print(f"violated[{scenario.name}]: {complaint}")
    return 1 if whole.violations or whole.doubled or whole.broken else 0


if __name__ == "__main__":
    sys.exit(main())
