"""The engine with one of its layers alone, so that all it says beyond the graph is what that one says; or in haste."""

from __future__ import annotations

from typing import Any

import pytest

from stepward.validator.engine import dead, reach
from stepward.validator.engine.search import explicit
from stepward.validator.engine.smt import solver
from stepward.validator.engine.values.cuts import TooMany

LAYERS = {
    "finite abstraction": "_finite",
    "explicit search": "_explicit",
    "block formula": "_formula",
}


def only(patch: pytest.MonkeyPatch, layer: str) -> None:
    """Let one layer answer for all."""
    search = reach._Search
    asked = getattr(search, LAYERS[layer])
    for name in LAYERS.values():
        patch.setattr(search, name, _silent)
    # `_finite` is asked first, and asks explicit search itself where it can't say.
    patch.setattr(search, "_finite" if layer == "explicit search" else LAYERS[layer], asked)
    if layer == "explicit search":
        patch.setattr(reach, "FEW_STATES", explicit.MAX_STATES)
        patch.setattr(dead, "Table", _refused)


def impatient(patch: pytest.MonkeyPatch) -> None:
    """Let the engine give up early on what no layer decides: whoever asks what is done with findings need not wait."""
    patch.setattr(reach, "MAX_UNITS", reach.MAX_UNITS // 20)
    patch.setattr(solver, "MAX_UNITS", solver.MAX_UNITS // 20)


def _silent(self: Any, system: Any) -> None:
    return None


def _refused(*asked: Any) -> None:
    raise TooMany
