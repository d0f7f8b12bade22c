"""The stages of a step with a body: the points of control flow beside its start that no document writes."""

from __future__ import annotations

from typing import Literal

from stepward.vm.language.node import EMPTY
from stepward.vm.language.steps.base import BaseStep
from stepward.vm.language.transitions import Exit


class Stage(BaseStep):
    """A point between the items of a for_each step, or behind branches; `owner` is the id of that step.

    `next`: the next item starts, or all items are done and the step ends. `failed`: an item failed, and with it the
    step. `joined`: all branches of a parallel step have ended, and the step ends. The id of a stage has a space, so
    that no step of a program has it.
    """

    type: Literal["stage"]
    role: Literal["next", "failed", "joined"]
    owner: str
    leaving: tuple[Exit, ...]

    has_output = False
    sub_steps = ()
    calls = ()
    assigns = EMPTY
    expressions = ()
    templates = ()
    targets = ()
    max_visits = None

    @classmethod
    def of(cls, owner: str, role: Literal["next", "failed", "joined"], leaving: tuple[Exit, ...]) -> Stage:
        """Return a stage of the step `owner`, with its exits."""
        fields = {"id": f"{owner} {role}", "type": "stage", "role": role, "owner": owner, "leaving": leaving}
        return cls._of(fields)

    @property
    def exits(self) -> tuple[Exit, ...]:
        """To the next item, to the successor of the step, or where a failure of the step leads."""
        return self.leaving
