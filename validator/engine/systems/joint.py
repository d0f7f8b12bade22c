"""The joint outcomes of the sub-steps of a parallel step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from typing import Final, NamedTuple

from stepward.validator.analysis.product import CallOutcome
from stepward.validator.engine.systems.system import Guard
from stepward.vm.language.order import Order
from stepward.vm.language.steps import Call
from stepward.vm.language.steps.catching import DEPENDENCY

MAX_CALL_OUTCOMES: Final = 64
"""The most combinations of sub-step outcomes; beyond that each output may be defined or not."""

SUCCEEDS: Final[CallOutcome] = "succeeds"
FALLS_BACK: Final[CallOutcome] = "times out"
FAILED: Final[CallOutcome] = "fails"
UNSTARTED: Final[CallOutcome] = "unstarted"

GIVES: Final = (SUCCEEDS, FALLS_BACK)
"""The outcomes with an output."""

Guards = tuple[Guard, ...]


class CallResult(NamedTuple):
    """What becomes of a call, and the name of its error; an empty one if it did not fail."""

    result: CallOutcome
    name: str


Outcome = tuple[CallResult, Guards]
"""An outcome of a call, with the guards under which it is possible."""

_LACKS: Final[Outcome] = (CallResult(UNSTARTED, DEPENDENCY), ())


def fails(call: Call, outcome: CallResult) -> bool:
    """Return whether the result of a call makes its parallel step fail."""
    return outcome.result in (FAILED, UNSTARTED) and call.on_error != "skip"


def first_failure(results: Iterable[tuple[Call, CallResult]]) -> str | None:
    """Return the name of the error of a parallel step, None if it succeeds.

    It is that of the first call that failed, in the order of the list. Those that only lack an output are passed over.
    """
    names = [outcome.name for call, outcome in results if fails(call, outcome)]
    return next((name for name in names if name != DEPENDENCY), names[0] if names else None)


def joint(choices: Sequence[Sequence[Outcome]], order: Order | None) -> list[tuple[Outcome, ...]] | None:
    """Return all joint outcomes of sub-steps, given those of each one; None if there are too many.

    With an order, a sub-step that depends on one without an output does not start.
    """
    if order is None:
        total = 1
        for each in choices:
            total *= len(each)
        return list(product(*choices)) if total <= MAX_CALL_OUTCOMES else None
    combinations: list[dict[int, Outcome]] = [{}]
    for sub in order.line:
        combinations = [
            {**before, sub: result}
            for before in combinations
            for result in (
                choices[sub] if all(before[one][0].result in GIVES for one in order.needs[sub]) else [_LACKS]
            )
        ]
        if len(combinations) > MAX_CALL_OUTCOMES:
            return None
    return [tuple(one[sub] for sub in range(len(choices))) for one in combinations]
