"""Who names a step in a branch, a case or an `error_step`, and what that does: the run ends after it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from stepward.vm.language.flow import Flow
from stepward.vm.language.transitions import END, Transition

MAX_TRIED: Final = 20
"""Ambiguous arms, or steps of a loop, of which an offer is tried; each takes a look at the whole program."""


def ends_the_run(flow: Flow, number: int) -> bool:
    """Return whether a run that succeeds in a step ends there."""
    return any(way.to == END and way.kind in ("success", "end") for way in flow.transitions[number])


def naming_words(flow: Flow, target: str) -> str:
    """Return what an arm is to the first step that names it: a branch, or its `error_step`."""
    number, way = next(namings(flow, target), (None, None))
    if number is None or way is None:  # the `error_step` of a step that can't fail
        return "named as an arm"
    kind = "a branch" if way.kind == "branch" else "the `error_step`"
    return f"{kind} of `{flow.steps[number].id}`"


def namings(flow: Flow, target: str) -> Iterator[tuple[int, Transition]]:
    """Yield the steps that name a step in a branch, a case or an `error_step`, and how."""
    position = flow.position[target]
    for number, ways in enumerate(flow.transitions):
        for way in ways:
            if way.to == position and way.kind in ("branch", "failed", "visits"):
                yield number, way
