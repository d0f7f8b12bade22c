"""The moves of a wait: it changes no value, and what it reads may be no time to wait."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from stepward.validator.engine.systems.deciding import all_defined
from stepward.validator.engine.systems.step_move import StepMove
from stepward.validator.engine.systems.system import Decision, Guard
from stepward.validator.engine.values.domains import Names
from stepward.vm.expressions.syntax import Constant
from stepward.vm.language.steps import WaitStep
from stepward.vm.language.transitions import Transition


def waited(
    step: WaitStep, doubtful: Mapping[Names, bool | None], transitions: Iterable[Transition]
) -> Iterator[StepMove]:
    """Yield the moves of a `wait` step; `doubtful` are its references that may be undefined, None for those that never
    exist."""
    readable = all_defined(list(doubtful)) if None not in doubtful.values() else Decision((Constant(0, 0, False),))
    for transition in transitions:
        if transition.kind == "success":
            yield StepMove(transition, () if readable is None else (Guard(readable, 0),), (), (), 1)
        elif transition.kind == "failed" and not step.is_constant:
            yield StepMove(transition, (), (), (), 1)
