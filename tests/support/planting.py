"""What a planted mistake of the engine is; `engine_mistakes.py` lists them all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

ALL_LAYERS = ""
FINITE, EXPLICIT, FORMULA = "finite abstraction", "explicit search", "block formula"

Patch = pytest.MonkeyPatch


@dataclass(frozen=True)
class Mistake:
    """A change, the layer that is then asked alone (or all of them), and words of programs that may give it away.

    Programs that have a word with a minus before it are left out.
    """

    plant: Callable[[Patch], None]
    layer: str
    sign: str


def planted(layer: str = ALL_LAYERS, sign: str = "") -> Callable[[Callable[[Patch], None]], Mistake]:
    """Make a mistake of a function that plants it."""
    return lambda plant: Mistake(plant, layer, sign)
