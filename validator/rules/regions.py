"""Regions of steps that no run gets to: a finding stands at the first step of each, and speaks of the others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stepward.validator.analysis.components import components_among
from stepward.vm.language.flow import Flow


def regions_among(dead: Sequence[int], flow: Flow) -> Iterator[tuple[int, list[int]]]:
    """Yield the first step of each region of some steps, and the others that it leads to, in the order of the list.

    No other of the steps leads to a first one, but for those of a loop, which has one. Each step is in one region: that
    of the first, in the order of the list, that leads to it. `dead` is in that order.
    """
    among, successors = set(dead), flow.successors
    component_of = {number: name for name, loop in enumerate(components_among(dead, successors)) for number in loop}
    entered = {
        component_of[target]
        for number in dead
        for target in successors[number]
        if target in among and component_of[target] != component_of[number]
    }
    seen: set[int] = set()
    for first in dead:
        if first in seen or component_of[first] in entered:
            continue
        seen.add(first)
        pending, behind = [first], []
        while pending:
            for target in successors[pending.pop()]:
                if target in among and target not in seen:
                    seen.add(target)
                    pending.append(target)
                    behind.append(target)
        yield first, sorted(behind)


def behind_words(behind: Sequence[int], flow: Flow) -> str:
    """Return what follows the name of the first step of a region, to speak of the others."""
    if len(behind) == 1:
        return f", nor to `{flow.steps[behind[0]].id}` behind it"
    return f", nor to the {len(behind)} steps behind it" if behind else ""
