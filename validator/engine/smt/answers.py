"""The answers of the solver layers: proved with a justification, a candidate path, or unknown with a reason."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from stepward.validator.engine.systems.system import Path
from stepward.validator.findings import Verdict

SOLVER: Final = "smt"
"""The name of the solver layer for the cases of one step."""

SPENT: Final = "the solver gave up within its limit of work"


class Undecided(Exception):  # noqa: N818 - an answer
    """A layer for the cases of one step stops without an answer; the message says why."""


class Spent(Exception):  # noqa: N818 - never seen outside of the solver layers
    """The solver stopped at its limit."""


@dataclass(frozen=True)
class SystemAnswer:
    """The answer of a layer for a system.

    Proved: there is no path to BAD; `proof` writes SMT-LIB 2 texts that must be unsatisfiable, for any solver, by what
    each shows.
    Violated: every guard holds on `path`; in a system with loops the path is only a candidate, since the effect of a
    loop is guessed and not among its steps. Unknown: with `reason`. `units` is the amount of work.
    """

    verdict: Verdict
    layer: str
    path: Path | None = None
    reason: str = ""
    proof: Mapping[str, Callable[[], str]] | None = None
    units: int = 0


def unknown(layer: str, reason: str, units: int = 0) -> SystemAnswer:
    """Return the answer `unknown` with a reason."""
    return SystemAnswer(Verdict.UNKNOWN, layer, reason=reason, units=units)
