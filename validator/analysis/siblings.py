"""Rules with a separate memory for each branch: nothing in a branch counts as before anything in a sibling.

Items of a for_each step that run at once are siblings, too. In the graph they come one after another, as a loop. Each
item begins with what came before all of them, and behind the last one counts what any of them did. If the step stops
after a failed item, those that fail come behind those that succeed: at the stage behind a failed item the step ends, or
another that was under way follows.

The step graph has the branches of a parallel step one after another. A path through it is one way in which they can
interleave, and a rule that counts starts needs no more. A rule that asks what came before or after does.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, NamedTuple

from stepward.validator.analysis.facts import ProgramFacts
from stepward.validator.analysis.monitors import RuleMonitor
from stepward.validator.analysis.product import NOT_KNOWN, CallOutcomes, Monitor, State
from stepward.validator.analysis.sibling_races import exposed, rivals
from stepward.vm.language.automata import IDLE, OWED_AGAIN, OWED_HERE, PAID, bound
from stepward.vm.language.guardrails import AnyGuard, AnyRule, AnySelector, FollowedBy, Requires
from stepward.vm.language.layout import Fork, Layout
from stepward.vm.language.selectors import Match
from stepward.vm.language.steps import Stage
from stepward.vm.language.transitions import Transition

if TYPE_CHECKING:
    from stepward.validator.analysis.analyses import Analyses

Levels = tuple[int, ...]
"""The memory of a rule in one place: of a `requires` a level for each guard, of a `followed_by` whether Q is owed."""


class _Slots:
    """Where the state of the monitor holds the memories of one fork: numbers of memories, the present one aside.

    `forked` is that where the branches part, `gathered` the joint one of the branches that have ended, and `needed` are
    those of the branches on which others depend, by their indices.
    """

    def __init__(self, fork: Fork, first: int) -> None:
        self.fork = fork
        self.forked, self.gathered = first, first + 1
        needed = sorted(frozenset().union(*fork.before))
        self.needed = {index: first + 2 + number for number, index in enumerate(needed)}
        self.end = first + 2 + len(needed)


class _Items(NamedTuple):
    """Where the state has the memories of items that run at once: the memory before all of them, and the joint memory
    of those that have ended."""

    forked: int
    gathered: int


class SiblingMonitor(Monitor):
    """The monitor of a rule in a program with siblings. Its state is a list of memories, written as one.

    Here the places are named where memories part and join; what becomes of them there, a kind of rule says.
    """

    def __init__(self, inner: RuleMonitor, layout: Layout, blank: Levels) -> None:
        self.inner, self.layout, self.blank = inner, layout, blank
        self.asks_ends, self.closing = inner.asks_ends, inner.closing
        self.starts: dict[int, _Slots] = {}
        self.branches: dict[int, tuple[_Slots, int]] = {}
        self.stages: dict[int, tuple[_Slots, int]] = {}
        self.joins: dict[int, _Slots] = {}
        self.count = 1
        for position in sorted(layout.forks):
            slots = _Slots(layout.forks[position], self.count)
            self.count = slots.end
            self.starts[position] = self.joins[slots.fork.join] = slots
            for index, branch in enumerate(slots.fork.branches):
                self.branches[branch] = slots, index
                body = layout.bodies[branch]
                self.stages |= {stage: (slots, index) for stage in (body.next, body.failed) if stage is not None}
        self.items: dict[int, _Items] = {}
        for position in sorted(layout.beside):
            body, own_items = layout.bodies[position], _Items(self.count, self.count + 1)
            self.items |= {step: own_items for step in (position, body.next, body.failed) if step is not None}
            self.count += 2
        own_steps = (
            self.starts.keys() | self.branches.keys() | self.stages.keys() | self.joins.keys() | self.items.keys()
        )
        self.watched = None if inner.watched is None else own_steps | set(inner.watched)

    def _read(self, state: State, number: int = 0) -> Levels:
        assert isinstance(state, tuple)
        size = len(self.blank)
        return state[number * size : (number + 1) * size]

    def _written(self, state: State, changes: dict[int, Levels]) -> State:
        assert isinstance(state, tuple)
        size = len(self.blank)
        for number, levels in changes.items():
            state = (*state[: number * size], *levels, *state[(number + 1) * size :])
        return state


class GuardMonitor(SiblingMonitor):
    """The monitor of a `requires`: each branch begins with what came before all of them, and with what those did that
    it depends on; behind them all counts."""

    def __init__(self, inner: RuleMonitor, layout: Layout) -> None:
        blank = inner.start()
        assert isinstance(blank, tuple)
        super().__init__(inner, layout, blank)

    def start(self) -> State:
        """Return the state before the run."""
        return self.blank * self.count

    def enter(self, step: int, state: State) -> str | None:
        """Return the kind of violation if the step starts in this state, or None."""
        return self.inner.enter(step, self._read(state))

    def violating_starts(self, step: int, state: State) -> Iterable[tuple[int | None, ...]]:
        """Return the alternatives that make `enter` report."""
        return self.inner.violating_starts(step, self._read(state))

    def end(self, step: int, state: State, transition: Transition) -> str | None:
        """Return the kind of violation if the run ends by this transition in this state, or None."""
        return self.inner.end(step, self._read(state), transition)

    def leave(
        self, step: int, state: State, transition: Transition, call_outcomes: CallOutcomes = NOT_KNOWN
    ) -> Iterable[State]:
        """Return the states that are possible after this transition of the step."""
        if step in self.branches:
            slots, index = self.branches[step]
            earlier = [self._read(state, slots.needed[one]) for one in sorted(slots.fork.before[index])]
            return (self._written(state, {0: most(self._read(state, slots.forked), *earlier)}),)
        if step in self.joins:
            slots = self.joins[step]
            gathered = self._read(state, slots.gathered)
            cleared = dict.fromkeys(range(slots.forked, slots.end), self.blank)
            states = self.inner.leave(step, gathered, transition, call_outcomes)
            return [self._written(state, {**cleared, 0: one}) for one in _levels(states)]
        if step in self.items and isinstance(self.layout.steps[step], Stage):
            return self._between_items(step, state, transition)
        states = self.inner.leave(step, self._read(state), transition, call_outcomes)
        return [
            self._written(state, {0: one, **self._gathered(step, state, transition, one)}) for one in _levels(states)
        ]

    def _between_items(self, step: int, state: State, transition: Transition) -> list[State]:
        """Return the states after the stage between items: the next one does not know what others did."""
        items = self.items[step]
        gathered = most(self._read(state, items.gathered), self._read(state))
        if transition.kind == "item":
            states = self.inner.leave(step, self._read(state, items.forked), transition)
            return [self._written(state, {0: one, items.gathered: gathered}) for one in _levels(states)]
        states = self.inner.leave(step, gathered, transition)
        if transition.kind == "again":  # what an attempt did is before the next one
            return [self._written(state, {0: one, **dict.fromkeys(items, one)}) for one in _levels(states)]
        cleared = dict.fromkeys(items, self.blank)
        return [self._written(state, {**cleared, 0: one}) for one in _levels(states)]

    def _gathered(self, step: int, state: State, transition: Transition, after: Levels) -> dict[int, Levels]:
        """Return the changes of other memories than the present one: where branches begin, and where one has ended."""
        if step in self.starts and transition.kind == "success":
            slots = self.starts[step]
            return {slots.forked: after, slots.gathered: after}
        if step in self.items and transition.kind == "success":
            return dict.fromkeys(self.items[step], after)
        if step in self.stages:
            slots, index = self.stages[step]
            known = {slots.gathered: most(self._read(state, slots.gathered), after)}
            return known | ({slots.needed[index]: after} if index in slots.needed else {})
        return {}


def _levels(states: Iterable[State]) -> Iterable[Levels]:
    for state in states:
        assert isinstance(state, tuple)
        yield state


def most(*memories: Sequence[int]) -> Levels:
    """Return the joint memory of some: the highest level of each guard."""
    return tuple(max(levels) for levels in zip(*memories, strict=True))


class DebtMonitor(SiblingMonitor):
    """The monitor of a `followed_by`: there is a memory for each debt, by the place where it was made.

    A Q pays what is owed in its own place, and in all that is before it: before the fork, and in the branches on which
    its own depends. A debt of a branch that has ended is kept by itself if others depend on it, and else with those
    that only a Q behind the join pays. There all debts are one. The inner monitor says what a step does from a blank
    start: whether Q starts there, and whether it is owed after that.
    """

    def __init__(self, inner: RuleMonitor, layout: Layout) -> None:
        super().__init__(inner, layout, (0,))
        ends_anywhere = inner.may_end_anywhere
        self.exposed = exposed(layout, inner.starting.__contains__) if ends_anywhere else {}
        self.rivals = rivals(layout, inner.starting.__contains__) if ends_anywhere else {}

    def start(self) -> State:
        """Return the state before the run."""
        return (int(bool(self.inner.start())), *[0] * (self.count - 1))

    def enter(self, step: int, state: State) -> str | None:
        """Return the kind of violation if the step starts in this state, or None: wherever Q is owed, the run may end
        before it, and before a step in a sibling that can start first."""
        if self.rival(step, state) is not None:
            return "missing"
        return None if step in self.branches else self.inner.enter(step, self._owed(state))

    def rival(self, step: int, state: State) -> int | None:
        """Return a step in a sibling, no Q, that can start while Q is owed here; None without one."""
        assert isinstance(state, tuple)
        if state[0]:
            return self.exposed.get(step)
        owner = self.layout.owner(step) if step in self.rivals else None
        if owner is None:
            return None
        slots = self.branches[owner][0]
        return next((one for index, one in self.rivals[step].items() if state[slots.needed[index]]), None)

    def violating_starts(self, step: int, state: State) -> Iterable[tuple[int | None, ...]]:
        """Return the alternatives that make `enter` report."""
        return self.inner.violating_starts(step, self._owed(state))

    def end(self, step: int, state: State, transition: Transition) -> str | None:
        """Return the kind of violation if the run ends by this transition in this state, or None."""
        return self.inner.end(step, self._owed(state), transition)

    @staticmethod
    def _owed(state: State) -> int:
        assert isinstance(state, tuple)
        return int(any(state))

    def leave(
        self, step: int, state: State, transition: Transition, call_outcomes: CallOutcomes = NOT_KNOWN
    ) -> Iterable[State]:
        """Return the states that are possible after this transition of the step."""
        assert isinstance(state, tuple)
        if step in self.inner.renewing:  # what one item owes, nobody pays behind it
            return (self.start(),)
        debts = self._brought_together(step, state, transition)
        states: dict[State, None] = {}
        for did in self.inner.leave(step, IDLE, transition, call_outcomes):
            after = list(debts)
            if did in (PAID, OWED_AGAIN):
                for memory in self.paid_at(step):
                    after[memory] = 0
            after[0] |= did in (OWED_HERE, OWED_AGAIN)
            states[self._parted(step, after, transition)] = None
        return states

    def paid_at(self, step: int) -> tuple[int, ...]:
        """Return the numbers of the memories whose debts a Q at a step pays."""
        return self._paid.get(step, (0,))

    @cached_property
    def _paid(self) -> dict[int, tuple[int, ...]]:
        paid: dict[int, tuple[int, ...]] = {}
        for step in frozenset().union(*self.inner.starts):
            memories = [0]
            for owner in self.layout.owners_of(step):
                if owner in self.branches:
                    slots, index = self.branches[owner]
                    memories += [slots.forked, *(slots.needed[one] for one in slots.fork.before[index])]
                elif owner in self.items:
                    memories.append(self.items[owner].forked)
            paid[step] = tuple(memories)
        return paid

    def _brought_together(self, step: int, debts: Levels, transition: Transition) -> list[int]:
        """Return the debts where a branch or an item has ended, or all of them."""
        after, memories = list(debts), [0]
        is_behind = isinstance(self.layout.steps[step], Stage)
        if step in self.stages:
            slots, index = self.stages[step]
            memories.append(slots.needed.get(index, slots.gathered))
        elif step in self.joins:
            slots = self.joins[step]
            memories = [*range(slots.forked, slots.end), 0]
        elif step in self.items and is_behind:
            items = self.items[step]
            memories = [0, items.gathered] if transition.kind == "item" else [*items, 0]
        is_owed = any(after[memory] for memory in memories)
        for memory in memories:
            after[memory] = 0
        after[memories[-1]] = int(is_owed)
        return after

    def _parted(self, step: int, after: list[int], transition: Transition) -> Levels:
        """Return the debts where branches or items begin: what is owed then, is owed from before them."""
        is_start = transition.kind == "success" and not isinstance(self.layout.steps[step], Stage)
        is_start |= transition.kind == "again" and step in self.items  # what one attempt owes, the next one may pay
        slots = (self.starts.get(step) or self.items.get(step)) if is_start else None
        if slots is not None:
            after[slots.forked], after[0] = after[0], 0
        return tuple(after)


def hits_in(facts: ProgramFacts, selector: AnySelector | AnyGuard, owner: int | None) -> list[Match]:
    """Return the parts that a selector matches, in the body of the step at `owner` if there is one."""
    hits = facts.hits(selector)
    if owner is None:
        return hits
    inside = facts.flow.layout.inside(owner)
    return [hit for hit in hits if hit.step in inside]


def monitor_of(rule: AnyRule, analyses: Analyses, *, doubtless: bool = False, owner: int | None = None) -> Monitor:
    """Return the monitor of a rule; with `doubtless`, a part that may have started counts as started.

    `owner` is the position of the step in whose body the rule stands.
    """
    bound_rule = bound(rule, analyses.facts.meaning, partial(hits_in, analyses.facts, owner=owner))
    monitor = RuleMonitor(analyses, bound_rule, doubtless=doubtless, owner=owner)
    layout = analyses.facts.flow.layout
    if layout.has_siblings and isinstance(rule, Requires):
        return GuardMonitor(monitor, layout)
    if layout.has_siblings and isinstance(rule, FollowedBy):
        return DebtMonitor(monitor, layout)
    return monitor
