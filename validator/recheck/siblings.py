"""Branches that run at once, and what a rule remembers in them (specs/language.md, "Branches").

The layout has the branches one after another. What a branch does depends on nothing that its siblings do at the same
time, so that this is one of their orders. What came before a branch is what came before all of them, and what those did
that it depends on. Items of a for_each step that run at once are a loop there: what came before an item is what came
before all of them, and behind the last one counts what any of them did. Of a step that stops after a failed item, the
items that fail are the last ones of this order.

The numbers of a memory are those of the present place, and then, for each fork in the order of the layout: those from
before its branches, those of its branches that have ended, joined, and those of each branch on which another depends.
Behind them, for each for_each step whose items run at once, are those from before its items, and those of its items
that have ended, joined.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from functools import cached_property
from typing import Any, NamedTuple

from stepward.validator.recheck.apart import Sibling, items_at_once, siblings, unseen
from stepward.validator.recheck.evaluation import references
from stepward.validator.recheck.exits import Exit
from stepward.validator.recheck.flow import Transition
from stepward.validator.recheck.followed import State
from stepward.validator.recheck.parts import Match
from stepward.validator.recheck.reading import Reading
from stepward.validator.recheck.refusals import Refused
from stepward.validator.recheck.rules import Breach, FollowedByWatcher, Memory, RequiresWatcher, Watcher
from stepward.validator.recheck.selectors import matches
from stepward.validator.recheck.steps import Steps
from stepward.vm.expressions.parser import parse
from stepward.vm.language.guardrails import AnyRule, FollowedBy, Never, Requires
from stepward.vm.language.layout import Layout
from stepward.vm.language.steps import Stage, ToolStep


class Room(NamedTuple):
    """Where a memory has what it needs of a fork: numbers of memories."""

    outside: int
    joined: int
    of: dict[int, int]
    end: int


class Rooms:
    """Where memories part and join in a program with siblings, and where a memory has room for what is kept there.

    By position: `branches` where a branch begins, `stages` where one ends, `joins` behind the branches of a fork, and
    `items` where items that run at once begin and end. `forks` are by the position of the step with the branches.
    """

    def __init__(self, layout: Layout) -> None:
        self.branches = siblings(layout)
        self.stages: dict[int, Sibling] = {}
        for start, one in self.branches.items():
            body = layout.bodies[start]
            self.stages |= {stage: one for stage in (body.next, body.failed) if stage is not None}
        self.joins = {fork.join: owner for owner, fork in layout.forks.items()}
        self.forks: dict[int, Room] = {}
        count = 1
        for owner in sorted(layout.forks):
            members = [one for one in self.branches.values() if one.fork == owner]
            needed = sorted({earlier for one in members for earlier in one.before})
            of = {one: count + 2 + number for number, one in enumerate(needed)}
            self.forks[owner] = Room(count, count + 1, of, count + 2 + len(of))
            count += 2 + len(of)
        self.items: dict[int, tuple[int, int]] = {}
        for owner, stage in sorted(items_at_once(layout).items()):
            places = (owner, stage, layout.bodies[owner].failed)
            self.items |= {place: (count, count + 1) for place in places if place is not None}
            count += 2
        self.count = count

    @property
    def steps(self) -> set[int]:
        """The steps at which memories part or join."""
        return {*self.forks, *self.branches, *self.stages, *self.joins, *self.items}


class SiblingWatcher(RequiresWatcher):
    """A `requires` in a program with siblings."""

    def __init__(self, rule: Requires, reading: Reading) -> None:
        super().__init__(rule, reading)
        self._rooms = Rooms(reading.layout)

    @cached_property
    def seen(self) -> Collection[int]:
        """The steps at which it may be broken, or change its memory."""
        return {*super().seen, *self._rooms.steps}

    def start(self) -> Memory:
        """Return the memory before the run."""
        return super().start() * self._rooms.count

    def _part(self, memory: Memory, number: int) -> Memory:
        size = len(self.guards)
        return memory[number * size : (number + 1) * size]

    def left(self, steps: Steps, step: int, state: State, memory: Memory, exit_: Exit) -> Iterator[Breach]:
        """Yield the violations when a step is performed with this exit."""
        return super().left(steps, step, state, self._part(memory, 0), exit_)

    def after(self, step: int, memory: Memory, exit_: Exit) -> Memory:
        """Return the memory after this exit of a step."""
        rooms = self._rooms
        parts = [self._part(memory, number) for number in range(rooms.count)]
        blank = super().start()
        if step in rooms.items:
            self._with_items(parts, step, exit_)
        elif step in rooms.branches:
            room = rooms.forks[rooms.branches[step].fork]
            parts[0] = _highest(parts[room.outside], *(parts[room.of[one]] for one in rooms.branches[step].before))
        elif step in rooms.joins:
            room = rooms.forks[rooms.joins[step]]
            parts[0] = super().after(step, parts[room.joined], exit_)
            parts[room.outside : room.end] = [blank] * (room.end - room.outside)
        else:
            parts[0] = super().after(step, parts[0], exit_)
        if step in rooms.forks and exit_.transition.kind == "success":
            room = rooms.forks[step]
            parts[room.outside] = parts[room.joined] = parts[0]
        if step in rooms.stages:
            one = rooms.stages[step]
            room = rooms.forks[one.fork]
            parts[room.joined] = _highest(parts[room.joined], parts[0])
            if one.place in room.of:
                parts[room.of[one.place]] = parts[0]
        return tuple(level for part in parts for level in part)

    def _with_items(self, parts: list[Memory], step: int, exit_: Exit) -> None:
        """Change the parts of a memory where items that run at once begin, or between two of them."""
        outside, joined = self._rooms.items[step]
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
        # What an attempt did is before all items of the next one.
        parts[outside] = parts[joined] = parts[0] if exit_.transition.kind == "again" else super().start()


def _highest(first: Memory, *others: Memory) -> Memory:
    found = list(first)
    for other in others:
        found = [max(pair) for pair in zip(found, other, strict=True)]
    return tuple(found)


class DebtWatcher(FollowedByWatcher):
    """A `followed_by` in a program with siblings: every number of its memory is a debt, and where it was made.

    What is owed outside is what was owed before the branches or items began. A Q pays where it starts, before each
    fork around it, and in the branches that come before its own.
    """

    def __init__(self, rule: FollowedBy, reading: Reading) -> None:
        super().__init__(rule, reading)
        self._rooms = Rooms(reading.layout)
        self._open: set[int] = set()
        self._hasty: dict[int, list[int]] = {}
        if self.ends == "any":
            self._look_beside()

    def _look_beside(self) -> None:
        """Find where a run may be cancelled in a sibling while Q is owed; raises Refused where that is not known.

        `_open` are the places beside which a sibling can start something else than Q whatever happens. `_hasty` has,
        for the first step of a branch, the debts of earlier branches behind which another branch can do that.
        """
        layout, rooms = self.reading.layout, self._rooms
        places, unclear = {step for step, _ in self.first} & self.reading.control.reachable, set[int]()
        for start, one in rooms.branches.items():
            body = layout.bodies[start]
            inside = {*layout.inside(start), body.next, *([] if body.failed is None else [body.failed])}
            others = [other for other in rooms.branches.items() if other[1].fork == one.fork and other[0] != start]
            free = [other for other in others if other[1].place not in one.before and one.place not in other[1].before]
            if any(two.before <= one.before and layout.bodies[at].first not in self.hits for at, two in free):
                self._open |= inside
            elif not all(self._only_pays(at) for at, _ in free):
                unclear |= places & inside
            known = {**{two.place: two for _, two in others}, one.place: one}
            room = rooms.forks[one.fork]
            self._hasty[body.first] = [
                room.of[earlier]
                for earlier in one.before
                if any(
                    earlier in two.before
                    and not any(earlier in known[other].before for other in two.before)
                    and layout.bodies[at].first not in self.hits
                    for at, two in rooms.branches.items()
                    if two.fork == one.fork
                )
            ]
        if unclear - self._open:
            raise Refused("what follows before any end is not checked beside a branch")
        if any(not places.isdisjoint(layout.inside(owner)) for owner in items_at_once(layout)):
            raise Refused("what follows before any end is not checked where items run at once")

    def _only_pays(self, branch: int) -> bool:
        """Whether a branch starts nothing but Q, each a call of a tool that no budget and no visits keep from it."""
        steps = [(number, self.reading.steps[number]) for number in self.reading.layout.inside(branch)]
        return not self.may_run_out and all(
            isinstance(step, ToolStep) and step.max_visits is None and number in self.hits for number, step in steps
        )

    @cached_property
    def seen(self) -> Collection[int]:
        """The steps at which it may be broken, or change its memory."""
        return {*super().seen, *self._rooms.steps}

    def start(self) -> Memory:
        """Return the memory before the run."""
        return super().start() + (0,) * (self._rooms.count - 1)

    def entered(self, steps: Steps, step: int, state: State, memory: Memory) -> Iterator[Breach]:
        """Yield the violations on arrival at a step; where a branch begins, nothing starts yet."""
        if (memory[0] and step in self._open) or any(memory[debt] for debt in self._hasty.get(step, ())):
            yield Breach("missing")
        owed = 0 if step in self._rooms.branches else max(memory)
        yield from super().entered(steps, step, state, (owed,))

    def ended(self, memory: Memory, transition: Transition) -> bool:
        """Return whether this end of the run is a violation."""
        return super().ended((max(memory),), transition)

    def after(self, step: int, memory: Memory, exit_: Exit) -> Memory:
        """Return the memory after this exit of a step."""
        debts = list(memory)
        self._come_together(debts, step, exit_)
        if self.started(step, exit_):
            for number in self._paid(step):
                debts[number] = 0
        if any(self._is_owed(step, sub, exit_) for sub in exit_.succeeded):
            debts[0] = 1
        begins = exit_.transition.kind == "success" and not isinstance(self.reading.steps[step], Stage)
        if begins and (step in self._rooms.forks or step in self._rooms.items):
            room = self._rooms.forks.get(step)
            outside = self._rooms.items[step][0] if room is None else room.outside
            debts[outside], debts[0] = debts[0], 0
        return tuple(debts)

    def _paid(self, step: int) -> Iterator[int]:
        """Yield the numbers of the debts that a Q at a step pays."""
        rooms = self._rooms
        yield 0
        for owner in self.reading.layout.owners_of(step):
            one = rooms.branches.get(owner)
            if one is not None:
                room = rooms.forks[one.fork]
                yield room.outside
                yield from (room.of[earlier] for earlier in one.before)
            if owner in rooms.items:
                yield rooms.items[owner][0]

    def _come_together(self, debts: list[int], step: int, exit_: Exit) -> None:
        """Move debts behind a branch or an item, and behind all of them."""
        rooms = self._rooms
        if step in rooms.stages:
            one = rooms.stages[step]
            room = rooms.forks[one.fork]
            end = room.of.get(one.place, room.joined)
            debts[end], debts[0] = max(debts[end], debts[0]), 0
        elif step in rooms.joins:
            room = rooms.forks[rooms.joins[step]]
            debts[0] = max(debts[0], *debts[room.outside : room.end])
            debts[room.outside : room.end] = [0] * (room.end - room.outside)
        elif step in rooms.items and isinstance(self.reading.steps[step], Stage):
            outside, joined = rooms.items[step]
            debts[joined], debts[0] = max(debts[joined], debts[0]), 0
            if exit_.transition.kind != "item":
                debts[0] = max(debts[outside], debts[joined])
                debts[outside] = debts[joined] = 0
            if exit_.transition.kind == "again":  # what one round owes, any item of the next one may pay
                debts[outside], debts[0] = debts[0], 0


def beside_branches(
    rule: AnyRule, reading: Reading, watch: Callable[[Any, Reading], Watcher]
) -> Callable[[Any, Reading], Watcher]:
    """Return what makes the watcher of a rule in a program with siblings; raises Refused where it is not checked."""
    if isinstance(rule, FollowedBy):
        return DebtWatcher
    if isinstance(rule, Never) and rule.when is not None:
        require_one_round(reading, rule.when, matches(rule.never, reading))
    return SiblingWatcher if isinstance(rule, Requires) else watch


def require_one_round(reading: Reading, when: str, hits: Iterable[Match]) -> None:
    """Raise Refused for a condition that reads what a branch came to, is asked where that is not seen, and may find
    there what an earlier round has left."""
    read = {names[0] for names in references([parse(when, reading.program.language)])}
    for hit in hits:
        for owner in reading.layout.owners_of(hit.step):
            fork = siblings(reading.layout).get(owner)
            if fork is not None and read & unseen(reading.layout, hit.step) and _comes_again(reading, fork.fork):
                raise Refused("a condition that reads what a sibling left in an earlier round is not checked")


def _comes_again(reading: Reading, start: int) -> bool:
    """Return whether control may come back to a fork without an end of a body around it."""
    layout = reading.layout
    around = [layout.bodies[owner] for owner in layout.owners_of(start)]
    passed = {stage for body in around for stage in (body.next, body.failed)}
    pending = [layout.forks[start].join]
    while pending:
        step = pending.pop()
        if step == start:
            return True
        if step not in passed:
            passed.add(step)
            pending.extend(reading.control.following[step])
    return False
