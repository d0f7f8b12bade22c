"""Product search with counts: of visits of bounded steps, items of lists, and attempts of steps with bodies.

Without counts a step may use up its visits at any time, and a list may have any number of items. That allows more
behaviour, never less. With counts the search knows more, and visits more pairs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from stepward.validator.analysis.lengths import MAX_COUNTED_ITEMS, Length
from stepward.validator.analysis.product import (
    MAX_PAIRS,
    NOT_KNOWN,
    CallOutcomes,
    Choice,
    Exploration,
    Monitor,
    State,
    explore,
)
from stepward.validator.analysis.rounds import loops_in_a_row
from stepward.vm.language.flow import Flow
from stepward.vm.language.layout import Layout
from stepward.vm.language.steps import ForEachStep
from stepward.vm.language.transitions import Transition

MAX_COUNTED_ROUNDS: Final = 4
"""The largest `max_retries` of a step with a body whose attempts are counted; above that, any number may come."""

MAX_FOLLOWED_ROUNDS: Final = 100
"""The largest `max_retries` whose attempts are counted where a run is sought: it makes them all before it fails."""

MAX_COUNTED_PAIRS: Final = 20_000
"""Pairs that a search with counted visits may visit before the search without counts replaces it."""

MAX_COUNTS: Final = 2_000_000
"""Counts of visits that such a search may store, one for each pair and bounded step."""

_UNKNOWN: Final = Length(0, 0, is_whole=False)

Counts = tuple[int, ...]


def explore_counted(
    flow: Flow, monitor: Monitor, passable: Choice, *, most_counted: int = MAX_COUNTED_PAIRS, limit: int = MAX_PAIRS
) -> Exploration:
    """Explore with exact counts where that is cheap."""
    counting = _Counting(passable, monitor)
    most = min(most_counted, MAX_COUNTS // counting.size) if counting.size else 0
    if counting.size and not counting.exceeds(most, passable):
        exploration = explore(flow, counting, passable, limit=most)
        if exploration.is_complete:
            return exploration
    return explore(flow, monitor, passable, limit=limit)


def explore_prompt(flow: Flow, monitor: Monitor, passable: Choice) -> Exploration | None:
    """Explore only what runs can do whose items start promptly, and whose lists are short; None if that is too much.

    All attempts of steps with bodies are counted, because a run makes every one of them before the step fails.

    The machine starts all items that may run at once before it has an answer to the first call. So an attempt that
    takes fewer of them says how long the list is, and a later one takes no fewer. A proof may not suppose it: the
    language leaves it to timing. But the machine will not follow a path that goes otherwise. None, too, where no items
    that run at once are tried again, and no step is often.
    """
    counting = _Counting(passable, monitor, is_prompt=True)
    is_often = any(MAX_COUNTED_ROUNDS < most <= MAX_FOLLOWED_ROUNDS for _, most in _retried(flow))
    if not is_often and not any(own.length is not None for own in counting.stages.values()):
        return None
    exploration = explore(flow, counting, passable, limit=min(MAX_COUNTED_PAIRS, MAX_COUNTS // counting.size))
    return exploration if exploration.is_complete else None


class _Slots(NamedTuple):
    """Where the counts of one body stand, None for what is not counted.

    `items` are the items of the present attempt, as far as `expected` says. `has_failed` is 1 where items run at once
    and one has failed: then the step does not succeed. `attempts` are the attempts that have failed, of
    `most_attempts`. `least` says how many items the list has at least, as attempts before have shown. Where items start
    promptly, `most_beside` at once, `length` is how many the list has, as soon as an attempt has shown it.
    """

    inside: tuple[int, ...]
    items: int | None
    expected: Length
    has_failed: int | None
    attempts: int | None
    most_attempts: int
    least: int | None
    length: int | None
    most_beside: int


class _Counting(Monitor):
    """A monitor extended with counts of visits of every bounded step, of items, and of the attempts of steps with
    bodies. In a body, all count from the start of an item."""

    is_counting = True

    def __init__(self, passable: Choice, monitor: Monitor, *, is_prompt: bool = False) -> None:
        flow, self.monitor, self.is_prompt = passable.flow, monitor, is_prompt
        self.asks_ends, self.closing = monitor.asks_ends, monitor.closing
        self.bounds = {number: step.max_visits for number, step in enumerate(flow.steps) if step.max_visits is not None}
        self.failed = {body.failed for body in flow.layout.bodies.values() if body.failed is not None}
        self.size, self.slot, self.stages = self._slots(flow, passable.lengths)
        self.watched = None if monitor.watched is None else {*self.bounds, *self.stages, *monitor.watched}
        self.routed = {
            step
            for step in self.bounds
            if any(transition.kind == "visits" and transition.ending is None for transition in flow.transitions[step])
        }

    def _slots(self, flow: Flow, lengths: Mapping[int, Length]) -> tuple[int, dict[int, int], dict[int, _Slots]]:
        """Return the number of counts, the positions of those of steps, and the positions of those of bodies by their
        stages."""
        lists = {owner: _cut(one) if self.is_prompt else one for owner, one in lengths.items()}
        items, retried = [flow.layout.bodies[owner].next for owner in lists], dict(_retried(flow))
        most_rounds = MAX_FOLLOWED_ROUNDS if self.is_prompt else MAX_COUNTED_ROUNDS
        rounds = [stage for stage, most in retried.items() if most <= most_rounds]
        listed = [stage for stage in retried if not _is_once(flow, stage)]
        failing = list(_failing_at_once(flow.layout))
        prompt = [stage for stage in failing if self.is_prompt and stage in retried]
        groups = (self.bounds, items, failing, rounds, listed, prompt)
        counts = [(kind, step) for kind, group in enumerate(groups) for step in group]
        slot = {one: number for number, one in enumerate(counts)}
        stages: dict[int, _Slots] = {}
        for body in flow.layout.bodies.values():
            within, failed = flow.layout.inside(body.owner), -1 if body.failed is None else body.failed
            slots = _Slots(
                tuple(number for number, (_, step) in enumerate(counts) if step in within),
                slot.get((1, body.next)),
                lists.get(body.owner, _UNKNOWN),
                slot.get((2, failed)),
                slot.get((3, failed)),
                retried.get(failed, 1),
                slot.get((4, failed)),
                slot.get((5, failed)),
                _most_beside(flow, body.owner),
            )
            stages |= {stage: slots for stage in (body.next, body.failed) if stage is not None}
        return len(counts), {step: slot[0, step] for step in self.bounds}, stages

    def exceeds(self, pairs: int, passable: Choice) -> bool:
        """Return whether a search certainly visits more pairs than these; a body is not looked into."""
        if self.stages or self.routed or len(self.bounds) < pairs.bit_length():
            return False
        return 1 << loops_in_a_row(passable.following, self.bounds) > pairs

    def start(self) -> State:
        return self.monitor.start(), (0,) * self.size

    def enter(self, step: int, state: State) -> str | None:
        inner, counts = _split(state)
        kind = self.monitor.enter(step, inner)
        if step in self.bounds and counts[self.slot[step]] >= self.bounds[step]:
            return kind if kind == "missing" else None  # it is not started, but an obligation from before remains
        return kind

    def violating_starts(self, step: int, state: State) -> Iterable[tuple[int | None, ...]]:
        return self.monitor.violating_starts(step, _split(state)[0])

    def leave(
        self, step: int, state: State, transition: Transition, call_outcomes: CallOutcomes = NOT_KNOWN
    ) -> Iterator[State]:
        inner, before = _split(state)
        counts = self._counted(step, before, transition)
        if counts is None:
            return
        for after in self.monitor.leave(step, inner, transition, call_outcomes):
            yield after, counts

    def _counted(self, step: int, counts: Counts, transition: Transition) -> Counts | None:
        """Return the counts after a transition; None for one that can't be taken."""
        if step in self.stages:
            return self._between(step, transition.kind, counts)
        if step not in self.slot:
            return counts
        slot, bound = self.slot[step], self.bounds[step]
        if not self._applies(transition, counts[slot], bound, has_route=step in self.routed):
            return None
        return (*counts[:slot], counts[slot] + 1, *counts[slot + 1 :])

    def _between(self, stage: int, kind: str, counts: Counts) -> Counts | None:
        """Return the counts after a transition between items; None for one that can't be taken."""
        slots, after = self.stages[stage], list(counts)
        for slot in slots.inside:
            after[slot] = 0
        if stage in self.failed:
            return self._after_failure(slots, kind, counts, after)
        if kind == "item":
            assert slots.items is not None, "only lists have items"
            most = (slots.length is not None and counts[slots.length]) or slots.expected.counted
            is_full = counts[slots.items] >= most
            after[slots.items] += not is_full
            return None if is_full and slots.expected.is_whole else tuple(after)
        # The step ends: not though an item has failed, and not before all items that the list is known to have.
        least = max(slots.expected.least, counts[slots.least] if slots.least is not None else 0)
        is_short = slots.items is not None and counts[slots.items] < least
        if is_short or (slots.has_failed is not None and counts[slots.has_failed]):
            return None
        return _begun_anew(slots, after)

    @staticmethod
    def _after_failure(slots: _Slots, kind: str, counts: Counts, after: list[int]) -> Counts | None:
        """Return the counts behind a failed item: another item follows, or another attempt, or the step ends."""
        if kind == "item":
            if slots.has_failed is not None:
                after[slots.has_failed] = 1
            return tuple(after)
        is_again = kind == "again"
        if slots.attempts is not None and is_again is (counts[slots.attempts] + 1 >= slots.most_attempts):
            return None
        _begun_anew(slots, after)
        if slots.length is not None and slots.items is not None and slots.least is not None:
            items = counts[slots.items]
            if items < min(counts[slots.least], slots.most_beside):
                return None
            is_whole = is_again and items < slots.most_beside
            after[slots.length] = items if is_whole else counts[slots.length] if is_again else 0
        if is_again and slots.attempts is not None:
            after[slots.attempts] = counts[slots.attempts] + 1
        if is_again and slots.least is not None and slots.items is not None:
            after[slots.least] = max(counts[slots.least], counts[slots.items])
        return tuple(after)

    @staticmethod
    def _applies(transition: Transition, count: int, bound: int, *, has_route: bool) -> bool:
        if count < bound:
            return transition.kind != "visits"
        goes_on = has_route and count == bound
        return transition.kind == "visits" and (transition.ending is None) is goes_on

    def end(self, step: int, state: State, transition: Transition) -> str | None:
        return self.monitor.end(step, _split(state)[0], transition)


def _begun_anew(slots: _Slots, counts: list[int]) -> Counts:
    """Return the counts where the step has ended, or an attempt of it."""
    for slot in (slots.items, slots.has_failed, slots.attempts, slots.least, slots.length):
        if slot is not None:
            counts[slot] = 0
    return tuple(counts)


def _cut(known: Length) -> Length:
    """Return what is known of a list if only short ones are looked at."""
    counted = known.counted if known.is_whole else MAX_COUNTED_ITEMS
    return Length(known.least, counted, is_whole=True)


def _most_beside(flow: Flow, owner: int) -> int:
    step = flow.steps[owner]
    return step.max_concurrency if isinstance(step, ForEachStep) else 1


def _failing_at_once(layout: Layout) -> Iterator[int]:
    """Yield the stages behind a failed item of steps whose items run at once."""
    for owner in sorted(layout.beside):
        failed = layout.bodies[owner].failed
        if failed is not None:
            yield failed


def _retried(flow: Flow) -> Iterator[tuple[int, int]]:
    """Yield the stages behind a failed item of steps that are tried again, each with the attempts in all."""
    for body in flow.layout.bodies.values():
        step = flow.steps[body.owner]
        if body.failed is not None and isinstance(step, ForEachStep) and step.on_error == "retry":
            yield body.failed, step.max_retries


def _is_once(flow: Flow, stage: int) -> bool:
    """Return whether a stage is that of a step without a list, which calls a program."""
    step = flow.steps[flow.layout.body_of(stage).owner]
    return isinstance(step, ForEachStep) and step.is_once


def _split(state: State) -> tuple[State, Counts]:
    assert isinstance(state, tuple)
    inner, counts = state
    return inner, counts
