"""Interleavings: callers, drivers, people and attackers in any order, by a rule-based state machine of Hypothesis."""

from __future__ import annotations

import itertools
from functools import partial
from typing import TYPE_CHECKING, Final

from stepward.sabotage.attack import Attack, Family, Need, Stateful
from stepward.sabotage.invariants import Invariant, Outcome
from stepward.sabotage.playing.actors import Actors
from stepward.sabotage.playing.case import Case
from stepward.sabotage.playing.interleaving import Crossing, interleave
from stepward.sabotage.playing.trial import Trial
from stepward.sabotage.target import Target
from stepward.vm.machine.run import Run

if TYPE_CHECKING:
    from collections.abc import Callable

    from hypothesis.stateful import RuleBasedStateMachine


class ActorsInAnyOrder(Stateful):
    """Two runs are started, recovered, answered, cancelled and erased in any order. Any process may die at any point,
    and an attacker uses their tokens and ids again.
    """

    family = Family.TIME
    surface = "all requests of a caller to a machine"
    action = "made in any order, by processes that die"
    invariant = Invariant.ONCE
    defence = "every action is decided only from the journal, under a lease"
    weight = 4

    def play(self, case: Case) -> Outcome:
        """Make the moves of a script, one after the other."""
        actors = Actors(case)
        number = 1
        while (move := case.choices.decisions.get(f"move {number}")) is not None:
            actors.do(move)
            number += 1
        return _outcome(actors)

    def state_machine(
        self,
        begin: Callable[[], Case],
        end: Callable[[Case, Outcome], None],
        broke: Callable[[Case, Exception], None],
    ) -> type[RuleBasedStateMachine]:
        """Return the state machine whose rules are the moves."""
        from stepward.sabotage.playing.everybody import Everybody

        class OneCase(Everybody):
            pass

        OneCase.begin = staticmethod(begin)
        OneCase.end = staticmethod(lambda case, actors: end(case, _outcome(actors)))
        OneCase.broke = staticmethod(broke)
        return OneCase


def _outcome(actors: Actors) -> Outcome:
    if not actors.trials:
        return Outcome.NOT_APPLICABLE
    return Outcome.BLOCKED if actors.refusals else Outcome.ABSORBED


def _siblings(target: Target) -> list[str]:
    """Return the calls that may go on beside others: sub-steps, and calls in branches or in items that run at once."""
    layout = target.program.layout
    inside = frozenset[int]().union(*map(layout.inside, layout.sibling_bodies))
    return [call.id for step in target.plan.steps if step.is_parallel or step.position in inside for call in step.calls]


class SiblingComesLate(Attack):
    """One call of a parallel step, a branch or an item returns late, while records and vault values of its siblings are
    written."""

    family = Family.TIME
    surface = "calls that go on at once"
    action = "one of them returns between any two calls of the store"
    invariant = Invariant.KEPT
    defence = "each record is written together with its values, whatever its siblings write at the same time"
    severity = "high"
    weight = 10
    enumerates = "each call that has siblings, and the number of points that these pass before it returns"
    needs = (Need("no calls go on at once", _siblings),)

    def play(self, case: Case) -> Outcome:
        """Check that the run ends as predicted, also for another process that reads it."""
        places = list(itertools.product(_siblings(case.target), range(LATEST)))
        for sibling, late in case.each("which comes how late", places):
            trial = Trial(case)
            case.act(f"`{sibling}` comes back after {late} other points")
            works = {"alone": partial(_whole, trial)}
            result = case.do(interleave(case, works, choose=_Late(sibling, late)))["alone"]
            case.hold(isinstance(result, Run), self.invariant, f"the run came to {result}")
            trial.oracle.judge(trial.carry_on(result))
        return Outcome.ABSORBED


LATEST: Final = 12
"""The largest number of points that siblings pass before a call returns."""


class _Late:
    """Lets a call return once others have passed a number of points, or nothing else moves.

    Of items that run at once, the call of the one that has waited longest is late.
    """

    def __init__(self, call: str, late: int) -> None:
        self._end = f" was asked by `{call}`"
        self._left = late

    def __call__(self, standing: list[str]) -> int:
        late = next((number for number, point in enumerate(standing) if point.endswith(self._end)), None)
        others = [number for number in range(len(standing)) if number != late]
        if late is not None and others:
            self._left -= 1
            return others[0] if self._left >= 0 else late
        return 0


async def _whole(trial: Trial, points: Crossing) -> Run:
    return await trial.machine(points).run(trial.target.program, trial.inputs, run_id=trial.run, by=trial.by)
