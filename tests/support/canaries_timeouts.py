"""Canaries of the time that runs may take; a helper, no tests stand here."""

from __future__ import annotations

import pytest

from canaries import Canary
from rewriting import rewrite
from stepward.sabotage.campaigns.specimen_programs import specimen
from stepward.vm.machine import continuation, replay
from stepward.vm.machine.continuing import allowed_budgets
from stepward.vm.machine.driver import Driver

DUNNING = specimen("dunning")


def inherits_no_time(patch: pytest.MonkeyPatch) -> None:
    def without_time(chain: object, granted: object) -> dict[str, object]:
        return {name: most for name, most in allowed_budgets(chain, granted).items() if name != "time"}  # type: ignore[arg-type]

    patch.setattr(continuation, "allowed_budgets", without_time)


def any_limit(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(replay, "start_misfit", lambda plan, note, at: None)


def any_ending(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(replay, "ending_misfit", lambda plan, state, happened: None)


def looks_before_the_pause(patch: pytest.MonkeyPatch) -> None:
    """Ask for the time of the run, wait, and then call."""
    look = "    if is_out_of_time(self) and not call.is_started:\n        return\n"
    rewrite(
        patch,
        Driver,
        "attempt",
        ("    if is_retry and not is_started:\n", f"{look}    if is_retry and not is_started:\n"),
        (" or (state.ends_by and is_out_of_time(self)))", ")"),
    )


CANARIES = (
    Canary(
        "looks-before-the-pause",
        "no attempt starts when the time is over",
        "time-at-the-edge",
        DUNNING,
        looks_before_the_pause,
    ),
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
