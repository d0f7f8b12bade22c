"""Branches in a picture: control flow has them one after another, and a picture shows them side by side."""

from __future__ import annotations

from collections.abc import Iterator

from stepward.vm.language.flow import Flow
from stepward.vm.language.layout import Fork
from stepward.vm.language.transitions import Transition


def beside(flow: Flow, number: int) -> Iterator[tuple[int, Transition]]:
    """Yield the transitions of a step as a picture shows them, each with its index among those of control flow."""
    layout = flow.layout
    fork = layout.forks.get(number)
    for index, transition in enumerate(flow.transitions[number]):
        if fork is not None and transition.kind == "success":
            first = [start for place, start in enumerate(fork.branches) if not fork.needs[place]]
            yield from ((index, transition._replace(to=start)) for start in first)
            continue
        ended = _ended(flow, number)
        if ended is not None:
            fork, place = ended
            has_failed = number == layout.bodies[fork.branches[place]].failed
            behind = [fork.join] if has_failed else _behind(fork, place)  # what needs a branch that failed never starts
            yield from ((index, Transition("success", to)) for to in behind)
        elif not (transition.kind == "skipped" and number in layout.forked and number in layout.bodies):
            yield index, transition


def _ended(flow: Flow, stage: int) -> tuple[Fork, int] | None:
    """Return the fork of the branch that ends at a stage, and the place of the branch; None for another step."""
    for fork in flow.layout.forks.values():
        for place, start in enumerate(fork.branches):
            body = flow.layout.bodies[start]
            if stage in (body.next, body.failed):
                return fork, place
    return None


def _behind(fork: Fork, place: int) -> list[int]:
    """Return the branches that need a branch directly; the join where none does."""
    found = [start for other, start in enumerate(fork.branches) if place in fork.needs[other]]
    return found or [fork.join]
