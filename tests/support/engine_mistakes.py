"""Planted mistakes of the engine, each one change in one place; test_engine_mutants.py says which programs tell.

`python tests/support/engine_mistakes.py 600 [NAME…]` looks for such programs among the seeds below 600, and among those
that are written by hand; do so when small_programs.py makes other programs.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # as pytest does, for whoever runs this file

import mistakes_of_layers
import mistakes_of_systems
from comparing import compare, unchecked
from layers import only
from planting import Mistake
from small_programs import small_program

MISTAKES: dict[str, Mistake] = {
    name: one
    for module in (mistakes_of_systems, mistakes_of_layers)
    for name, one in vars(module).items()
    if isinstance(one, Mistake)
}


def given_away(found: list[str]) -> bool:
    """Whether the comparison met more than a checker that breaks: something that it said, or left unsaid."""
    return any("breaks" not in text and "not legal" not in text for text in found)


def wrong(name: str | None, seed: int, layer: str) -> list[str]:
    """Return what is wrong with what the checker says of a program, with a mistake planted, or none."""
    with pytest.MonkeyPatch.context() as patch:
        if layer:
            only(patch, layer)
        if name is not None:
            MISTAKES[name].plant(patch)
        return compare(small_program(seed), unchecked).wrong


def suits(program: str, sign: str) -> bool:
    """Whether a program has every word of a sign, and none that has a minus before it."""
    return all((word.lstrip("-") in program) != word.startswith("-") for word in sign.split())


def searched(name: str, seeds: range, wanted: int = 3) -> list[int]:
    """Return the first seeds that give a mistake away while the engine without it is right."""
    layer, sign = MISTAKES[name].layer, MISTAKES[name].sign
    found: list[int] = []
    for seed in seeds:
        if not suits(str(small_program(seed)), sign):
            continue
        if given_away(wrong(name, seed, layer)) and not wrong(None, seed, layer):
            found.append(seed)
            if len(found) == wanted:
                break
    return found


if __name__ == "__main__":
    for asked in sys.argv[2:] or MISTAKES:
        print(f'    "{asked}": {tuple(searched(asked, range(-12, int(sys.argv[1]))))},', flush=True)
