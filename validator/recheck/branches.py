"""Branches of a program: their order, and what makes a program with branches unreadable."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from stepward.validator.recheck.definite import read_by
from stepward.validator.recheck.evaluation import references
from stepward.validator.recheck.flow import Control
from stepward.validator.recheck.names import Names
from stepward.validator.recheck.parsed import Parsed
from stepward.validator.recheck.refusals import Unreadable
from stepward.vm.language.layout import Layout
from stepward.vm.language.steps import BranchStep, ForEachStep


class Sibling(NamedTuple):
    """A branch: the position of its step, its place among its siblings, and the places of those before it."""

    fork: int
    number: int
    before: frozenset[int]


def siblings(layout: Layout) -> dict[int, Sibling]:
    """Return the branches of a program by the positions of their starts; raises Unreadable for an impossible order."""
    branches: dict[int, Sibling] = {}
    for owner, fork in layout.forks.items():
        numbers = {layout.steps[start].id: number for number, start in enumerate(fork.branches)}
        before: list[frozenset[int]] = []
        for number, start in enumerate(fork.branches):
            step = layout.steps[start]
            assert isinstance(step, BranchStep)
            needed = {numbers.get(name, number) for name in step.needs}
            if any(one >= number for one in needed):
                raise Unreadable(f"the branch `{step.id}` depends on what does not come before it")
            before.append(frozenset(needed).union(*(before[one] for one in needed)))
            branches[start] = Sibling(owner, number, before[-1])
    return branches


def unseen(layout: Layout, step: int) -> frozenset[str]:
    """Return the branches that stand before a step in the layout, without those on which its own branch depends."""
    known = siblings(layout)
    enclosing = [known[owner] for owner in layout.owners_of(step) if owner in known]
    return frozenset(
        layout.steps[start].id
        for start, one in known.items()
        for own in enclosing
        if one.fork == own.fork and one.number < own.number and one.number not in own.before
    )


def in_branches(layout: Layout) -> frozenset[int]:
    """Return the steps of branches, with their starts, and those of items that run at once.

    Those of a sibling on a path need not have been performed.
    """
    starts = {start for fork in layout.forks.values() for start in fork.branches}
    return frozenset(starts.union(*(layout.inside(start) for start in (*starts, *items_at_once(layout)))))


def items_at_once(layout: Layout) -> dict[int, int]:
    """Return the for_each steps whose items run at once, each with the stage between its items.

    Raises Unreadable for one that carries variables from item to item.
    """
    stages: dict[int, int] = {}
    for owner, body in layout.bodies.items():
        step = layout.steps[owner]
        if isinstance(step, ForEachStep) and step.max_concurrency > 1:
            if step.carry:
                raise Unreadable(f"the items of `{step.id}` depend on each other, and run at once")
            stages[owner] = body.next
    return stages


def require_readable(reading: Parsed, control: Control) -> None:
    """Raise Unreadable where a branch reads a sibling that runs at the same time, or where a branch may never end."""
    layout = reading.layout
    for start, branch in siblings(layout).items():
        ids = {layout.steps[other].id: index for index, other in enumerate(layout.forks[branch.fork].branches)}
        for names in (names for number in layout.inside(start) for names in _read(reading, number)):
            is_value = names[0] in ids and names[1:2] and names[1] in ("output", "error", "error_name")
            if is_value and not (ids[names[0]] in branch.before and names[1] == "output"):
                raise Unreadable(f"the branch `{layout.steps[start].id}` reads a sibling that runs at once")
    free = {number for number in in_branches(layout) if layout.steps[number].max_visits is None}
    following = {
        number: {branch.to for branch in control.transitions[number] if branch.kind not in ("item", "again")} & free
        for number in free
    }
    while ends := [number for number, targets in following.items() if not targets & following.keys()]:
        for number in ends:
            del following[number]
    if following:
        raise Unreadable("a loop beside which others go on has no bound")


def _read(reading: Parsed, number: int) -> Iterator[Names]:
    """Yield the references of a step and its sub-steps."""
    step = reading.steps[number]
    yield from references(tree for tree in reading.expressions(number) if tree is not None)
    for part in (step, *step.sub_steps):
        yield from read_by(part)
