"""What decides a move: the outcomes of conditions, and whether names are defined."""

from __future__ import annotations

from stepward.validator.engine.systems.system import FAILS, NONE_HOLDS, Decision
from stepward.validator.engine.values.domains import Names
from stepward.vm.expressions.syntax import Defined, Expression, Logic, Reference
from stepward.vm.language.steps import ConditionStep
from stepward.vm.language.transitions import Transition


def outcomes(step: ConditionStep, transition: Transition) -> tuple[int, ...]:
    """Return the outcomes of a condition step's decision that lead to a transition."""
    if transition.kind == "failed":
        return (FAILS,)
    if transition.kind == "uncovered":
        lacks_then = step.condition is not None and step.then is None
        return (*((0,) if lacks_then else ()), *((NONE_HOLDS,) if step.otherwise is None else ()))
    if transition.branch == "then":
        return (0,)
    return (transition.branch - 1,) if isinstance(transition.branch, int) else (NONE_HOLDS,)


def all_defined(names: list[Names]) -> Decision | None:
    """Return the decision whether all of some names are defined; None if there are none."""
    return Decision((conjunction([Defined(0, 0, Reference(0, 0, name)) for name in names]),)) if names else None


def conjunction(trees: list[Expression]) -> Expression:
    """Return the expression that all of some expressions hold."""
    return trees[0] if len(trees) == 1 else Logic(0, 0, "and", tuple(trees))
