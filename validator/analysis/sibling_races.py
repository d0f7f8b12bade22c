"""Where a run may end while something is owed, because a sibling that is not behind it may start first.

A rule with `ends: any` asks that Q is the next to start after P. In a branch it is not if another branch can start a
step at that time. One that can start whenever the branch of P has started decides it, whatever the values are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from stepward.vm.language.flow import Flow
from stepward.vm.language.layout import Fork, Layout
from stepward.vm.language.steps import ToolStep

IsPaying = Callable[[int], bool]
"""Whether a Q starts at a position."""


def is_ordered(fork: Fork, left: int, right: int) -> bool:
    """Return whether two branches, by their indices, are one, or one comes before the other."""
    return left == right or left in fork.before[right] or right in fork.before[left]


def beside(layout: Layout, fork: Fork, index: int) -> Iterator[int]:
    """Yield the first steps of the branches that can start whenever a branch has, and have no order with it."""
    for number, start in enumerate(fork.branches):
        if not is_ordered(fork, index, number) and fork.before[number] <= fork.before[index]:
            yield layout.bodies[start].first


def behind(layout: Layout, fork: Fork, index: int) -> Iterator[int]:
    """Yield the first steps of the branches that can start as soon as a branch has succeeded.

    What has no order with that branch may have succeeded by then.
    """
    for number, start in enumerate(fork.branches):
        if index in fork.before[number] and not any(index in fork.before[one] for one in fork.before[number]):
            yield layout.bodies[start].first


def only_pays(layout: Layout, branch: int, is_paying: IsPaying) -> bool:
    """Return whether a branch starts nothing but a Q, as often as it starts something.

    A visit that `max_visits` passes starts none, and a budget of tokens may keep one of a model from its start.
    """
    steps = ((number, layout.steps[number]) for number in layout.inside(branch))
    return all(isinstance(step, ToolStep) and step.max_visits is None and is_paying(number) for number, step in steps)


def exposed(layout: Layout, is_paying: IsPaying) -> dict[int, int]:
    """Return the positions in branches beside which a step that is no Q can start, each with such a step.

    The stages behind a branch are among them if the other one comes later in the layout. A run for the report has the
    branches in this order, and the step is the next one there.
    """
    rival_at: dict[int, int] = {}
    for fork in layout.forks.values():
        for index, start in enumerate(fork.branches):
            body = layout.bodies[start]
            for rival in sorted(beside(layout, fork, index)):
                if is_paying(rival):
                    continue
                stages = (body.next, body.failed) if rival > body.next else ()
                positions = (*layout.inside(start), *(one for one in stages if one is not None))
                rival_at = {**dict.fromkeys(positions, rival), **rival_at}
    return rival_at


def is_decided(flow: Flow, step: int, is_paying: IsPaying) -> bool:
    """Return whether a step that is no Q can start in a sibling after a step, and one of the `exposed` places tells it.

    One that is the last of its branch has none if the sibling comes earlier in the layout.
    """
    layout, known = flow.layout, exposed(flow.layout, is_paying)
    if step not in known:
        return False
    branch = next(one for one in reversed(layout.owners_of(step)) if one in layout.forked)
    stages = {layout.bodies[branch].next, layout.bodies[branch].failed}
    is_last = layout.owner(step) != branch or step in layout.bodies or not stages.isdisjoint(flow.successors[step])
    return not is_last or layout.bodies[branch].next in known


def rivals(layout: Layout, is_paying: IsPaying) -> dict[int, dict[int, int]]:
    """Return, for the first step of a branch, the branches before it behind which a step that is no Q can start at
    once: their indices, each with such a step."""
    by_start: dict[int, dict[int, int]] = {}
    for fork in layout.forks.values():
        known = {
            index: one
            for index in range(len(fork.branches))
            for one in behind(layout, fork, index)
            if not is_paying(one)
        }
        for index, start in enumerate(fork.branches):
            by_start[layout.bodies[start].first] = {
                one: known[one] for one in sorted(fork.before[index]) if one in known
            }
    return by_start
