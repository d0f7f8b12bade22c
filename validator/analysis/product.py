"""Product search: the program's graph and a small monitor, explored together.

`explore` visits every pair of step and monitor state that some path of edges reaches. It over-approximates the runs
of the program: it takes both branches of a condition. So

- no reachable pair is bad: the property is proved, with no solver, and the visited pairs are the certificate;
- a bad pair is reachable by transitions that are certainly possible (no condition decides, nothing may be undefined, no
  visit is used up): the property is violated, and the path shows how;
- otherwise conditions decide, and this layer has no verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final, Literal

from stepward.validator.analysis.bodies import MAX_COUNTED_ITEMS
from stepward.validator.findings import Move
from stepward.vm.language.flow import Flow
from stepward.vm.language.layout import Layout
from stepward.vm.language.steps import ForEachStep
from stepward.vm.language.transitions import END, Transition

State = Hashable

CallOutcome = Literal["succeeds", "times out", "fails", "unstarted"]
"""The outcome of a call: `times out` continues with its fallback, `unstarted` is a failure before its start."""

CallOutcomes = Mapping[int | None, CallOutcome]
"""The outcomes of a step's own call (key None) and of its sub-steps (by position); empty where they are not known."""

NOT_KNOWN: Final[CallOutcomes] = {}

USED_UP: Final = "has used up its visits"
"""The words of a path for a step that was not started again."""

ON_TO_ITEM: Final = "goes on to an item"
"""The words of a path for a stage at which the next item starts."""

TRIES_AGAIN: Final = "tries again"
"""The words of a path for a stage at which another attempt of a step with items begins."""

MAX_PAIRS: Final = 4_000_000
"""Pairs of step and monitor state that one search may visit."""

HAS_FAILED, BEGINS_AGAIN = 1, 2
"""Where items run at once: one has failed; a new attempt begins, which has as many items as the one before."""

MAX_COUNTED_PAIRS: Final = 20_000
"""Pairs that a search with counted visits may visit before the search without counts replaces it."""

MAX_COUNTS: Final = 2_000_000
"""Counts of visits that such a search may store, one for each pair and bounded step."""


class Monitor:
    """An automaton that observes a run and remembers what its property needs; this one never reports a violation.

    `asks_ends` says whether `end` may report. `watched` are the steps that may be reported on entry, or that change the
    state; None when any step may.
    """

    asks_ends = False
    watched: Collection[int] | None = None

    def start(self) -> State:
        """Return the state before the run."""
        return 0

    def enter(self, step: int, state: State) -> str | None:  # noqa: ARG002
        """Return the kind of violation if the step starts in this state, or None."""
        return None

    def culprits(self, step: int, state: State) -> Iterable[tuple[int | None, ...]]:  # noqa: ARG002
        """Return the alternatives that make `enter` report: each is a set of parts of the step that start together."""
        return ((),)

    def leave(
        self,
        step: int,  # noqa: ARG002
        state: State,
        transition: Transition,  # noqa: ARG002
        call_outcomes: CallOutcomes = NOT_KNOWN,  # noqa: ARG002
    ) -> Iterable[State]:
        """Return the states that are possible after this transition of the step."""
        return (state,)

    def end(self, step: int, state: State, transition: Transition) -> str | None:  # noqa: ARG002
        """Return the kind of violation if the run ends by this transition in this state, or None."""
        return None


class Choice:
    """A subset of the transitions of a program: those that `passes` accepts.

    At every step outside of `asked`, all transitions to other steps belong to it.
    """

    def __init__(self, flow: Flow, passes: Callable[[int, Transition], bool], asked: Iterable[int]) -> None:
        self.flow = flow
        self.passes = passes
        self._asked = asked

    @cached_property
    def following(self) -> list[tuple[int, ...]]:
        """The steps that may follow each step by these transitions."""
        found = list(self.flow.successors)
        for number in self._asked:
            transitions = self.flow.transitions[number]
            passed = (one.to for one in transitions if one.to >= 0 and self.passes(number, one))
            found[number] = tuple(dict.fromkeys(passed))
        return found


class Bad:
    """A violation that the search found: its kind, its step, and the path to it."""

    def __init__(self, kind: str, step: int, found: Exploration, number: int, last: Transition | None) -> None:
        self.kind = kind
        self.step = step
        self._found = found
        self._end = number, last

    @cached_property
    def path(self) -> tuple[Move, ...]:
        """The moves from the entry to the violation. Computed on demand, since most are never used."""
        return tuple(self._found.moves(*self._end))[::-1]


class Exploration:
    """The reached pairs of step and monitor state, numbered in the order of their discovery.

    `steps` and `states` are the two halves of the pairs, `out` the successors of each pair. `marks` are the violations:
    the number of a pair, the kind, and the transition by which the run ends, None for a violation on entry.
    `is_complete` is false when the search stopped at its limit; `is_counted` says that the pairs include counts of
    visits.
    """

    def __init__(self, flow: Flow, monitor: Monitor, passable: Choice) -> None:
        self.flow = flow
        self.monitor = monitor
        self.passable = passable
        self.is_counted = isinstance(monitor, _Counting)
        self.is_complete = False
        self.steps: list[int] = []
        self.states: list[State] = []
        self.out: list[Sequence[int]] = []
        self.marks: list[tuple[int, str, Transition | None]] = []
        self._numbers: dict[State, dict[int, int]] = {}

    @property
    def pairs(self) -> int:
        """The number of pairs that were visited."""
        return len(self.steps)

    @cached_property
    def visited(self) -> list[tuple[int, State]]:
        """The pairs that were visited, in order."""
        return list(zip(self.steps, self.states, strict=True))

    @cached_property
    def bad(self) -> dict[tuple[str, int], Bad]:
        """The first violation of each kind at each step."""
        found: dict[tuple[str, int], Bad] = {}
        for number, kind, transition in self.marks:
            step = self.steps[number]
            if (kind, step) not in found:
                found[kind, step] = Bad(kind, step, self, number, transition)
        return found

    @cached_property
    def before(self) -> list[list[int]]:
        """The predecessors of each pair."""
        result: list[list[int]] = [[]]
        for number, targets in enumerate(self.out):
            for target in targets:
                if target == len(result):  # pairs are numbered in the order of their discovery
                    result.append([number])
                else:
                    result[target].append(number)
        return result

    def number(self, step: int, state: State) -> int | None:
        """Return the number of a pair, or None if it was not visited."""
        return self._numbers.get(state, {}).get(step)

    def may_end(self, step: int) -> bool:
        """Return whether a passable transition of a step ends the run."""
        ends = (one for one in self.flow.transitions[step] if one.to == END)
        return any(self.passable.passes(step, one) for one in ends)

    def transitions(self, number: int) -> Iterator[tuple[int | None, Transition]]:
        """Yield the transitions of a pair, each with its target pair; None where the run ends."""
        step, state = self.steps[number], self.states[number]
        for transition in self.flow.transitions[step]:
            if not self.passable.passes(step, transition):
                continue
            if transition.to == END and not self.monitor.asks_ends:
                yield None, transition
                continue
            for after in self.monitor.leave(step, state, transition):
                if transition.to == END:
                    yield None, transition
                elif transition.to >= 0:
                    yield self.number(transition.to, after), transition

    def moves(self, number: int, last: Transition | None) -> Iterator[Move]:
        """Yield the path to a pair in reverse order, starting with the transition `last` from it."""
        transition = last
        while True:
            yield moved(self.flow, self.steps[number], transition)
            if number == 0:
                return
            before = self.before[number][0]  # the pair that discovered it
            transition = next(transition for target, transition in self.transitions(before) if target == number)
            number = before

    # -- the search ------------------------------------------------------------------------------------------------

    def search(self, limit: int) -> None:
        """Visit all pairs breadth first; stop beyond `limit`."""
        self._visit(0, self.monitor.start())
        following, is_watched = self.passable.following, self._is_watched
        for number, step in enumerate(self.steps):  # the list grows during the loop
            if len(self.steps) > limit:
                return
            state = self.states[number]
            if is_watched[step]:
                self.out.append(self._expand(number, step, state))
            else:  # the state stays
                self.out.append([self._visit(target, state) for target in following[step]])
        self.is_complete = True

    @cached_property
    def _is_watched(self) -> bytearray:
        """For each step, 1 if the monitor must be asked. Most steps of a large program do not concern it."""
        size, watched = len(self.flow.steps), self.monitor.watched
        if watched is None:
            return bytearray(b"\1") * size
        result = bytearray(size)
        for step in watched:
            result[step] = 1
        if self.monitor.asks_ends:
            for step, transitions in enumerate(self.flow.transitions):
                if any(transition.to == END for transition in transitions):
                    result[step] = 1
        return result

    def _expand(self, number: int, step: int, state: State) -> list[int]:
        """Ask the monitor about a pair, and visit its successors."""
        monitor = self.monitor
        kind = monitor.enter(step, state)
        if kind is not None:
            self.marks.append((number, kind, None))
        found: dict[int, None] = {}
        for transition in self.flow.transitions[step]:
            if (transition.to == END and not monitor.asks_ends) or not self.passable.passes(step, transition):
                continue
            for after in monitor.leave(step, state, transition):
                if transition.to == END:
                    kind = monitor.end(step, after, transition)
                    if kind is not None:
                        self.marks.append((number, kind, transition))
                elif transition.to >= 0:
                    found[self._visit(transition.to, after)] = None
        return list(found)

    def _visit(self, step: int, state: State) -> int:
        known = self._numbers.get(state)
        if known is None:
            known = self._numbers[state] = {}
        pair = known.get(step)
        if pair is None:
            pair = known[step] = len(self.steps)
            self.steps.append(step)
            self.states.append(state)
        return pair


def explore(flow: Flow, monitor: Monitor, passable: Choice, *, limit: int = MAX_PAIRS) -> Exploration:
    """Visit, breadth first, every pair that `passable` transitions reach from the entry.

    If `bad` is empty, no path of such transitions violates the monitor's property.
    """
    found = Exploration(flow, monitor, passable)
    found.search(limit)
    return found


def explore_counted(
    flow: Flow, monitor: Monitor, passable: Choice, *, most_counted: int = MAX_COUNTED_PAIRS, limit: int = MAX_PAIRS
) -> Exploration:
    """Explore with exact counts of visits where that is cheap.

    Without counts a step may use up its visits at any time: that allows more behaviour, never less.
    """
    counting = counted(flow, monitor)
    if counting is not None:
        found = explore(flow, counting, passable, limit=min(most_counted, MAX_COUNTS // len(counting.slot)))
        if found.is_complete:
            return found
    return explore(flow, monitor, passable, limit=limit)


def counted(flow: Flow, monitor: Monitor) -> _Counting | None:
    """Return the monitor extended with counts of visits of every bounded step; None where there is nothing to count."""
    bounds = {number: step.max_visits for number, step in enumerate(flow.steps) if step.max_visits is not None}
    items, failing = dict(_few_items(flow)), failing_at_once(flow.layout)
    return _Counting(flow, monitor, bounds, items) if bounds or items or failing else None


def failing_at_once(layout: Layout) -> dict[int, int]:
    """Return the stages behind a failed item of steps whose items run at once, each with the stage between items."""
    bodies = [layout.bodies[owner] for owner in sorted(layout.beside)]
    return {body.failed: body.next for body in bodies if body.failed is not None}


def _few_items(flow: Flow) -> Iterator[tuple[int, int]]:
    """Yield the stages between the items of for_each steps with few of them, each with its `max_items`."""
    for body in flow.layout.bodies.values():
        step = flow.steps[body.owner]
        if isinstance(step, ForEachStep) and step.max_items is not None and step.max_items <= MAX_COUNTED_ITEMS:
            yield body.next, step.max_items


class _Counting(Monitor):
    """A monitor extended with counts of visits of every bounded step, and of items at stages with few of them.

    In a body, both count from the start of an item. Where items run at once, it remembers whether one has failed, so
    that the step does not succeed, and whether a new attempt has no item yet.
    """

    def __init__(self, flow: Flow, monitor: Monitor, visits: dict[int, int], items: dict[int, int]) -> None:
        self.monitor = monitor
        self.asks_ends = monitor.asks_ends
        self.failing = failing_at_once(flow.layout)
        bounds = visits | items | dict.fromkeys(self.failing, 1)
        self.bounds, self.items = visits, items
        self.slot = {step: number for number, step in enumerate(bounds)}
        self.inside = {
            stage: [self.slot[step] for step in flow.layout.inside(body.owner) if step in self.slot]
            for body in flow.layout.bodies.values()
            for stage in (body.next, *([body.failed] if body.failed is not None else []))
        }
        self.stage_of = {body.failed: body.next for body in flow.layout.bodies.values() if body.failed is not None}
        of_stages = self.inside.keys()
        self.failed_of = {stage: failed for failed, stage in self.failing.items()}
        self.watched = None if monitor.watched is None else bounds.keys() | of_stages | set(monitor.watched)
        self.routed = {
            step
            for step in visits
            if any(transition.kind == "visits" and transition.to != END for transition in flow.transitions[step])
        }

    def start(self) -> State:
        return self.monitor.start(), (0,) * len(self.slot)

    def enter(self, step: int, state: State) -> str | None:
        inner, counts = _split(state)
        kind = self.monitor.enter(step, inner)
        if step in self.bounds and counts[self.slot[step]] >= self.bounds[step]:
            return kind if kind == "missing" else None  # it is not started, but an obligation from before remains
        return kind

    def culprits(self, step: int, state: State) -> Iterable[tuple[int | None, ...]]:
        return self.monitor.culprits(step, _split(state)[0])

    def leave(
        self, step: int, state: State, transition: Transition, call_outcomes: CallOutcomes = NOT_KNOWN
    ) -> Iterator[State]:
        inner, counts = _split(state)
        if step in self.inside:
            counts = self._between(step, transition, counts)
            if not counts and self.slot:
                return
        elif step in self.slot:
            slot, bound = self.slot[step], self.bounds[step]
            if not self._applies(transition, counts[slot], bound, has_route=step in self.routed):
                return
            counts = (*counts[:slot], counts[slot] + 1, *counts[slot + 1 :])
        for after in self.monitor.leave(step, inner, transition, call_outcomes):
            yield after, counts

    def _between(self, stage: int, transition: Transition, counts: tuple[int, ...]) -> tuple[int, ...]:
        """Return the counts after a transition between items; empty for one that can't be taken: no item is left, or
        the step would succeed though an item has failed, or before the first item of a new attempt."""
        found = list(counts)
        for slot in self.inside[stage]:
            found[slot] = 0
        at = self.stage_of.get(stage, stage)
        if at in self.items and not (stage in self.failing and transition.kind == "item"):
            slot = self.slot[at]
            if transition.kind == "item" and counts[slot] >= self.items[at]:
                return ()
            found[slot] = counts[slot] + 1 if transition.kind == "item" else 0
        if stage in self.failing:
            found[self.slot[stage]] = {"item": HAS_FAILED, "again": BEGINS_AGAIN}.get(transition.kind, 0)
        elif stage in self.failed_of:
            slot = self.slot[self.failed_of[stage]]
            if transition.kind == "success" and counts[slot]:
                return ()
            found[slot] = 0 if counts[slot] == BEGINS_AGAIN else counts[slot]
        return tuple(found)

    @staticmethod
    def _applies(transition: Transition, count: int, bound: int, *, has_route: bool) -> bool:
        if count < bound:
            return transition.kind != "visits"
        goes_on = has_route and count == bound
        return transition.kind == "visits" and (transition.to != END) is goes_on

    def end(self, step: int, state: State, transition: Transition) -> str | None:
        return self.monitor.end(step, _split(state)[0], transition)


def _split(state: State) -> tuple[State, tuple[int, ...]]:
    assert isinstance(state, tuple)
    inner, counts = state
    return inner, counts


def how(transition: Transition) -> str:
    """Return the words for a transition in a path."""
    if transition.kind == "branch":
        return f"case {transition.branch}" if isinstance(transition.branch, int) else f"takes {transition.branch}"
    words = {
        "success": "succeeds",
        "fallback": "times out, fallback",
        "skipped": "fails, skipped",
        "failed": "fails",
        "uncovered": "takes no branch",
        "visits": USED_UP,
        "end": "ends the run",
        "item": ON_TO_ITEM,
        "again": TRIES_AGAIN,
    }
    return words[transition.kind]


def moved(flow: Flow, step: int, transition: Transition | None, error: str = "") -> Move:
    """Return the move of a path that leaves a step, or that ends where it starts; `error` names why it failed."""
    if transition is None:
        return Move(flow.steps[step].id, "starts")
    is_start = transition.kind == "success" and step in (flow.layout.bodies.keys() | flow.layout.forks.keys())
    is_close = transition.kind == "end" and transition.to != END
    return Move(flow.steps[step].id, how(transition), error, is_start, is_close)
