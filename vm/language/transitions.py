"""The values of control flow: the exits that a step states, the transitions that they become, and endings."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

Kind = Literal["success", "fallback", "skipped", "failed", "branch", "uncovered", "visits", "end", "item", "again"]
"""Why control leaves a step.

`success`, `fallback` and `skipped` go to the successor; `failed` goes to the error step, or ends the run (a condition
or a `set` fails only if an expression has no value); `branch` is a condition's choice; `uncovered` means that no branch
applies, `visits` that the step has used up its visits; `end` is an `end` step. `item` goes from between the items of a
for_each step to the next one, `again` to the first one of another attempt.
"""

Status = Literal["SUCCESS", "FAILED", "STALLED"]

ANY: Final = "any"
"""The word that stands for every error in `catch`, and in `retry` for every error of a call that has started."""

END: Final = -1
"""The target of a transition that ends the run."""

MISSING: Final = -2
"""The target of a transition to a step that the program does not have."""


class Ending(NamedTuple):
    """How a run ends: its status and the reason, which is `declared` if the program itself states the ending."""

    status: Status
    reason: Literal["declared", "error", "uncovered", "visits"]


SUCCEEDED: Final = Ending("SUCCESS", "declared")
DECLARED_FAILURE: Final = Ending("FAILED", "declared")


class Transition(NamedTuple):
    """A transition out of a step; `to` is the position of the next step, END or MISSING.

    With an `ending` and a position, it ends a body in this way, and goes to a stage of the step with the body.

    `field` is the path, below the step, of the field that names the target; `branch` is `then`, `otherwise`, or the
    number of a case counted from 1. `errors` are those that a `catch` names, None where any error is taken.
    """

    kind: Kind
    to: int
    ending: Ending | None = None
    branch: str | int | None = None
    field: tuple[str | int, ...] = ()
    errors: tuple[str, ...] | None = None

    def takes(self, name: str) -> bool:
        """Return whether a failure of this name may take the transition, if none before it does."""
        return self.errors is None or name in self.errors or ANY in self.errors

    @property
    def is_drawn(self) -> bool:
        """Whether diagrams draw it: it goes to a step, or ends the run as the program declares."""
        return self.to != END or (self.ending is not None and self.ending.reason == "declared")


class Exit(NamedTuple):
    """An exit of a step, as the step alone states it.

    It leads to the step with the id `target`, which the field at the path `field` names; or it is an `ending`; with
    neither it leads to the successor, which depends on the rest of the program. `errors` are as in a transition.
    """

    kind: Kind
    target: str | None = None
    field: tuple[str | int, ...] = ()
    branch: str | int | None = None
    ending: Ending | None = None
    errors: tuple[str, ...] | None = None

    def takes(self, name: str) -> bool:
        """Return whether a failure of this name may take the exit, if none before it does."""
        return self.errors is None or name in self.errors or ANY in self.errors


SUCCESS: Final = Exit("success")
FAILURE: Final = Exit("failed", ending=Ending("FAILED", "error"))
UNCOVERED: Final = Exit("uncovered", ending=Ending("FAILED", "uncovered"))
STALLED: Final = Exit("visits", ending=Ending("STALLED", "visits"))
