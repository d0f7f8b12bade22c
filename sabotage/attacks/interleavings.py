"""Interleavings: callers, drivers, people and attackers in any order, by a rule-based state machine of Hypothesis."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stepward.sabotage.actors import Actors
from stepward.sabotage.attack import Attack, Family, Stateful
from stepward.sabotage.interleaving import Crossing, interleave
from stepward.sabotage.invariants import Invariant, Outcome
from stepward.sabotage.stage import Stage
from stepward.sabotage.target import Target
from stepward.vm.machine.run import Run

if TYPE_CHECKING:
    from collections.abc import Callable

    from hypothesis.stateful import RuleBasedStateMachine


class ActorsInAnyOrder(Stateful):
    """Two runs are started, recovered, answered, cancelled and erased in any order, any process may die at any point,
    and an attacker uses their tokens and ids again.
    """

    name = "actors-in-any-order"
    family = Family.TIME
    surface = "everything that a caller can ask of a machine"
    action = "asked in any order, by processes that die"
    invariant = Invariant.ONCE
    defence = "every action is decided from the journal alone, under a lease"
    severity = "critical"
    weight = 4

    def play(self, stage: Stage) -> Outcome:
        """Make the moves of a script, one after the other."""
        actors = Actors(stage)
        number = 1
        while (move := stage.choices.made.get(f"move {number}")) is not None:
            actors.do(move)
            number += 1
        return _outcome(actors)

    def state_machine(
        self,
        begin: Callable[[], Stage],
        end: Callable[[Stage, Outcome], None],
        broke: Callable[[Stage, Exception], None],
    ) -> type[RuleBasedStateMachine]:
        """Return the state machine whose rules are the moves."""
        from stepward.sabotage.everybody import Everybody

        class OneCase(Everybody):
            pass

        OneCase.begin = staticmethod(begin)
        OneCase.end = staticmethod(lambda stage, actors: end(stage, _outcome(actors)))
        OneCase.broke = staticmethod(broke)
        return OneCase


def _outcome(actors: Actors) -> Outcome:
    if not actors.scenes:
        return Outcome.NOT_APPLICABLE
    return Outcome.BLOCKED if actors.refusals else Outcome.ABSORBED


class SiblingsInAnyOrder(Attack):
    """The calls of a parallel step come back in any order, and while records, and values for the vault, of one of them
    are written."""

    name = "siblings-in-any-order"
    family = Family.TIME
    surface = "parallel calls"
    action = "brought back in any order, between any two calls of the store"
    invariant = Invariant.KEPT
    defence = "each record is written with its values, whatever its siblings write meanwhile"
    severity = "high"
    weight = 2

    def misses(self, target: Target) -> str | None:
        """It needs a parallel step."""
        return None if any(step.is_parallel for step in target.plan.steps) else "no step is parallel"

    def play(self, stage: Stage) -> Outcome:
        """See that the run comes to what it has to, also for another process that reads it."""
        scene = stage.scene()

        async def whole(points: Crossing) -> Run:
            return await scene.machine(points).run(stage.target.program, scene.inputs, run_id=scene.run)

        stage.count()
        result = stage.do(interleave(stage, {"alone": whole}, shuffles=True))["alone"]
        stage.hold(isinstance(result, Run), self.invariant, f"the run came to {result}")
        scene.oracle.judge(scene.carry_on(result))
        return Outcome.ABSORBED


ATTACKS: tuple[type[Attack], ...] = (ActorsInAnyOrder, SiblingsInAnyOrder)
