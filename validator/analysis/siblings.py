"""Rules whose memory each branch has for itself: what happens in a branch is not before anything in a sibling.

Items of a for_each step that run at once are siblings, too. In the graph they come one after another, as a loop. Each
item begins with what came before all of them, and behind the last one counts what any of them did.

The step graph has the branches of a parallel step one after another. A path through it is one way in which they can
interleave, and a rule that counts starts needs no more. A rule that asks what came before does: each branch begins with
what came before all of them, and with what those did that it depends on; behind them all counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from stepward.validator.analysis.facts import ProgramFacts
from stepward.validator.analysis.monitors import RuleMonitor
from stepward.validator.analysis.product import NOT_KNOWN, CallOutcomes, Monitor, State
from stepward.vm.errors import ExpressionError
from stepward.vm.expressions.fields import written
from stepward.vm.expressions.syntax import all_references
from stepward.vm.language.automata import bound
from stepward.vm.language.guardrails import AnyGuard, AnyRule, AnySelector, FollowedBy, Never, Requires
from stepward.vm.language.layout import Fork, Layout
from stepward.vm.language.selectors import Match
from stepward.vm.language.steps import Stage
from stepward.vm.language.transitions import Transition

if TYPE_CHECKING:
    from stepward.validator.analysis.analyses import Analyses

Levels = tuple[int, ...]
"""The memory of a `requires`: a level for each guard."""


class _Slots:
    """Where the state of the monitor holds the memories of one fork: numbers of memories, the present one aside.

    `forked` is that where the branches part, `gathered` the joint one of the branches that have ended, and `kept` are
    those of the branches on which others depend, by their indices.
    """

    def __init__(self, fork: Fork, first: int) -> None:
        self.fork = fork
        self.forked, self.gathered = first, first + 1
        needed = sorted(frozenset().union(*fork.before))
        self.kept = {index: first + 2 + number for number, index in enumerate(needed)}
        self.end = first + 2 + len(needed)


class _Items(NamedTuple):
    """Where the state of the monitor holds the memories of items that run at once: that before all of them, and the
    joint one of those that have ended."""

    forked: int
    gathered: int


class SiblingMonitor(Monitor):
    """The monitor of a `requires` in a program with siblings. Its state is a list of memories, written as one."""

    def __init__(self, inner: RuleMonitor, layout: Layout) -> None:
        self.inner, self.layout = inner, layout
        self.asks_ends = inner.asks_ends
        blank = inner.start()
        assert isinstance(blank, tuple)
        self.blank: Levels = blank
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
            self.items[position] = self.items[layout.bodies[position].next] = _Items(self.count, self.count + 1)
            self.count += 2
        own = self.starts.keys() | self.branches.keys() | self.stages.keys() | self.joins.keys() | self.items.keys()
        self.watched = None if inner.watched is None else own | set(inner.watched)

    def start(self) -> State:
        """Return the state before the run."""
        return self.blank * self.count

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

    def enter(self, step: int, state: State) -> str | None:
        """Return the kind of violation if the step starts in this state, or None."""
        return self.inner.enter(step, self._read(state))

    def culprits(self, step: int, state: State) -> Iterable[tuple[int | None, ...]]:
        """Return the alternatives that make `enter` report."""
        return self.inner.culprits(step, self._read(state))

    def end(self, step: int, state: State, transition: Transition) -> str | None:
        """Return the kind of violation if the run ends by this transition in this state, or None."""
        return self.inner.end(step, self._read(state), transition)

    def leave(
        self, step: int, state: State, transition: Transition, call_outcomes: CallOutcomes = NOT_KNOWN
    ) -> Iterable[State]:
        """Return the states that are possible after this transition of the step."""
        if step in self.branches:
            slots, index = self.branches[step]
            earlier = [self._read(state, slots.kept[one]) for one in sorted(slots.fork.before[index])]
            return (self._written(state, {0: most(self._read(state, slots.forked), *earlier)}),)
        if step in self.joins:
            slots = self.joins[step]
            gathered = self._read(state, slots.gathered)
            forgotten = dict.fromkeys(range(slots.forked, slots.end), self.blank)
            found = self.inner.leave(step, gathered, transition, call_outcomes)
            return [self._written(state, {**forgotten, 0: one}) for one in _levels(found)]
        if step in self.items and isinstance(self.layout.steps[step], Stage):
            return self._between_items(step, state, transition)
        found = self.inner.leave(step, self._read(state), transition, call_outcomes)
        return [
            self._written(state, {0: one, **self._gathered(step, state, transition, one)}) for one in _levels(found)
        ]

    def _between_items(self, step: int, state: State, transition: Transition) -> list[State]:
        """Return the states after the stage between items: the next one does not know what others did."""
        items = self.items[step]
        gathered = most(self._read(state, items.gathered), self._read(state))
        if transition.kind == "item":
            found = self.inner.leave(step, self._read(state, items.forked), transition)
            return [self._written(state, {0: one, items.gathered: gathered}) for one in _levels(found)]
        forgotten = dict.fromkeys(items, self.blank)
        found = self.inner.leave(step, gathered, transition)
        return [self._written(state, {**forgotten, 0: one}) for one in _levels(found)]

    def _gathered(self, step: int, state: State, transition: Transition, after: Levels) -> dict[int, Levels]:
        """Return what changes beside the present memory: where branches part, and where one has ended."""
        if step in self.starts and transition.kind == "success":
            slots = self.starts[step]
            return {slots.forked: after, slots.gathered: after}
        if step in self.items and transition.kind == "success":
            return dict.fromkeys(self.items[step], after)
        if step in self.stages:
            slots, index = self.stages[step]
            known = {slots.gathered: most(self._read(state, slots.gathered), after)}
            return known | ({slots.kept[index]: after} if index in slots.kept else {})
        return {}


def _levels(found: Iterable[State]) -> Iterable[Levels]:
    for one in found:
        assert isinstance(one, tuple)
        yield one


def most(*memories: Sequence[int]) -> Levels:
    """Return the joint memory of some: the highest level of each guard."""
    return tuple(max(levels) for levels in zip(*memories, strict=True))


def not_judged_beside_branches(facts: ProgramFacts, rule: AnyRule, owner: int | None) -> str:
    """Return why a rule is not judged in a program with siblings, or an empty text; `owner` is as in `hits_in`."""
    layout = facts.flow.layout
    if isinstance(rule, FollowedBy) and layout.has_siblings:
        return f"what follows is not proved yet where {'branches' if layout.forks else 'items'} run at once"
    if not isinstance(rule, Never) or rule.when is None:
        return ""
    return reads_sibling(facts, rule.when, [hit.step for hit in hits_in(facts, rule.never, owner)])


def reads_sibling(facts: ProgramFacts, when: str, steps: Iterable[int]) -> str:
    """Return why a condition is not judged that is asked at some steps, or an empty text.

    On a path of the graph, a branch knows what those before it came to. In a run it does not, unless it depends on
    them.
    """
    try:
        tree = facts.meaning.condition(when)
    except ExpressionError:
        return ""
    layout, read = facts.flow.layout, {one.names[0]: one.names for one in all_references(tree)}
    for step in steps:
        for fork in layout.forks.values():
            ids = [facts.flow.steps[start].id for start in fork.branches]
            for number in (number for number, start in enumerate(fork.branches) if step in layout.inside(start)):
                unseen = [ids[one] for one in range(number) if one not in fork.before[number] and ids[one] in read]
                if unseen:
                    name, other = written(read[unseen[0]]), ids[number]
                    return f"its condition reads `${name}` in `{other}`, which runs at the same time as that branch"
    return ""


def hits_in(facts: ProgramFacts, selector: AnySelector | AnyGuard, owner: int | None) -> list[Match]:
    """Return the parts that a selector matches, in the body of the step at `owner` if there is one."""
    found = facts.hits(selector)
    return found if owner is None else [hit for hit in found if hit.step in facts.flow.layout.inside(owner)]


def monitor_of(rule: AnyRule, analyses: Analyses, *, doubtless: bool = False, owner: int | None = None) -> Monitor:
    """Return the monitor of a rule; with `doubtless`, a part that may have started counts as started.

    `owner` is the position of the step in whose body the rule stands.
    """
    found = bound(rule, analyses.facts.meaning, partial(hits_in, analyses.facts, owner=owner))
    monitor = RuleMonitor(analyses, found, doubtless=doubtless, owner=owner)
    layout = analyses.facts.flow.layout
    return SiblingMonitor(monitor, layout) if layout.has_siblings and isinstance(rule, Requires) else monitor
