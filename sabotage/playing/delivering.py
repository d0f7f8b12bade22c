"""Helpers for attacks on deliveries: drive a run until it waits, and check that a refused delivery changes nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final

from stepward.sabotage.invariants import Breach, Invariant
from stepward.sabotage.playing.answers import CallAnswer
from stepward.sabotage.playing.places import Place
from stepward.sabotage.playing.world import Asking
from stepward.vm.errors import StepwardError
from stepward.vm.machine.keys import shown
from stepward.vm.machine.refusals import DeliveryRefused
from stepward.vm.machine.run import Run

if TYPE_CHECKING:
    from stepward.sabotage.playing.trial import Trial

MAX_STOPS: Final = 50
"""The largest number of deliveries in the search for a step at which a run waits."""


def stopped(trial: Trial, run: Run, waits: Callable[[Run], object]) -> Run:
    """Drive a run until it ends or waits as required."""
    for _ in range(MAX_STOPS):
        if run.is_over or waits(run):
            break
        run = trial.deliver(run, trial.machine())
    return run


def suspended(trial: Trial, run: Run) -> Run:
    """Drive a run until it waits for a token. Raises NotApplicable if it ends first."""
    run = stopped(trial, run, lambda one: one.suspensions)
    trial.case.needs(run.suspensions)
    return run


def in_doubt(trial: Trial) -> Run:
    """Start a run in which one write, chosen by the attack, is in doubt. Raises NotApplicable if none is."""
    from hypothesis import strategies as st

    case = trial.case
    number = case.pick(trial.named("writes before the one that is lost"), st.integers(0, 3))
    kind = case.pick(trial.named("the lost write"), st.sampled_from(["unknown-done", "unknown"]))
    seen: list[Place] = []

    def decide(asking: Asking) -> CallAnswer | None:
        if not asking.call.writes:
            return None
        place = asking.place
        if place not in seen:
            seen.append(place)
        is_lost = seen.index(place) == number and not trial.world.settled[shown(asking.frame, asking.call.id)]
        return CallAnswer(kind) if is_lost else None

    trial.world.decides.append(decide)
    run = stopped(trial, trial.start(), lambda one: one.doubts)
    case.needs(run.doubts)
    return run


def refused(
    trial: Trial,
    what: str,
    work: Coroutine[Any, Any, Any],
    *,
    invariant: Invariant = Invariant.DELIVERY,
    errors: tuple[type[StepwardError], ...] = (DeliveryRefused,),
) -> None:
    """Check that a delivery is refused with one of `errors`, and that only the refusal is written. Raises Breach."""
    case, store = trial.case, trial.store.inner
    length, effects = len(store.read(trial.run)), len(trial.world.attempts)
    case.act(what)
    try:
        run = case.do(work)
    except errors:
        pass
    else:
        raise Breach(invariant, f"{what}: it was taken, and the run is {getattr(run, 'status', run)}")
    for entry in store.read(trial.run, length):
        kind = json.loads(entry.record)["kind"]
        case.hold(kind == "refused", invariant, f"{what}: it was refused, and yet `{kind}` was written")
    case.hold(len(trial.world.attempts) == effects, invariant, f"{what}: it was refused, and yet something was called")
