"""One exit of a step: where it leads, and what it does to the references that a certificate follows."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from stepward.validator.recheck.flow import Transition
from stepward.validator.recheck.followed import Changes

NOTHING: Final[frozenset[int | None]] = frozenset()
ALONE: Final[frozenset[int | None]] = frozenset({None})
"""The step itself, and none of its sub-steps."""


class Exit(NamedTuple):
    """An exit: its changes, the parts that started and those that succeeded (None is the step itself), and the cost."""

    transition: Transition
    changes: Changes
    started: frozenset[int | None]
    succeeded: frozenset[int | None]
    cost: int


class Outcome(NamedTuple):
    """An outcome of a call: the kind of its transition, its changes, whether it started, its cost, and its error."""

    kind: Literal["success", "fallback", "failed"]
    changes: Changes
    is_started: bool
    cost: int
    error: str = ""


def both(before: Exit, result: Exit) -> Exit:
    """Return the exit of a step of which two parts were left, one after the other."""
    changes = tuple(sorted({**dict(before.changes), **dict(result.changes)}.items()))
    return Exit(
        before.transition,
        changes,
        before.started | result.started,
        before.succeeded | result.succeeded,
        before.cost + result.cost,
    )
