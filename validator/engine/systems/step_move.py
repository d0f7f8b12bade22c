"""A move: one outcome of a step."""

from __future__ import annotations

from typing import NamedTuple

from stepward.validator.analysis.product import CallOutcome
from stepward.validator.engine.systems.joint import Guards
from stepward.validator.engine.systems.system import Assign
from stepward.vm.language.transitions import Transition


class StepMove(NamedTuple):
    """One move of a step: its transition, its guards, its assignments, and its cost in `max_steps`.

    `errors` are the names of the errors of the calls that failed, as those of `call_outcomes`.
    """

    transition: Transition
    guards: Guards
    assigns: tuple[Assign, ...]
    call_outcomes: tuple[tuple[int | None, CallOutcome], ...]
    cost: int
    errors: tuple[tuple[int | None, str], ...] = ()
