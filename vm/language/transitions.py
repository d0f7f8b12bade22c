"""What control flow is made of: the ways out that a step states, the transitions that they become, and endings."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

Kind = Literal["success", "fallback", "skipped", "failed", "branch", "uncovered", "visits", "end"]
"""Why control goes on: what became of the step.

`success`, `fallback` and `skipped` go to the successor; `failed` to the error step, or ends the run (a condition or a
`set` fails only where an expression has no value); `branch` is a condition's choice, `uncovered` that it has none;
`visits` that the step was not started again; `end` an `end` step.
"""

Status = Literal["SUCCESS", "FAILED", "STALLED"]

END: Final = -1
"""The run ends: the transition has an ending."""

MISSING: Final = -2
"""The program names a step that it does not have."""


class Ending(NamedTuple):
    """How a run ends: its status, and the reason: `declared` for an ending that the program itself states."""

    status: Status
    reason: Literal["declared", "error", "uncovered", "visits"]


SUCCEEDED: Final = Ending("SUCCESS", "declared")
DECLARED_FAILURE: Final = Ending("FAILED", "declared")


class Transition(NamedTuple):
    """One way out of a step. `to` is the position of the next step, END or MISSING.

    `field` is the path, below the step, of the field that names the target; `branch` is `then`, `otherwise`, or the
    number of a case counted from 1.
    """

    kind: Kind
    to: int
    ending: Ending | None = None
    branch: str | int | None = None
    field: tuple[str | int, ...] = ()

    @property
    def is_drawn(self) -> bool:
        """Whether the program states this way itself: an edge of the graph or a declared ending."""
        return self.to != END or (self.ending is not None and self.ending.reason == "declared")


class Exit(NamedTuple):
    """One way out of a step, as the step alone states it.

    It leads to the step with the id `target`, which the field at the path `field` names; or it is an `ending`; with
    neither it leads to the successor, which depends on the rest of the program.
    """

    kind: Kind
    target: str | None = None
    field: tuple[str | int, ...] = ()
    branch: str | int | None = None
    ending: Ending | None = None


SUCCESS: Final = Exit("success")
FAILURE: Final = Exit("failed", ending=Ending("FAILED", "error"))
UNCOVERED: Final = Exit("uncovered", ending=Ending("FAILED", "uncovered"))
STALLED: Final = Exit("visits", ending=Ending("STALLED", "visits"))
