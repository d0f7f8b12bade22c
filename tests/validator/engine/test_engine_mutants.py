"""Every planted mistake of the engine must be caught: the comparison with brute force parts from it on some program.

The mistakes stand in engine_mistakes.py, which also looks for the seeds of this table anew; negative seeds are the
programs by hand in small_programs.py. On all of them the engine without a mistake must be right.
"""

from __future__ import annotations

import pytest

from engine_mistakes import MISTAKES, given_away, wrong
from engine_seeds import SEEDS
from sizes import MANY


def test_every_mistake_has_seeds() -> None:
    assert SEEDS.keys() == MISTAKES.keys()
    assert all(SEEDS.values())


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", MISTAKES)
def test_a_planted_mistake_is_caught(name: str) -> None:
    said = (wrong(name, seed, MISTAKES[name].layer) for seed in SEEDS[name])
    assert any(map(given_away, said)), "no seed tells; look for other seeds with engine_mistakes.py"


@pytest.mark.parametrize(
    "layer", sorted({mistake.layer for mistake in MISTAKES.values()}), ids=lambda one: one or "all"
)
def test_the_engine_without_mistakes_is_right_there(layer: str) -> None:
    # By day the first seed of each mistake, which nearly always tells.
    named = [SEEDS[name] if MANY else SEEDS[name][:1] for name, one in MISTAKES.items() if one.layer == layer]
    seeds = {seed for some in named for seed in some}
    said = {seed: wrong(None, seed, layer) for seed in sorted(seeds)}
    assert not {seed: found for seed, found in said.items() if found}
