"""Branches that run at once, and what a rule remembers in them (specs/language.md, "Branches").

The layout has the branches one after another. What a branch does depends on nothing that its siblings do at the same
time, so that this is one of their orders. What came before a branch is what came before all of them, and what those did
that it depends on. Items of a for_each step that run at once are a loop there: what came before an item is what came
before all of them, and behind the last one counts what any of them did.

The numbers of a memory are those of the present place, and then, for each fork in the order of the layout: those from
before its branches, those of its branches that have ended, joined, and those of each branch on which another depends.
Behind them, for each for_each step whose items run at once, are those from before its items, and those of its items
that have ended, joined.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from functools import cached_property
from typing import Any, NamedTuple

from stepward.validator.recheck.apart import Sibling, items_at_once, siblings
from stepward.validator.recheck.evaluation import references
from stepward.validator.recheck.exits import Exit
from stepward.validator.recheck.followed import State
from stepward.validator.recheck.parts import Match
from stepward.validator.recheck.reading import Reading
from stepward.validator.recheck.refusals import Refused
from stepward.validator.recheck.rules import Breach, Memory, RequiresWatcher, Watcher
from stepward.validator.recheck.selectors import matches
from stepward.validator.recheck.steps import Steps
from stepward.vm.expressions.parser import parse
from stepward.vm.language.guardrails import AnyRule, FollowedBy, Never, Requires
from stepward.vm.language.steps import Stage


class _Room(NamedTuple):
    """Where a memory has what it needs of a fork: numbers of memories."""

    outside: int
    joined: int
    of: dict[int, int]
    end: int


class SiblingWatcher(RequiresWatcher):
    """A `requires` in a program with siblings."""

    def __init__(self, rule: Requires, reading: Reading) -> None:
        super().__init__(rule, reading)
        layout = reading.layout
        self._branch = siblings(layout)
        self._stage: dict[int, Sibling] = {}
        for start, one in self._branch.items():
            body = layout.bodies[start]
            self._stage |= {stage: one for stage in (body.next, body.failed) if stage is not None}
        self._join = {fork.join: owner for owner, fork in layout.forks.items()}
        self._rooms: dict[int, _Room] = {}
        count = 1
        for owner in sorted(layout.forks):
            members = [one for one in self._branch.values() if one.fork == owner]
            needed = sorted({earlier for one in members for earlier in one.before})
            of = {one: count + 2 + number for number, one in enumerate(needed)}
            self._rooms[owner] = _Room(count, count + 1, of, count + 2 + len(of))
            count += 2 + len(of)
        self._items: dict[int, tuple[int, int]] = {}
        for owner, stage in sorted(items_at_once(layout).items()):
            self._items[owner] = self._items[stage] = (count, count + 1)
            count += 2
        self._count = count

    @cached_property
    def seen(self) -> Collection[int]:
        """The steps at which it may be broken, or change its memory."""
        return {*super().seen, *self._rooms, *self._branch, *self._stage, *self._join, *self._items}

    def start(self) -> Memory:
        """Return the memory before the run."""
        return super().start() * self._count

    def _part(self, memory: Memory, number: int) -> Memory:
        size = len(self.guards)
        return memory[number * size : (number + 1) * size]

    def left(self, steps: Steps, step: int, state: State, memory: Memory, exit_: Exit) -> Iterator[Breach]:
        """Yield the violations when a step is performed with this exit."""
        return super().left(steps, step, state, self._part(memory, 0), exit_)

    def after(self, step: int, memory: Memory, exit_: Exit) -> Memory:
        """Return the memory after this exit of a step."""
        parts = [self._part(memory, number) for number in range(self._count)]
        blank = super().start()
        if step in self._items:
            self._with_items(parts, step, exit_)
        elif step in self._branch:
            room = self._rooms[self._branch[step].fork]
            parts[0] = _highest(parts[room.outside], *(parts[room.of[one]] for one in self._branch[step].before))
        elif step in self._join:
            room = self._rooms[self._join[step]]
            parts[0] = super().after(step, parts[room.joined], exit_)
            parts[room.outside : room.end] = [blank] * (room.end - room.outside)
        else:
            parts[0] = super().after(step, parts[0], exit_)
        if step in self._rooms and exit_.transition.kind == "success":
            room = self._rooms[step]
            parts[room.outside] = parts[room.joined] = parts[0]
        if step in self._stage:
            one = self._stage[step]
            room = self._rooms[one.fork]
            parts[room.joined] = _highest(parts[room.joined], parts[0])
            if one.place in room.of:
                parts[room.of[one.place]] = parts[0]
        return tuple(level for part in parts for level in part)

    def _with_items(self, parts: list[Memory], step: int, exit_: Exit) -> None:
        """Change the parts of a memory where items that run at once begin, or between two of them."""
        outside, joined = self._items[step]
        if not isinstance(self.reading.steps[step], Stage):
            parts[0] = super().after(step, parts[0], exit_)
            if exit_.transition.kind == "success":
                parts[outside] = parts[joined] = parts[0]
            return
        parts[joined] = _highest(parts[joined], parts[0])
        if exit_.transition.kind == "item":
            parts[0] = super().after(step, parts[outside], exit_)
            return
        parts[0] = super().after(step, parts[joined], exit_)
        parts[outside] = parts[joined] = super().start()


def _highest(first: Memory, *others: Memory) -> Memory:
    found = list(first)
    for other in others:
        found = [max(pair) for pair in zip(found, other, strict=True)]
    return tuple(found)


def beside_branches(
    rule: AnyRule, reading: Reading, watch: Callable[[Any, Reading], Watcher]
) -> Callable[[Any, Reading], Watcher]:
    """Return what makes the watcher of a rule in a program with siblings; raises Refused where it is not checked."""
    if isinstance(rule, FollowedBy):
        raise Refused("what follows is not checked where branches or items run at once")
    if isinstance(rule, Never) and rule.when is not None:
        require_no_sibling(reading, rule.when, matches(rule.never, reading))
    return SiblingWatcher if isinstance(rule, Requires) else watch


def require_no_sibling(reading: Reading, when: str, hits: Iterable[Match]) -> None:
    """Raise Refused for a condition that reads what a branch came to, and is asked in a branch that does not see it."""
    layout, steps = reading.layout, {hit.step for hit in hits}
    read = {names[0] for names in references([parse(when, reading.program.language)])}
    branches = siblings(layout)
    for start, one in branches.items():
        if steps.isdisjoint(layout.inside(start)):
            continue
        others = [other for other, found in branches.items() if found.fork == one.fork and found.place < one.place]
        unseen = {reading.steps[other].id for other in others if branches[other].place not in one.before}
        if unseen & read:
            raise Refused("a condition that reads a sibling is not checked")
