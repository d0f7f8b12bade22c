"""Runs that come to a late item of a list that is written down in its for_each step.

A path takes the items that it needs, one after another from the first. A run takes all of them. What is asked about an
item, and nothing else, tells which one a path needs. Those before it, and those behind it, get the simplest answers;
or else all items get those of the path.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice
from typing import Any, Final, NamedTuple

from stepward.validator.analysis.facts import ProgramFacts
from stepward.validator.analysis.product import ON_TO_ITEM, TRIES_AGAIN
from stepward.validator.engine.values.states import UNDEFINED, within
from stepward.validator.engine.witnesses.replay import Replayed, Replayer
from stepward.validator.engine.witnesses.witness import CallAnswer, Witness
from stepward.validator.findings import Move
from stepward.vm.errors import EvaluationError, ExpressionError, UndefinedReferenceError
from stepward.vm.expressions.building import built
from stepward.vm.expressions.evaluator import evaluate
from stepward.vm.expressions.fields import written
from stepward.vm.expressions.syntax import Compare, Constant, Expression, all_references, walk
from stepward.vm.language.guardrails import Never
from stepward.vm.language.steps import AnyCall

MAX_LATE: Final = 16
"""The most items of a list at which a run is tried."""

MAX_OTHERS: Final = 100
"""In a list of at most so many items, equivalent items are tried, too."""

MAX_LATE_RECORDS: Final = 20_000
"""The most records of the machine for all these runs of one program that show nothing."""

Places = Mapping[str, Sequence[tuple[Any, ...]]]
"""The frames in which each call was made, in the order of its visits."""


class Rounds(NamedTuple):
    """The last items that a path takes of a list: the for_each step, all its items, and where these are on the path.

    `before` are the items that the path takes before them, and `length` is how many they are. Where it takes none, they
    begin where the step does.
    """

    owner: int
    items: tuple[Any, ...]
    before: int
    length: int
    first: int
    end: int


def as_taken(run: tuple[Move, ...], path: tuple[Move, ...]) -> tuple[Move, ...]:
    """Return the moves of a run over more items than a path has, up to where the path ends."""
    ends = [number for number, move in enumerate(run) if move.step == path[-1].step]
    return (*run[: ends[-1]], path[-1]) if ends else path


def last_rounds(facts: ProgramFacts, path: Sequence[Move]) -> list[Rounds]:
    """Return all items that a path takes of its last list, and the last one alone; none where the list is not written
    down, or may be taken more than once."""
    layout = facts.flow.layout
    for owner in reversed(layout.bodies):
        step = facts.flow.steps[owner]
        starts_of_step = [position for position, move in enumerate(path) if move.step == step.id]
        items = _items(facts, owner)
        if len(starts_of_step) != 1 or items is None or _is_in_loop(facts, owner):
            continue
        body = layout.bodies[owner]
        stages = {facts.flow.steps[stage].id for stage in (body.next, body.failed) if stage is not None}
        moves = [(position, move) for position, move in enumerate(path) if move.step in stages]
        if any(move.how == TRIES_AGAIN for _, move in moves):
            continue
        takes = facts.flow.steps[body.next].id
        starts = [position for position, move in moves if (move.step, move.how) == (takes, ON_TO_ITEM)]
        if not starts:
            return [Rounds(owner, items, 0, 0, starts_of_step[0], starts_of_step[0])]
        end = next((position for position, _ in moves if position > starts[-1]), len(path))
        firsts = dict.fromkeys((0, len(starts) - 1)) if len(starts) < len(items) else ()
        return [Rounds(owner, items, one, len(starts) - one, starts[one], end) for one in firsts]
    return []


def _is_in_loop(facts: ProgramFacts, owner: int) -> bool:
    return not all(facts.bodies.each(one).is_once for one in facts.flow.layout.owners_of(owner))


def _items(facts: ProgramFacts, owner: int) -> tuple[Any, ...] | None:
    step = facts.bodies.each(owner)
    if step.is_once or not isinstance(step.items, tuple):
        return None
    trees = [built(one) for one in step.items]
    values = tuple(tree.value for tree in trees if isinstance(tree, Constant))
    return values if len(values) == len(trees) else None


class LateItems:
    """Runs at late items for the paths of one program, within a budget of records of their own."""

    def __init__(self, facts: ProgramFacts, replayer: Replayer, replayed: Callable[[Witness], Replayed]) -> None:
        self.facts, self.replayer, self.replayed = facts, replayer, replayed
        self._left = MAX_LATE_RECORDS
        self._plainly: tuple[Any, Replayed, Places] | None = None
        """The last run over all items with the simplest answers: most paths have the same."""

    def shown(
        self,
        path: Sequence[Move],
        witness: Witness,
        answers: Sequence[tuple[int, CallAnswer]],
        plain: Callable[[AnyCall], Any],
    ) -> tuple[Witness, Replayed] | None:
        """Return a witness over all items of the last list of a path, with its run, if one is confirmed."""
        steps_before = self.replayer.steps
        for last in last_rounds(self.facts, path) if self._left > 0 else ():
            result = self._shown(last, witness, Scripts(self.facts, last, answers, plain), steps_before)
            if result is not None:
                return result
        self._left -= self.replayer.steps - steps_before
        return None

    def _shown(
        self, last: Rounds, witness: Witness, scripts: Scripts, steps_before: int
    ) -> tuple[Witness, Replayed] | None:
        most = witness.max_steps * (len(last.items) + 1)
        candidate = replace(witness, script=scripts.plainly(), max_steps=most)
        known = candidate.script, candidate.inputs, candidate.claim
        if self._plainly is None or self._plainly[0] != known:
            self._plainly = known, self.replayed(candidate), self.replayer.frames()
        _, replayed, frames = self._plainly
        others = (scripts.at(item, frames) for item in candidates(self.facts, last))
        for script in chain(others, [scripts.throughout()] if last.length else []):
            if replayed.confirmed or self.replayer.steps - steps_before > self._left:
                break
            candidate = replace(witness, script=script, max_steps=most)
            replayed = self.replayed(candidate)
        return (candidate, replayed) if replayed.confirmed else None


class Scripts:
    """Writes the scripts of runs over all items of a list.

    `answers` are those of the path, by their positions on it, and `plain` returns the simplest output of a call.
    """

    def __init__(
        self,
        facts: ProgramFacts,
        last: Rounds,
        answers: Sequence[tuple[int, CallAnswer]],
        plain: Callable[[AnyCall], Any],
    ) -> None:
        self.facts, self.last = facts, last
        steps = (facts.flow.steps[number] for number in facts.flow.layout.inside(last.owner))
        self.calls: dict[str, Any] = {call.id: plain(call) for step in steps for _, call in step.calls}
        self.answers = answers

    def plainly(self) -> tuple[CallAnswer, ...]:
        """Return the script of a run in which all items behind those of the path get the simplest answers."""
        return (*self._outside(), *self._simple({}, {}))

    def at(self, item: int, frames: Places) -> tuple[CallAnswer, ...]:
        """Return the script of a run in which the items from one on get the answers of the path; `frames` are those of
        the run with the simplest answers."""
        each = self.facts.flow.steps[self.last.owner].id
        before = {call: sum(_item(frame, each) < item for frame in frames.get(call, ())) for call in self.calls}
        start, used = self._first_visits(), self._used()
        shifted = [replace(one, visit=one.visit + before[one.step] - start[one.step]) for one in self._of_items()]
        return (*self._outside(), *shifted, *self._simple(before, used))

    def throughout(self) -> tuple[CallAnswer, ...]:
        """Return the script of a run in which all items get the answers of the last ones of the path."""
        rounds = -(-(len(self.last.items) - self.last.before) // self.last.length)
        own_answers, used = list(self._of_items()), self._used()
        answers = (
            replace(one, visit=one.visit + number * used[one.step]) for number in range(rounds) for one in own_answers
        )
        return (*self._outside(), *answers)

    def _of_items(self) -> Iterator[CallAnswer]:
        """Yield the answers to the calls of the last items of the path."""
        for position, answer in self.answers:
            if answer.step in self.calls and self.last.first <= position < self.last.end:
                yield answer

    def _used(self) -> dict[str, int]:
        """Return the visits of each call in the last items of the path."""
        start, used = self._first_visits(), dict.fromkeys(self.calls, 0)
        for answer in self._of_items():
            used[answer.step] = max(used[answer.step], answer.visit - start[answer.step])
        return used

    def _first_visits(self) -> dict[str, int]:
        """Return the visits of each call on the path before its last items."""
        visits = dict.fromkeys(self.calls, 0)
        for position, answer in self.answers:
            if answer.step in visits and position < self.last.first:
                visits[answer.step] = max(visits[answer.step], answer.visit)
        return visits

    def _outside(self) -> Iterator[CallAnswer]:
        for position, answer in self.answers:
            if answer.step not in self.calls or position < self.last.first:
                yield answer

    def _simple(self, before: Mapping[str, int], used: Mapping[str, int]) -> Iterator[CallAnswer]:
        """Yield the simplest answers for all visits but those of the path."""
        for call, first in self._first_visits().items():
            path_visits = range(before.get(call, first) + 1, before.get(call, first) + used.get(call, 0) + 1)
            for visit in range(first + 1, first + len(self.last.items) + len(path_visits) + 1):
                if visit not in path_visits:
                    yield CallAnswer(call, visit, "returns", self.calls[call])


def _item(frame: Sequence[Any], each: str) -> int:
    """Return the number of the item of a for_each step in which a frame is."""
    return next((int(member[3]) for member in frame if member[0] == each), 0)


def candidates(facts: ProgramFacts, last: Rounds) -> Iterator[int]:
    """Yield the items at which a run is tried: one of each group with the same answers to all comparisons, then others
    of a short list."""
    comparisons = list(_asked(facts, last.owner))
    first_of: dict[tuple[Any, ...], int] = {}
    known = range(last.before, len(last.items) - max(1, last.length) + 1)
    for number in known if last.length else ():
        first_of.setdefault(_answers(facts, last, comparisons, number), number)
    first = sorted(first_of.values(), reverse=True)
    others = (number for number in known if number not in first) if last.length and len(known) <= MAX_OTHERS else ()
    yield from islice((*first, *others), MAX_LATE)


def _asked(facts: ProgramFacts, owner: int) -> Iterator[Expression]:
    """Yield the comparisons, in the body and in rules, that read an item or its number, and nothing else."""
    step = facts.bodies.each(owner)
    known = {step.item_name, step.index_as}
    trees = [
        clause.tree
        for number in facts.flow.layout.inside(owner)
        for clause in facts.meaning.clauses_of.get(number, ())
        if clause.tree is not None
    ]
    for rule, _ in (*facts.meaning.rules, *facts.meaning.body_rules):
        if isinstance(rule, Never) and rule.when is not None:
            try:
                trees.append(facts.meaning.condition(rule.when))
            except ExpressionError:
                continue
    for tree in trees:
        for node in walk(tree):
            if isinstance(node, Compare) and {one.names[0] for one in all_references(node)} <= known:
                yield node


def _answers(facts: ProgramFacts, last: Rounds, comparisons: Sequence[Expression], number: int) -> tuple[Any, ...]:
    step = facts.bodies.each(last.owner)

    def look_up(names: tuple[str, ...]) -> Any:
        value = within(last.items[number] if names[0] == step.item_name else number, names[1:])
        if value is UNDEFINED:
            raise UndefinedReferenceError(written(names))
        return value

    answers: list[Any] = []
    for tree in comparisons:
        try:
            answers.append(evaluate(tree, look_up))
        except EvaluationError:
            answers.append(None)
    return tuple(answers)
