"""What the solver layers answer: proved and why, a candidate path, or unknown and why."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

from stepward.validator.engine.systems.system import Path
from stepward.validator.findings import Verdict

SOLVER: Final = "smt"
"""The layer of the solver for the cases of one step."""

SPENT: Final = "the solver gave up within the work that it may take"


class Undecided(Exception):  # noqa: N818 - an answer
    """A layer for the cases of one step gives up; the message says why."""


class Script(NamedTuple):
    """SMT-LIB 2 text that must be unsatisfiable, and what that shows."""

    shows: str
    text: str


@dataclass
class Proof:
    """What makes a proof believed: scripts that are each unsatisfiable. Any solver can check them.

    The text is written when it is first asked for.
    """

    write: Callable[[], tuple[Script, ...]]

    @cached_property
    def scripts(self) -> tuple[Script, ...]:
        """The scripts."""
        return self.write()


@dataclass(frozen=True)
class Answer:
    """What a layer found of a system.

    Proved: there is no path to BAD; `proof` says why. Violated: `path` is one on which every guard holds; in a system
    with loops it is a mere candidate, since what a loop does is guessed and left out of its steps. Unknown: `reason`
    says why. `units` is the work that was done.
    """

    verdict: Verdict
    layer: str
    path: Path | None = None
    reason: str = ""
    proof: Proof | None = None
    units: int = 0


def unknown(layer: str, reason: str, units: int = 0) -> Answer:
    """Return the answer that nothing is known."""
    return Answer(Verdict.UNKNOWN, layer, reason=reason, units=units)
