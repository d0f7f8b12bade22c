"""Canaries of the time that runs may take; a helper, no tests stand here."""

from __future__ import annotations

import pytest

from canaries import Canary
from stepward.sabotage.campaigns.specimen_waits import DUNNING
from stepward.vm.machine import continuation, replay
from stepward.vm.machine.continuing import allowed_budgets


def inherits_no_time(patch: pytest.MonkeyPatch) -> None:
    def without_time(last: object, granted: object) -> dict[str, object]:
        return {name: most for name, most in allowed_budgets(last, granted).items() if name != "time"}  # type: ignore[arg-type]

    patch.setattr(continuation, "allowed_budgets", without_time)


def any_limit(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(replay, "start_misfit", lambda plan, note, at: None)


def any_ending(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(replay, "ending_misfit", lambda plan, state, happened: None)


CANARIES = (
    Canary(
        "inherits-no-time", "a continuation has the time that is left", "time-asked-again", DUNNING, inherits_no_time
    ),
    Canary("any-limit", "a replay computes when the time of a run is over", "time-rewritten", DUNNING, any_limit),
    Canary(
        "any-ending-in-time",
        "a replay holds an ending against the time of the run",
        "time-rewritten",
        DUNNING,
        any_ending,
    ),
)
