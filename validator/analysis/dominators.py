"""Immediate dominators (Cooper, Harvey and Kennedy, "A simple, fast dominance algorithm", 2001)."""

from __future__ import annotations

from collections.abc import Sequence


class Dominators:
    """The steps that are on every path from the entry (step 0) to a step. A query takes constant time.

    NetworkX has `immediate_dominators`, which takes seconds where thousands of steps name one error step.
    """

    def __init__(self, order: list[int], predecessors: Sequence[Sequence[int]]) -> None:
        """Take the steps that are reachable from the entry, each after its successors in a depth-first walk."""
        self._immediate = _immediate(order, predecessors)
        self._enter, self._leave = _intervals(self._immediate, order)

    def dominates(self, above: int, below: int) -> bool:
        """Return whether every path from the entry to `below` passes through `above`; every step dominates itself."""
        return self._enter[above] <= self._enter[below] and self._leave[below] <= self._leave[above]


def _immediate(order: list[int], predecessors: Sequence[Sequence[int]]) -> list[int]:
    rank = [-1] * len(predecessors)
    for number, step in enumerate(order):
        rank[step] = number
    immediate = [-1] * len(predecessors)
    immediate[0] = 0
    is_first = has_changed = True
    while has_changed:
        has_changed = False
        for step in reversed(order):
            if step == 0:
                continue
            nearest = -1
            for before in predecessors[step]:
                if immediate[before] >= 0:
                    nearest = before if nearest < 0 else _common(nearest, before, immediate, rank)
                elif rank[before] >= 0:
                    has_changed = True  # it comes later in this order, so it closes a loop
            if immediate[step] != nearest:
                immediate[step] = nearest
                has_changed |= not is_first
        is_first = False
    return immediate


def _common(left: int, right: int, immediate: list[int], rank: list[int]) -> int:
    while left != right:
        while rank[left] < rank[right]:
            left = immediate[left]
        while rank[right] < rank[left]:
            right = immediate[right]
    return left


def _intervals(immediate: list[int], order: list[int]) -> tuple[list[int], list[int]]:
    """Number the dominator tree in depth-first order, so that an ancestor's interval holds its descendants'."""
    children: list[list[int]] = [[] for _ in immediate]
    for step in order:
        if step != 0:
            children[immediate[step]].append(step)
    enter, leave = [-1] * len(immediate), [-2] * len(immediate)
    clock = 0
    pending = [0]
    while pending:
        step = pending.pop()
        if step < 0:
            leave[~step] = clock
            continue
        enter[step] = clock
        clock += 1
        pending.append(~step)
        pending.extend(children[step])
    return enter, leave
