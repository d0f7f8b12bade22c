"""Arms: the steps that a branch, a case or an `error_step` names, after which a run may end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from stepward.vm.language.flow import Flow
from stepward.vm.language.transitions import END, Transition

MAX_TRIED: Final = 20
"""Ambiguous arms, or steps of a loop, for which suggestions are tried; each try checks the whole program."""


def ends_the_run(flow: Flow, number: int) -> bool:
    """Return whether a run that succeeds in a step ends there, or the body in which the step is."""
    return any(
        (transition.to == END or transition.ending is not None) and transition.kind in ("success", "end")
        for transition in flow.transitions[number]
    )


def arm_words(flow: Flow, target: str) -> str:
    """Return in words how the first step that names an arm does so: as a branch, or as its `error_step`."""
    number, transition = next(naming_transitions(flow, target), (None, None))
    if number is None or transition is None:  # the `error_step` of a step that can't fail
        return "named as an arm"
    kind = "a branch" if transition.kind == "branch" else f"the `{transition.field[0]}`"
    return f"{kind} of `{flow.steps[number].id}`"


def naming_transitions(flow: Flow, target: str) -> Iterator[tuple[int, Transition]]:
    """Yield each step that names another in a branch, a case or an `error_step`, with the transition."""
    position = flow.position[target]
    for number, transitions in enumerate(flow.transitions):
        for transition in transitions:
            if transition.to == position and transition.kind in ("branch", "failed", "visits"):
                yield number, transition
