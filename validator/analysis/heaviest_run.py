"""The heaviest run: the largest total weight that a run can collect when every visit of a step has a weight.

Control never returns to a strongly connected component that it left. Along the components that are single steps this is
the longest path in a graph without loops. The steps of a loop that have `max_visits` *cut* it: the rest has no loops,
so between two visits of bounded steps a run collects at most the weight of the longest path between them. A run starts
a step with `max_visits: n` at most n times, then goes to its `error_step` at most once, and is over at the next visit.

That is exact where one step cuts the loop, because all rounds are equal. Where several steps cut it, their
contributions are added, which may be more than a run can collect. A loop that nothing cuts must have weight zero.

The stage between the items of a for_each step cuts the loop of items: a run gets there once for each item, and once at
their end. `max_visits` in a body counts in each item, so that it cuts a loop only where the number of items is bounded,
and with the visits of all items. Nothing bounds the items of a for_each step that is in a loop itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

from stepward.validator.analysis.reachability import reached

if TYPE_CHECKING:
    from stepward.validator.analysis.graph import StepGraph

_NEVER: Final = -1
"""The weight of a path that does not exist."""

_TRIED: Final = 4
"""How many bounded steps of a loop are tried as its only cut: those with the fewest visits."""

Weights = Mapping[int, int]
"""The weight of one visit by the position of the step; other steps have weight zero."""


@dataclass(frozen=True, slots=True)
class Cut:
    """The bounded steps that cut a loop, and the groups that remain without them, each after all groups that it leads
    to.

    A group of several steps, or of one that leads to itself, is an unbounded loop.
    """

    bounded: tuple[int, ...]
    groups: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop with its cuts: one by all bounded steps, and those by single steps that suffice.

    Control enters it at its `entries` only. Each cut gives an upper bound, so the minimum of them is one.
    """

    steps: tuple[int, ...]
    entries: tuple[int, ...]
    cuts: tuple[Cut, ...]


Part = int | Loop


class HeaviestRun:
    """The steps and loops of a program in the order of the computation: from the ends of runs to the entry."""

    def __init__(self, graph: StepGraph, most_items: Callable[[int], int | None]) -> None:
        self.graph = graph
        self.most_items = most_items
        self.flow = graph.flow
        self.successors = graph.flow.successors
        self.visits: dict[int, int] = {}
        self.passed: dict[int, int] = {}  # the target, once, after the visits of a step are used up
        self.onward = list(self.successors)  # the targets of a step that was started
        items = self.items = self._items() if self.flow.layout.bodies else {}
        self.stages = frozenset(self.flow.layout.bodies[owner].next for owner in items)
        for owner, most in items.items():
            outer = self.flow.layout.owner(owner)
            ends = self._rounds(owner) * (1 if outer is None else items[outer])
            self.visits[self.flow.layout.bodies[owner].next] = most + ends
        for number, step in enumerate(self.flow.steps):
            owner_of_step = self.flow.layout.owner(number)
            if step.max_visits is not None and owner_of_step is not None:
                if owner_of_step in items:  # in each item, its visits and the one that passes it
                    self.visits[number] = items[owner_of_step] * (step.max_visits + 1)
            elif step.max_visits is not None:
                self.visits[number] = step.max_visits
                transitions = [transition for transition in self.flow.transitions[number] if transition.to >= 0]
                self.passed.update((number, transition.to) for transition in transitions if transition.kind == "visits")
                self.onward[number] = tuple(
                    dict.fromkeys(transition.to for transition in transitions if transition.kind != "visits")
                )

    def _items(self) -> dict[int, int]:
        """Return how many items of each for_each step a run can start, where that is bounded."""
        layout, items = self.flow.layout, dict[int, int]()
        for owner in sorted(layout.bodies):  # an outer one comes before those in its body
            outer, most = layout.owner(owner), self.most_items(owner)
            around = self.graph.reachable if outer is None else self.graph.reachable.intersection(layout.inside(outer))
            times = 1 if outer is None else items.get(outer)
            if most is None or times is None or self._repeats(owner, around):
                continue
            items[owner] = times * self._rounds(owner) * most
        return items

    def _repeats(self, step: int, around: Iterable[int]) -> bool:
        """Return whether a step is in a loop of the steps around it."""
        component = next((one for one in self.graph.components(around) if step in one), None)
        return component is not None and self.graph.is_loop(component)

    def _rounds(self, owner: int) -> int:
        step = self.flow.steps[owner]
        return step.max_retries if step.type == "for_each" and step.on_error == "retry" else 1

    @cached_property
    def parts(self) -> list[Part]:
        """The reachable steps outside of loops, and the loops, each after all parts that it leads to."""
        components = [tuple(component) for component in self.graph.components(self.graph.reachable)]
        loops = iter(self._loops([component for component in components if self.graph.is_loop(component)]))
        return [next(loops) if self.graph.is_loop(component) else component[0] for component in components]

    @cached_property
    def unbounded(self) -> list[list[int]]:
        """The reachable loops that no `max_visits` cuts, in list order."""
        loops = (part for part in self.parts if isinstance(part, Loop))
        return sorted(sorted(group) for loop in loops for group in loop.cuts[0].groups if self.graph.is_loop(group))

    def _loops(self, components: list[tuple[int, ...]]) -> list[Loop]:
        bounded = [tuple(step for step in sorted(component) if step in self.visits) for component in components]
        cuts = [[cut] for cut in self._cuts(components, dict(enumerate(bounded)))]
        for rank in range(_TRIED):
            single = {
                number: (sorted(steps, key=lambda step: self.visits[step])[rank],)
                for number, steps in enumerate(bounded)
                if len(steps) > max(rank, 1)
            }
            if not single:
                break
            for number, cut in zip(single, self._cuts(components, single), strict=True):
                if not any(map(self.graph.is_loop, cut.groups)):
                    cuts[number].append(cut)
        entries = map(self._entries, components)
        return [Loop(*parts) for parts in zip(components, entries, map(tuple, cuts), strict=True)]

    def _entries(self, component: tuple[int, ...]) -> tuple[int, ...]:
        inside, reachable, predecessors = set(component), self.graph.reachable, self.flow.predecessors
        return tuple(
            step
            for step in component
            if step == 0 or any(number in reachable and number not in inside for number in predecessors[step])
        )

    def _cuts(self, components: list[tuple[int, ...]], bounded: Mapping[int, tuple[int, ...]]) -> list[Cut]:
        """Cut components, given by number, at some of their steps. One pass cuts all, because one alone takes as
        long."""
        removed = {step for steps in bounded.values() for step in steps}
        left = {step: number for number in bounded for step in components[number] if step not in removed}
        groups: dict[int, list[tuple[int, ...]]] = {number: [] for number in bounded}
        for group in self.graph.components(left):
            groups[left[group[0]]].append(tuple(group))
        return [Cut(steps, tuple(groups[number])) for number, steps in bounded.items()]

    # -- weights ---------------------------------------------------------------------------------------------------

    def weigh(self, weights: Weights, parts: Sequence[Part]) -> int:
        """Return the largest weight that a run can collect in some parts, which are consecutive in the order of all
        parts.

        Nothing outside of them may have a weight, nor may an unbounded loop.
        """
        most: dict[int, int] = {}
        for part in parts:
            if isinstance(part, Loop):
                around = [self._around(cut, weights, most) for cut in part.cuts]
                most.update((step, min(found[step] for found in around)) for step in part.entries)
                continue
            ahead = 0
            for target in self.onward[part]:
                ahead = max(ahead, most.get(target, 0))
            most[part] = ahead + weights.get(part, 0)
        return max(most.values(), default=0)

    def _around(self, cut: Cut, weights: Weights, most: Weights) -> dict[int, int]:
        """Return the largest weight that a run can collect from each step of a loop; `most` has those of the parts
        after it."""
        back = dict.fromkeys(cut.bounded, 0)  # until the next visit of a bounded step
        away: dict[int, int] = {}  # on a path without further visits of bounded steps

        def ahead(targets: Iterable[int]) -> tuple[int, int]:
            returns, leaves = _NEVER, 0
            for target in targets:
                returns = max(returns, back.get(target, _NEVER))
                leaves = max(leaves, away.get(target, 0) or most.get(target, 0))
            return returns, leaves

        for group in cut.groups:
            weight, targets = weights.get(group[0], 0), self.successors[group[0]]
            if len(group) > 1:  # an unbounded loop, which has weight zero
                targets = tuple(target for step in group for target in self.successors[step])
            returns, leaves = ahead(targets)
            for step in group:
                back[step] = _NEVER if returns == _NEVER else returns + weight
                away[step] = leaves + weight
        starts = [(self.visits[step], weights.get(step, 0), *ahead(self.onward[step])) for step in cut.bounded]
        if len(starts) == 1 and cut.bounded[0] in self.stages:
            targets = self.onward[cut.bounded[0]]
            ends = max((most.get(target, 0) for target in targets if target not in away), default=0)
            breaks = max((away[target] for target in targets if target in away), default=0)
            rounds = _rounds_of_items(*starts[0][:3], ends, breaks)
        else:
            passes = [ahead([self.passed[step]]) for step in cut.bounded if step in self.passed]
            rounds = _rounds_of_one(*starts[0], passes) if len(starts) == 1 else _rounds_of_all(starts, passes)
        weight_of = {step: max(away[step], back[step] + rounds if back[step] != _NEVER else 0) for step in away}
        return weight_of | dict.fromkeys(cut.bounded, rounds)

    # -- starts ----------------------------------------------------------------------------------------------------

    @cached_property
    def starts(self) -> list[int | None]:
        """The maximum number of starts of each step; None where it is unbounded. Exact where `weigh` is."""
        result: list[int | None] = [int(number in self.graph.reachable) for number in range(len(self.flow.steps))]
        for part in self.parts:
            if isinstance(part, Loop):
                all_starts = [self._starts(cut, part) for cut in part.cuts]
                for step in part.steps:
                    most = min(starts[step] for starts in all_starts)
                    result[step] = min(most, self.visits.get(step, most))
        for step, most_of_items in self._once_in_each_item():
            result[step] = min(result[step] or 0, most_of_items)
        for loop in self.unbounded:
            for step in loop:
                result[step] = None
        return result

    def _once_in_each_item(self) -> Iterator[tuple[int, int]]:
        """Yield the steps of bodies that no loop of their body repeats, each with the items that a run can start."""
        layout = self.flow.layout
        for owner, most in self.items.items():
            for component in self.graph.components(self.graph.reachable.intersection(layout.inside(owner))):
                if not self.graph.is_loop(component) and layout.owner(component[0]) == owner:
                    yield component[0], most

    def _starts(self, cut: Cut, loop: Loop) -> dict[int, int]:
        """Return how often the steps of a loop start: on entry, after each start of a bounded step, and after its pass.

        The paths around a step are considered only where one step cuts the loop; otherwise all are allowed.
        """
        left = [step for group in cut.groups for step in group]
        result = {step: self.visits[step] for step in cut.bounded}
        if len(cut.bounded) != 1:
            return result | dict.fromkeys(left, 1 + sum(self.visits[step] + 1 for step in cut.bounded))
        (bounded,) = cut.bounded
        within = set(left)
        after_entry = self._reached(loop.entries, within)
        after_a_start = self._reached(self.onward[bounded], within)
        comes_back = any(bounded in self.successors[step] for step in after_a_start) or bounded in self.onward[bounded]
        if not comes_back:  # except from its error step, which is reached only after the last visit
            result[bounded] = 1
        after_the_pass = self._reached([self.passed[bounded]] if bounded in self.passed and comes_back else [], within)
        onward = result[bounded] - (bounded in self.stages)  # the last visit of a stage starts no item
        for step in left:
            rounds = onward * (step in after_a_start)
            result[step] = (step in after_entry) + rounds + (step in after_the_pass)
        return result

    def _reached(self, sources: Iterable[int], within: set[int]) -> set[int]:
        """Return the steps reachable from some steps, themselves included, within a set."""
        return set(reached(within.intersection(sources), lambda step: within.intersection(self.successors[step])))


def _rounds_of_items(visits: int, weight: int, returns: int, ends: int, breaks: int) -> int:
    """Return the largest weight from the first visit of the stage between items on.

    The last visit ends the step, or an item leaves the loop; that is one of the items, and no further one.
    """
    items, back = visits - 1, max(returns, 0)
    left_by_an_item = (items - 1) * back + breaks if items else 0
    return visits * weight + max(items * back + ends, left_by_an_item)


def _rounds_of_one(visits: int, weight: int, returns: int, leaves: int, passes: list[tuple[int, int]]) -> int:
    """Return the largest weight from the first visit of a loop's only bounded step on."""
    if returns == _NEVER:
        return weight + leaves  # control returns only from an error step that it never reaches
    last = visits * returns + max((max(back, away) for back, away in passes), default=0)
    return visits * weight + max((visits - 1) * returns + leaves, last)


def _rounds_of_all(starts: list[tuple[int, int, int, int]], passes: list[tuple[int, int]]) -> int:
    """Return an upper bound of the weight from the first visit of a bounded step on, in any order of visits.

    Only the very last visit leaves the loop; the others lead back to a bounded step.
    """
    total = gain = 0
    for visits, weight, returns, leaves in starts:
        total += visits * (weight + max(returns, 0))
        gain = max(gain, leaves - max(returns, 0))
    for returns, leaves in passes:
        total += max(returns, 0)
        gain = max(gain, leaves - max(returns, 0))
    return total + gain
