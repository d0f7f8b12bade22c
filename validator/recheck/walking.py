"""Steps from states of a program and a watcher to their successors, and collects violations."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from functools import cached_property
from typing import Any, Final, NamedTuple

from stepward.validator.recheck.counts import Counts, Visits
from stepward.validator.recheck.exits import Exit
from stepward.validator.recheck.flow import END
from stepward.validator.recheck.followed import Changes, Followed, State
from stepward.validator.recheck.questions import Questions
from stepward.validator.recheck.reading import Reading
from stepward.validator.recheck.refusals import TooLarge
from stepward.validator.recheck.rules import Memory, Watcher
from stepward.validator.recheck.steps import Steps

MAX_PAIRS: Final = 1_000_000
"""The most pairs that are visited where a certificate lists none."""

Violations = set[tuple[int, str]]
"""Pairs of a step and a kind of violation that is not ruled out there."""


class Pair(NamedTuple):
    """A step, the memory of the watcher, and what is counted (`counts.py`), if it is."""

    step: int
    memory: Memory
    visits: Visits | None


class Walk:
    """Steps from states to their successors, and collects violations."""

    def __init__(self, reading: Reading, watcher: Watcher, most: int | None = None) -> None:
        self.reading = reading
        self.watcher = watcher
        self.most = most
        self.violations: Violations = set()
        self._onward: dict[int, tuple[int, ...] | None] = {}

    @cached_property
    def counts(self) -> Counts:
        """What may be counted: visits, items and rounds."""
        return Counts(self.reading)

    def steps(self, followed: Followed, *, is_search: bool = False) -> Steps:
        """Return the steps of the program, seen through followed references.

        A search chooses values late, and remembers the answers to questions.
        """
        watcher = self.watcher
        questions = Questions(self.reading, watcher.condition, watcher.hits) if is_search else None
        has_costs = self.most is not None
        return Steps(self.reading, followed, watcher.parts, has_costs=has_costs, is_lazy=is_search, questions=questions)

    def first(self, *, counts: bool) -> Pair:
        """Return the pair at the entry."""
        return Pair(0, self.watcher.start(), (0,) * len(self.counts) if counts else None)

    def targets(self, steps: Steps, pair: Pair, state: State, cost: int) -> Iterator[tuple[Pair, Changes, int]]:
        """Yield the successors of a state with changes and cost; and collect the violations."""
        step, memory, _ = pair
        if not steps.is_blind:
            self.reading.check()
        if not steps.may_get_to(step):
            return
        self._note(step, cost, self.watcher.entered(steps, step, state, memory))
        starts: set[frozenset[int | None]] = set()
        for exit_ in self._exits(steps, pair, state):
            if exit_.started not in starts or exit_.transition.kind == "uncovered":
                starts.add(exit_.started)
                self._note(step, cost, self.watcher.left(steps, step, state, memory, exit_))
            after = cost + (0 if step in self.reading.in_branches else exit_.cost)
            if self.most is not None and after > self.most:
                continue
            is_anew = step in self.watcher.renewing
            remembered = self.watcher.start() if is_anew else self.watcher.after(step, memory, exit_)
            is_end = exit_.transition.to == END
            ends = is_end or self.watcher.closes(exit_.transition)
            if ends and self.watcher.ended(remembered, exit_.transition):
                self.violations.add((step, "missing"))
            if not is_end:
                yield Pair(exit_.transition.to, remembered, self._counted(pair, exit_)), exit_.changes, after

    def onward(self, steps: Steps, step: int, *, counts: bool) -> tuple[int, ...] | None:
        """Return where a step leads that the property has nothing to do with, the same from every state; None for
        any other step.

        It reads no followed reference and changes none, the watcher does not see it, and nothing counts it.
        """
        if step not in self._onward:
            self._onward[step] = self._passed(steps, step) if self._is_irrelevant(steps, step, counts=counts) else None
        return self._onward[step]

    def _is_irrelevant(self, steps: Steps, step: int, *, counts: bool) -> bool:
        """Return whether neither the watcher nor a count nor a followed reference decides how a step is left."""
        watcher = self.watcher
        is_watched = watcher.sees_everything or step in watcher.watched_steps or step in watcher.renewing
        is_watched = is_watched or any(map(watcher.closes, self.reading.control.transitions[step]))
        is_counted = self.most is not None or (counts and self.counts.sees(step))
        if is_watched or is_counted or (watcher.ends_matter and self.reading.control.ends[step]):
            return False
        return not steps.read_slots(step) and not any(True for _ in steps.questions_at(step))

    def _passed(self, steps: Steps, step: int) -> tuple[int, ...] | None:
        """Return the targets of a step whose exits are the same in every state; None where one changes something."""
        self.reading.check()
        if not steps.may_get_to(step):
            return ()
        exits = steps.exits(step, None)
        if any(exit_.changes for exit_ in exits):
            return None
        return tuple(dict.fromkeys(one.transition.to for one in exits if one.transition.to != END))

    def _note(self, step: int, cost: int, breaches: Iterable[Any]) -> None:
        self.violations.update(
            (step, one.kind) for one in breaches if self.most is None or cost + one.cost <= self.most
        )

    def _counted(self, pair: Pair, exit_: Exit) -> Visits | None:
        if pair.visits is None:
            return None
        return self.counts.after(pair.step, pair.visits, exit_.transition.kind)

    def _exits(self, steps: Steps, pair: Pair, state: State) -> Iterator[Exit]:
        """Yield the exits that the counts so far allow."""
        exits = steps.exits(pair.step, state)
        if pair.visits is None:
            return iter(exits)
        return self.counts.allowed(pair.step, pair.visits, exits)


def explored(reading: Reading, watcher: Watcher, *, counts: bool = False, is_blind: bool = False) -> Violations:
    """Return the possible violations if every condition can take any branch.

    With `is_blind`, values are ignored entirely; otherwise a step that always or never fails is recognised. `counts`
    distinguishes visits, items and rounds.
    """
    if is_blind and not counts and not watcher.sees_everything:
        return _explored_by_graph(reading, watcher)
    walk = Walk(reading, watcher)
    steps = Steps(reading, Followed((), ()), watcher.parts, is_blind=is_blind)
    pairs = {walk.first(counts=counts)}
    pending = list(pairs)
    while pending:
        for target, _, _ in walk.targets(steps, pending.pop(), None, 0):
            if target not in pairs:
                pairs.add(target)
                pending.append(target)
                if len(pairs) > MAX_PAIRS:
                    raise TooLarge(f"program and rule have over {MAX_PAIRS:,} states together")
    return walk.violations


def _explored_by_graph(reading: Reading, watcher: Watcher) -> Violations:
    """Return the result of `explored` with `is_blind` and without counts.

    A step outside of `watcher.watched_steps` does not change the memory, so only its targets are needed. There is no
    deadline: the graph decides.
    """
    walk = Walk(reading, watcher)
    steps = Steps(reading, Followed((), ()), watcher.parts, is_blind=True)
    following, ends = reading.control.following, reading.control.ends
    watched, (starts, region) = {*watcher.watched_steps, *watcher.renewing}, _region(reading, watcher)
    if watcher.closing:
        transitions = enumerate(reading.control.transitions)
        watched |= {number for number, leaving in transitions if any(map(watcher.closes, leaving))}
    pending = [(start, watcher.start()) for start in starts]
    visited = set(pending)
    while pending:
        number, memory = pending.pop()
        successors: Iterable[tuple[int, Memory]]
        if number in watched:
            pair = Pair(number, memory, None)
            successors = [(successor.step, successor.memory) for successor, _, _ in walk.targets(steps, pair, None, 0)]
        else:
            successors = [(target, memory) for target in following[number]]
            if watcher.ends_matter and any(watcher.ended(memory, transition) for transition in ends[number]):
                walk.violations.add((number, "missing"))
        for successor in successors:
            if successor[0] in region and successor not in visited:
                visited.add(successor)
                pending.append(successor)
        if len(visited) > MAX_PAIRS:
            raise TooLarge(f"program and rule have over {MAX_PAIRS:,} states together")
    return walk.violations


def _region(reading: Reading, watcher: Watcher) -> tuple[Iterable[int], Container[int]]:
    """Return the steps at which a rule begins anew, and all steps that may affect it.

    A rule of a body begins anew with each item, and what is outside does not change its memory. Where the end of a run
    may break it, that may be anywhere.
    """
    for stage in () if watcher.ends_matter else watcher.renewing:
        body = reading.layout.body_of(stage)
        region = range(body.first, body.end)
        if all(step in region for step in watcher.watched_steps):
            return (body.first, *watcher.renewing), region
    return (0,), range(len(reading.steps))
