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
        waiting: list[int] = []  # visited, and not yet in a component
        visited += 1
        lowest[root] = visited
        path = [(root, visited, len(waiting), iter(successors[root]))]
        waiting.append(root)
        while path:
            step, number, height, following = path[-1]
            for target in following:
                if not lowest[target]:
                    visited += 1
                    lowest[target] = visited
                    path.append((target, visited, len(waiting), iter(successors[target])))
                    waiting.append(target)
                    break
                if lowest[target] < lowest[step]:  # noqa: PLR1730 - `min` takes as long as all the rest
                    lowest[step] = lowest[target]
            else:
                path.pop()
                if path and lowest[step] < lowest[path[-1][0]]:
                    lowest[path[-1][0]] = lowest[step]
                if lowest[step] == number:
                    component = waiting[height:]
                    del waiting[height:]
                    for member in component:
                        lowest[member] = closed
                    yield component
