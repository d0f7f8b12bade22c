"""Strongly connected components (Tarjan, "Depth-first search and linear graph algorithms", 1972), without recursion."""

from __future__ import annotations

from collections.abc import Iterator, Sequence


def loops_among(steps: Sequence[int], successors: Sequence[Sequence[int]]) -> Iterator[list[int]]:
    """Yield the loops that some steps form, each in ascending order: components with an edge inside.

    Edges to other steps than those are left out.
    """
    for component in components_among(steps, successors):
        if len(component) > 1 or component[0] in successors[component[0]]:
            yield sorted(component)


def components_among(steps: Sequence[int], successors: Sequence[Sequence[int]]) -> Iterator[list[int]]:
    """Yield the components that some steps form, a single step being one, each after all that it leads to.

    Edges to other steps than those are left out.
    """
    closed = len(successors) + 1  # higher than any number that a step gets
    lowest = [closed] * len(successors)  # the lowest number that is known to be reached from a step; 0: not visited yet
    for step in steps:
        lowest[step] = 0
    visited = 0
    for root in steps:
        if lowest[root]:
            continue
        visited += 1
        lowest[root] = visited
        waiting = [root]  # visited, and not yet in a component
        path = [(root, visited, iter(successors[root]))]
        while path:
            step, number, following = path[-1]
            low = lowest[step]
            for target in following:
                reached = lowest[target]
                if not reached:
                    visited += 1
                    lowest[target] = visited
                    waiting.append(target)
                    path.append((target, visited, iter(successors[target])))
                    break
                if reached < low:  # noqa: PLR1730 - `min` takes as long as all the rest
                    low = reached
            else:
                path.pop()
                if low == number:
                    yield _component(step, waiting, lowest, closed)
                elif low < lowest[path[-1][0]]:
                    lowest[path[-1][0]] = low
                continue
            lowest[step] = low


def _component(first: int, waiting: list[int], lowest: list[int], closed: int) -> list[int]:
    """Take from the steps that wait the component of which `first` was visited first."""
    component = []
    while True:
        member = waiting.pop()
        lowest[member] = closed
        component.append(member)
        if member == first:
            return component
