"""Injection: whoever writes what comes from outside wants it to be more than data."""

from __future__ import annotations

from stepward.sabotage.answers import Answer, wrong_answers
from stepward.sabotage.attack import Attack, Family
from stepward.sabotage.invariants import Invariant, Outcome
from stepward.sabotage.stage import Stage
from stepward.sabotage.target import Target
from stepward.sabotage.world import Asking


class ReplyOutsideTheSet(Attack):
    """The model replies with something that looks like an allowed output, and is none."""

    name = "reply-outside-the-set"
    family = Family.INJECTION
    surface = "model reply"
    action = "a reply beside the allowed outputs"
    invariant = Invariant.DATA
    defence = "a reply is held against `allowed_outputs`, exactly"
    severity = "critical"

    def misses(self, target: Target) -> str | None:
        """It needs a step with `allowed_outputs`."""
        return None if any(call.allowed for call in target.models) else "no step has `allowed_outputs`"

    def play(self, stage: Stage) -> Outcome:
        """Answer every closed question wrongly, and see that the program goes where a rejected reply leads."""
        scene = stage.scene()
        wrong = []

        def decide(asking: Asking) -> Answer | None:
            if asking.call.allowed is None:
                return None
            among = wrong_answers(stage.target, asking.call)
            assert among is not None, "there is always a reply that is not allowed"
            data = stage.pick(f"wrong reply: {asking.name}", among)
            wrong.append(asking)
            return Answer(data["does"], data["value"])

        scene.world.decides.append(decide)
        scene.finish()
        return Outcome.BLOCKED if wrong else Outcome.NOT_APPLICABLE


ATTACKS: tuple[type[Attack], ...] = (ReplyOutsideTheSet,)
