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

from stepward.validator.recheck.branches import Sibling, items_at_once, siblings, unseen
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


class ForkSlots(NamedTuple):
    """The numbers of a memory that belong to one fork."""

    outside: int
    joined: int
    of: dict[int, int]
    end: int


class MemorySlots:
    """Where memories part and join in a program with siblings, and which of its numbers belong to which fork.

    By position: `branches` where a branch begins, `stages` where one ends, `joins` behind the branches of a fork, and
    `items` where items that run at once begin and end. `forks` are by the position of the step with the branches.
    """

    def __init__(self, layout: Layout) -> None:
        self.branches = siblings(layout)
        self.stages: dict[int, Sibling] = {}
        for start, branch in self.branches.items():
            body = layout.bodies[start]
            self.stages |= {stage: branch for stage in (body.next, body.failed) if stage is not None}
        self.joins = {fork.join: owner for owner, fork in layout.forks.items()}
        self.forks: dict[int, ForkSlots] = {}
        count = 1
        for owner in sorted(layout.forks):
            members = [branch for branch in self.branches.values() if branch.fork == owner]
            needed = sorted({earlier for branch in members for earlier in branch.before})
            of = {branch: count + 2 + number for number, branch in enumerate(needed)}
            self.forks[owner] = ForkSlots(count, count + 1, of, count + 2 + len(of))
            count += 2 + len(of)
        self.items: dict[int, tuple[int, int]] = {}
        for owner, stage in sorted(items_at_once(layout).items()):
            positions = (owner, stage, layout.bodies[owner].failed)
            self.items |= {position: (count, count + 1) for position in positions if position is not None}
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
        self._slots = MemorySlots(reading.layout)

    @cached_property
    def watched_steps(self) -> Collection[int]:
        """The steps at which it may be broken, or change its memory."""
        return {*super().watched_steps, *self._slots.steps}

    def start(self) -> Memory:
        """Return the memory before the run."""
        return super().start() * self._slots.count

    def _part(self, memory: Memory, number: int) -> Memory:
        size = len(self.guards)
        return memory[number * size : (number + 1) * size]

    def left(self, steps: Steps, step: int, state: State, memory: Memory, exit_: Exit) -> Iterator[Breach]:
        """Yield the violations when a step is performed with this exit."""
        return super().left(steps, step, state, self._part(memory, 0), exit_)

    def after(self, step: int, memory: Memory, exit_: Exit) -> Memory:
        """Return the memory after this exit of a step."""
        slots = self._slots
        parts = [self._part(memory, number) for number in range(slots.count)]
        blank = super().start()
        if step in slots.items:
            self._with_items(parts, step, exit_)
        elif step in slots.branches:
            fork = slots.forks[slots.branches[step].fork]
            parts[0] = _highest(
                parts[fork.outside], *(parts[fork.of[branch]] for branch in slots.branches[step].before)
            )
        elif step in slots.joins:
            fork = slots.forks[slots.joins[step]]
            parts[0] = super().after(step, parts[fork.joined], exit_)
            parts[fork.outside : fork.end] = [blank] * (fork.end - fork.outside)
        else:
            parts[0] = super().after(step, parts[0], exit_)
        if step in slots.forks and exit_.transition.kind == "success":
            fork = slots.forks[step]
            parts[fork.outside] = parts[fork.joined] = parts[0]
        if step in slots.stages:
            branch = slots.stages[step]
            fork = slots.forks[branch.fork]
            parts[fork.joined] = _highest(parts[fork.joined], parts[0])
            if branch.number in fork.of:
                parts[fork.of[branch.number]] = parts[0]
        return tuple(level for part in parts for level in part)

    def _with_items(self, parts: list[Memory], step: int, exit_: Exit) -> None:
        """Change the parts of a memory where items that run at once begin, or between two of them."""
        outside, joined = self._slots.items[step]
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
    highest = list(first)
    for memory in others:
        highest = [max(pair) for pair in zip(highest, memory, strict=True)]
    return tuple(highest)


class DebtWatcher(FollowedByWatcher):
    """A `followed_by` in a program with siblings: every number of its memory is a debt, and where it was made.

    What is owed outside is what was owed before the branches or items began. A Q pays where it starts, before each
    fork around it, and in the branches that come before its own.
    """

    def __init__(self, rule: FollowedBy, reading: Reading) -> None:
        super().__init__(rule, reading)
        self._slots = MemorySlots(reading.layout)
        self._exposed: set[int] = set()
        self._rival_debts: dict[int, list[int]] = {}
        if self.ends == "any":
            self._look_beside()

    def _look_beside(self) -> None:
        """Find where a run may be cancelled in a sibling while Q is owed; raises Refused where that is not known.

        `_exposed` has the steps beside which a sibling can always start a step that is no Q. `_rival_debts` has, for
        the first step of a branch, the debts of earlier branches behind which another branch can do that.
        """
        layout, slots = self.reading.layout, self._slots
        first_steps, unclear = {step for step, _ in self.first} & self.reading.control.reachable, set[int]()
        for start, branch in slots.branches.items():
            body = layout.bodies[start]
            inside = {*layout.inside(start), body.next, *([] if body.failed is None else [body.failed])}
            others = [other for other in slots.branches.items() if other[1].fork == branch.fork and other[0] != start]
            free = [
                other
                for other in others
                if other[1].number not in branch.before and branch.number not in other[1].before
            ]
            if any(
                sibling.before <= branch.before and layout.bodies[at].first not in self.hits for at, sibling in free
            ):
                self._exposed |= inside
            elif not all(self._only_pays(at) for at, _ in free):
                unclear |= first_steps & inside
            known = {**{sibling.number: sibling for _, sibling in others}, branch.number: branch}
            fork = slots.forks[branch.fork]
            self._rival_debts[body.first] = [
                fork.of[earlier]
                for earlier in branch.before
                if any(
                    earlier in sibling.before
                    and not any(earlier in known[other].before for other in sibling.before)
                    and layout.bodies[at].first not in self.hits
                    for at, sibling in slots.branches.items()
                    if sibling.fork == branch.fork
                )
            ]
        if unclear - self._exposed:
            raise Refused("what follows before any end is not checked beside a branch")
        if any(not first_steps.isdisjoint(layout.inside(owner)) for owner in items_at_once(layout)):
            raise Refused("what follows before any end is not checked where items run at once")

    def _only_pays(self, branch: int) -> bool:
        """Whether a branch starts nothing but Q, each a call of a tool that no budget and no visits keep from it."""
        steps = [(number, self.reading.steps[number]) for number in self.reading.layout.inside(branch)]
        return not self.may_run_out and all(
            isinstance(step, ToolStep) and step.max_visits is None and number in self.hits for number, step in steps
        )

    @cached_property
    def watched_steps(self) -> Collection[int]:
        """The steps at which it may be broken, or change its memory."""
        return {*super().watched_steps, *self._slots.steps}

    def start(self) -> Memory:
        """Return the memory before the run."""
        return super().start() + (0,) * (self._slots.count - 1)

    def entered(self, steps: Steps, step: int, state: State, memory: Memory) -> Iterator[Breach]:
        """Yield the violations on arrival at a step; where a branch begins, nothing starts yet."""
        if (memory[0] and step in self._exposed) or any(memory[debt] for debt in self._rival_debts.get(step, ())):
            yield Breach("missing")
        largest = 0 if step in self._slots.branches else max(memory)
        yield from super().entered(steps, step, state, (largest,))

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
        if begins and (step in self._slots.forks or step in self._slots.items):
            fork = self._slots.forks.get(step)
            outside = self._slots.items[step][0] if fork is None else fork.outside
            debts[outside], debts[0] = debts[0], 0
        return tuple(debts)

    def _paid(self, step: int) -> Iterator[int]:
        """Yield the numbers of the debts that a Q at a step pays."""
        slots = self._slots
        yield 0
        for owner in self.reading.layout.owners_of(step):
            branch = slots.branches.get(owner)
            if branch is not None:
                fork = slots.forks[branch.fork]
                yield fork.outside
                yield from (fork.of[earlier] for earlier in branch.before)
            if owner in slots.items:
                yield slots.items[owner][0]

    def _come_together(self, debts: list[int], step: int, exit_: Exit) -> None:
        """Move debts behind a branch or an item, and behind all of them."""
        slots = self._slots
        if step in slots.stages:
            branch = slots.stages[step]
            fork = slots.forks[branch.fork]
            end = fork.of.get(branch.number, fork.joined)
            debts[end], debts[0] = max(debts[end], debts[0]), 0
        elif step in slots.joins:
            fork = slots.forks[slots.joins[step]]
            debts[0] = max(debts[0], *debts[fork.outside : fork.end])
            debts[fork.outside : fork.end] = [0] * (fork.end - fork.outside)
        elif step in slots.items and isinstance(self.reading.steps[step], Stage):
            outside, joined = slots.items[step]
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
    """Raise Refused for a condition that reads the outcome of a branch in a sibling of it: an earlier round may have
    left a value there."""
    read = {names[0] for names in references([parse(when, reading.program.language)])}
    for hit in hits:
        for owner in reading.layout.owners_of(hit.step):
            sibling = siblings(reading.layout).get(owner)
            if sibling is not None and read & unseen(reading.layout, hit.step) and _comes_again(reading, sibling.fork):
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
