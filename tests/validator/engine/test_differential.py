"""What the checker says is held against the truth: small random programs of which every run is enumerated.

Nothing that happens may be proved away or left unsaid, and nothing may be said that never happens. What the checker
leaves open (SW408) is counted, and held against a table. Each proof must be accepted by the second checker in the same
run. `STEPWARD_DIFFERENTIAL` says how many programs are tried.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cache
from mmap import mmap
from typing import Any

import pytest
import yaml

from comparing import (
    compare,
    same_kind,
)
from layers import only
from rare_programs import rare_programs
from shrinking import shrink
from sizes import MANY, asked_for, size
from small_programs import small_program

ACCEPTED = {
    # The share of properties that are neither proved nor violated.
    "unknown requires": 0.002,
    "unknown never": 0.002,
    "unknown at_most_once": 0.002,
    "unknown followed_by": 0.005,
    "unknown exclusive": 0.002,
    "unknown coverage": 0.002,
    "unknown exclusive cases": 0.002,
    # The share of what is true and not said, of all that is true.
    "unsaid SW103": 0.23,
    "unsaid SW303": 0.31,
    "unsaid SW304": 0.05,
    # The share of what is said and can't happen, of all that is said.
    "infeasible SW202": 0.08,
    # What the language can be read to ask for: see `Truth.debatable`.
    "unsaid debatable": 1.0,
    # Programs with a witness that the machine does not confirm, and programs too large to enumerate.
    "unconfirmed": 0.001,
    "skipped": 0.001,
}
CHUNK = 50
CHUNKS = max(1, asked_for("STEPWARD_DIFFERENTIAL", 50, 1400) // CHUNK)
COUNTED_CHUNKS = 5
ALONE = {
    # Programs that each layer is asked about alone, and the share of properties that it may leave open.
    "finite abstraction": (size(20, 300), 0.02),
    "explicit search": (size(20, 300), 0.02),
    "block formula": (size(15, 200), 0.02),
}


# -- the search --------------------------------------------------------------------------------------------------------


def _chunks() -> Iterator[Any]:
    """Yield the chunks; all but the first belong to the slow tests."""
    for chunk in range(CHUNKS):
        marks = [pytest.mark.slow] if chunk else []
        yield pytest.param(chunk, id=f"{chunk * CHUNK}-{chunk * CHUNK + CHUNK - 1}", marks=marks)


@cache
def counted(chunk: int) -> tuple[Counter[str], tuple[tuple[int, tuple[str, ...]], ...]]:
    """Return what was counted in a chunk of programs, and the seeds with what is wrong."""
    counts: Counter[str] = Counter()
    wrong = []
    for seed in range(chunk * CHUNK, (chunk + 1) * CHUNK):
        found = compare(small_program(seed))
        counts.update(found.counts)
        if found.wrong:
            wrong.append((seed, tuple(found.wrong)))
    return counts, tuple(wrong)


@pytest.mark.parametrize("chunk", list(_chunks()))
def test_the_checker_says_what_happens(chunk: int) -> None:
    _, wrong = counted(chunk)
    if wrong:
        seed, said = wrong[0]
        smallest = shrink(small_program(seed), same_kind(list(said)))
        words = [f"seed {number}: {text}" for number, texts in wrong for text in texts]
        words += [
            "",
            f"seed {seed}, made small: {compare(smallest).wrong}",
            yaml.safe_dump(smallest, sort_keys=False, default_flow_style=None),
        ]
        pytest.fail("\n".join(words), pytrace=False)


@pytest.mark.parametrize("seed", [-number for number in range(1, len(rare_programs()) + 1)])
def test_the_checker_says_what_happens_in_programs_by_hand(seed: int) -> None:
    found = compare(small_program(seed))
    assert not found.wrong
    assert not found.counts["skipped"]


@pytest.mark.slow
@pytest.mark.parametrize("layer", ALONE)
def test_every_layer_that_answers_is_right_alone(layer: str) -> None:
    programs, accepted = ALONE[layer]
    counts: Counter[str] = Counter()
    wrong = {}
    with pytest.MonkeyPatch.context() as patch:
        only(patch, layer)
        for seed in range(programs):
            found = compare(small_program(seed))
            counts.update(found.counts)
            if found.wrong:
                wrong[seed] = found.wrong
    total = sum(count for name, count in counts.items() if name.startswith("all unknown"))
    left = {name: count for name, count in counts.items() if name.startswith("unknown") and count}
    print(f"{layer:20} alone leaves open {sum(left.values())} of {total}: {left}")
    assert not wrong
    assert sum(left.values()) <= accepted * total


@pytest.mark.slow
def test_what_is_left_open_is_within_the_table() -> None:
    """By day few programs are counted: shares that are not near nothing need many."""
    counts: Counter[str] = Counter()
    for chunk in range(min(CHUNKS, COUNTED_CHUNKS)):
        counts.update(counted(chunk)[0])
    shares = {name: counts[name] / max(1, counts[f"all {name}"]) for name in ACCEPTED}
    for name, share in shares.items():
        print(f"{name:28} {counts[name]:6} of {counts[f'all {name}']:6}  {share:6.1%}  accepted {ACCEPTED[name]:.0%}")
    exact = shares.keys() if MANY else {name for name in shares if not name.startswith(("unsaid", "infeasible"))}
    assert not {name: round(shares[name], 3) for name in exact if shares[name] > ACCEPTED[name]}


def test_a_program_is_made_smaller() -> None:
    data = small_program(3)
    smallest = shrink(data, lambda less: any(step["type"] == "tool" for step in less["steps"]))
    assert len(smallest["steps"]) == 1
    assert smallest["guardrails"] == []


def test_shrinking_has_a_bound_of_memory_and_of_time() -> None:
    """A check that takes too much, or never ends, leaves the smallest program so far."""
    data = {"guardrails": [{"name": "r"}], "steps": [{"id": "a"}, {"id": "b"}]}

    def takes(less: dict[str, Any]) -> bool:
        with mmap(-1, 100_000_000):  # no free memory of the process will do for it
            return len(less["steps"]) == 2

    assert shrink(data, takes, memory=30_000_000) == data
    assert shrink(data, takes, memory=400_000_000)["guardrails"] == []

    def never_ends(less: dict[str, Any]) -> bool:
        while len(less["steps"]) < 2:
            pass
        return True

    assert shrink(data, never_ends, seconds=1)["guardrails"] == []
