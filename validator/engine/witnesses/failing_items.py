"""Paths on which more items of a for_each step fail, or succeed.

A condition may read `$id.errors`, or the list of the step. On a path both may be any list. A run needs items that fail
as the errors say, and as many items as the list has. So frames are put before those of the path, or in their place,
and the machine decides which of these paths is a run that shows the violation.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final, TypeVar

from stepward.validator.analysis.product import ON_TO_ITEM, moved
from stepward.validator.engine.values.states import within
from stepward.validator.engine.witnesses.origins import START, origin_at
from stepward.validator.findings import Move
from stepward.vm.expressions.syntax import Constant, all_references, walk
from stepward.vm.expressions.template import lone_reference
from stepward.vm.language.steps import Call, ForEachStep, ParallelStep, Stage
from stepward.vm.language.transitions import Transition

if TYPE_CHECKING:
    from stepward.validator.analysis.facts import ProgramFacts
    from stepward.validator.engine.witnesses.synthesis import Known, Witnesses
    from stepward.validator.engine.witnesses.witness import Claim, Witness

T = TypeVar("T")

MAX_PATHS: Final = 40
"""The most paths that are made of one."""

MAX_RECORDS: Final = 4_000
"""The records of the machine after which no more of them are tried."""

MAX_OF_ONE: Final = 300
"""The records after which the search for a run on one of them stops, without the four for each of its moves."""

MAX_WAYS: Final = 200
"""The most steps from which the ways of an item go on."""

MAX_FAILURES: Final = 8
"""The most ways to fail an item that are tried."""

MAX_GOOD: Final = 2
"""The most paths of a successful item that are tried for a list which is longer than the path."""

MAX_ITEMS: Final = 20
"""The most items that are put on a path."""


@dataclass(frozen=True)
class Frame:
    """What one item does: its moves, and the errors of calls on it, each after its position there and the call."""

    moves: tuple[Move, ...]
    errors: tuple[tuple[int, str, str], ...] = ()

    def then(self, move: Move, errors: Mapping[str, str]) -> Frame:
        """Return this, and one move more; `errors` are those of the calls of its step."""
        new_errors = tuple((len(self.moves), call, name) for call, name in errors.items())
        return Frame((*self.moves, move), (*self.errors, *new_errors))


def with_other_items(
    witnesses: Witnesses, claim: Claim, kind: str, path: Sequence[Move], known: Known
) -> tuple[tuple[Move, ...], Witness] | None:
    """Return a path with more items in one of its for_each steps, and its witness; None if there is none.

    `known` is what the engine knows on the path, as for `Witnesses.confirm`.
    """
    steps_before, result = witnesses.replayer.steps, None
    for moves, others in islice(_candidates(witnesses.facts, path, known), MAX_PATHS):
        if witnesses.replayer.steps - steps_before > min(MAX_RECORDS, witnesses.left_for_items):
            break
        witness = witnesses.confirm(claim, kind, moves, others, MAX_OF_ONE)
        if not isinstance(witness, str):
            result = moves, witness
            break
    witnesses.spent_on_items(witnesses.replayer.steps - steps_before)
    return result


def _candidates(facts: ProgramFacts, path: Sequence[Move], known: Known) -> Iterator[tuple[tuple[Move, ...], Known]]:
    """Yield the paths with more items in one of their for_each steps, each with what is known on it."""
    steps_read = _asked(facts)
    starts = [number for number, move in enumerate(path) if move.opens]
    for number in starts:
        owner = facts.flow.position[path[number].step]
        each = facts.flow.steps[owner]
        if not isinstance(each, ForEachStep) or each.is_once:
            continue
        count, end = _taken(path, number, each)
        is_asked, missing = each.id in steps_read, _more(facts, path, number, end, known)
        rows = _rows(facts, owner, each, count, missing) if is_asked else _longer(facts, owner, missing)
        for frames in rows:
            yield _put(path, known, number + 1, frames)
        if is_asked and count and end is not None:
            emptied, others = _without(path, known, number + 1, end)
            for frames in _rows(facts, owner, each, 0, count + missing):
                yield _put(emptied, others, number + 1, frames)


def _asked(facts: ProgramFacts) -> frozenset[str]:
    """Return the ids of the for_each steps of which a condition, a text or a rule reads the errors of items."""
    meaning = facts.meaning
    names = [
        reference.names
        for clause in meaning.clauses
        if clause.tree is not None
        for reference in all_references(clause.tree)
    ]
    names_read = {located[0] for one in names if (located := meaning.names.locate(one)) is not None}
    whens = [text for _, text in meaning.whens]
    return frozenset(
        step
        for step in meaning.names.listed
        if (step, "errors") in names_read or any(f"${step}.errors" in text for text in whens)
    )


def _taken(path: Sequence[Move], start: int, each: ForEachStep) -> tuple[int, int | None]:
    """Return how many items a path takes of a step that starts at a position, and the position where it takes no more;
    None if it does not."""
    count = 0
    for number, move in enumerate(path[start + 1 :], start=start + 1):
        if move.step == each.id:
            break
        if move.step == f"{each.id} next" and move.how != ON_TO_ITEM:
            return count, number
        count += move.how == ON_TO_ITEM and move.step == f"{each.id} next"
    return count, None


# -- frames ------------------------------------------------------------------------------------------------------------


def _rows(facts: ProgramFacts, owner: int, each: ForEachStep, count: int, missing: int) -> Iterator[tuple[Frame, ...]]:
    """Yield the frames to put on a path, few first: all fail, or the first of them, or the last. `missing` is
    how many the path lacks."""
    successes, failures = _frames(facts, owner)
    sizes = [*range(1, min(3, (each.max_items or count) - count) + 1)]
    sizes += [missing] if missing not in sizes else []
    if isinstance(each.items, tuple):
        sizes = [len(each.items) - count]
    for size in (one for one in sizes if 0 < one <= MAX_ITEMS):
        if each.on_item_error == "fail":
            yield from ((frame,) * size for frame in successes[:1])
            continue
        for frame in failures:
            rest = successes[:1] * (size - 1)
            yield from dict.fromkeys([(frame,) * size, (frame, *rest), (*rest, frame)] if rest else [(frame,) * size])


def _longer(facts: ProgramFacts, owner: int, missing: int) -> Iterator[tuple[Frame, ...]]:
    """Yield the frames to put on a path that takes fewer items than it was said to have, or one more."""
    successes, _ = _frames(facts, owner)
    for frame in successes[:MAX_GOOD] if 0 < missing <= MAX_ITEMS else ():
        yield (frame,) * missing


def _more(facts: ProgramFacts, path: Sequence[Move], start: int, end: int | None, known: Known) -> int:
    """Return how many more items the list of a step must have than the path takes; 0 if nothing says it.

    What is asked of a list, of its first items, of the outputs and errors of all, and of the number of an item, says
    nothing of the items that a path takes.
    """
    each = facts.bodies.each(facts.flow.position[path[start].step])
    items = [
        start + 1 + number
        for number, move in enumerate(path[start + 1 : end])
        if move.step == f"{each.id} next" and move.how == ON_TO_ITEM
    ]
    lists = [_list_of(facts, path, start, known)]
    if end is not None:
        lists += [known.outputs.get((end, each.id)), known.outputs.get((end, f"{each.id}.errors"))]
    lacking = [max(1, len(one) - len(items)) for one in lists if isinstance(one, tuple)]
    numbers = [known.outputs.get((position, each.index_as or "")) for position in items]
    before = [number - index for index, number in enumerate(numbers) if isinstance(number, int)]
    return max([*lacking, *before], default=0)


def _list_of(facts: ProgramFacts, path: Sequence[Move], start: int, known: Known) -> Any:
    """Return the list of a step that a path starts at a position; None if it is not known."""
    names = lone_reference(facts.bodies.each(facts.flow.position[path[start].step]).items)
    origin = None if names is None else origin_at(facts, path, start, names)
    if origin is None:
        return None
    is_input = origin.position == START
    name = origin.source.name
    value = known.inputs.get(name) if is_input else known.outputs.get((origin.position, name))
    return within(value, origin.fields)


def _frames(facts: ProgramFacts, owner: int) -> tuple[list[Frame], list[Frame]]:
    """Return the short paths of an item through a body: those that succeed, and those that fail."""
    flow, body = facts.flow, facts.flow.layout.bodies[owner]
    stages = {body.next, body.failed}
    opened = moved(
        flow, body.next, next(transition for transition in flow.transitions[body.next] if transition.kind == "item")
    )
    pending = deque([(body.first, frozenset([body.first]), Frame((opened,)))])
    successes: list[Frame] = []
    failures: list[Frame] = []
    for _ in range(MAX_WAYS):
        if not pending:
            break
        number, visited, before = pending.popleft()
        for transition in flow.transitions[number]:
            if transition.kind in ("visits", "again") or transition.to < 0:
                continue
            further = [
                before.then(moved(flow, number, transition, name), errors)
                for name, errors in _named(facts, number, transition)
            ]
            if transition.ending is not None and transition.to in stages:
                (successes if transition.ending.status == "SUCCESS" else failures).extend(further)
            elif transition.to not in visited or isinstance(flow.steps[transition.to], Stage):
                pending.extend((transition.to, visited | {transition.to}, frame) for frame in further)
    names_in_texts = _texts(facts)
    failures.sort(key=lambda frame: not any(name in names_in_texts for _, _, name in frame.errors))
    return successes, failures[:MAX_FAILURES]


def _named(facts: ProgramFacts, number: int, transition: Transition) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the errors with which a step takes a transition, each with those of its calls; no name where it has none.

    A failure without a failed call is not among them: it would need values, and nothing here chooses values.
    """
    step, failing = facts.flow.steps[number], facts.failing
    if transition.kind not in ("failed", "skipped") or isinstance(step, Stage):
        yield "", {}
    elif isinstance(step, ParallelStep) or (isinstance(step, Call) and not failing.has_names):
        names = dict.fromkeys(name for part in step.sub_steps for name in failing.started(part))
        for name in names if failing.has_names else ():
            if facts.flow.failure(number, name) == transition:
                yield name, {part.id: name for part in step.sub_steps if name in failing.started(part)}
        if not names or not failing.has_names:
            yield "", {}
    elif isinstance(step, Call):
        names = dict.fromkeys(failing.started(step))
        for name in names if transition.kind == "failed" else list(names)[:1]:
            if facts.flow.failure(number, name) == transition:
                yield name, {step.id: name}


def _texts(facts: ProgramFacts) -> set[Any]:
    """Return the texts that conditions compare: among them are the names of errors for which they ask."""
    trees = (clause.tree for clause in facts.meaning.clauses if clause.tree is not None)
    nodes = chain.from_iterable(map(walk, trees))
    return {node.value for node in nodes if isinstance(node, Constant) and isinstance(node.value, str)}


# -- paths -------------------------------------------------------------------------------------------------------------


def _put(path: Sequence[Move], known: Known, at: int, frames: Sequence[Frame]) -> tuple[tuple[Move, ...], Known]:
    """Return a path with frames at a position, and what is known on it."""
    new = [move for frame in frames for move in frame.moves]
    shifted = _renumbered(known, lambda number: number if number < at else number + len(new))
    errors, offset = dict(shifted.errors), at
    for frame in frames:
        errors.update(((offset + index, call), name) for index, call, name in frame.errors)
        offset += len(frame.moves)
    return (*path[:at], *new, *path[at:]), replace(shifted, errors=errors)


def _without(path: Sequence[Move], known: Known, start: int, end: int) -> tuple[tuple[Move, ...], Known]:
    """Return a path without the moves of some positions, and what is known on it."""

    def place(number: int) -> int | None:
        return number if number < start else None if number < end else number - (end - start)

    return (*path[:start], *path[end:]), _renumbered(known, place)


def _renumbered(known: Known, new_position: Callable[[int], int | None]) -> Known:
    """Return what is known on a path whose positions change; `new_position` returns None for one that is removed."""

    def by_position(found: Mapping[int, T]) -> dict[int, T]:
        return {at: one for number, one in found.items() if (at := new_position(number)) is not None}

    def by_call(found: Mapping[tuple[int, str], T]) -> dict[tuple[int, str], T]:
        return {(at, name): one for (number, name), one in found.items() if (at := new_position(number)) is not None}

    return replace(
        known,
        outputs=by_call(known.outputs),
        errors=by_call(known.errors),
        turns=by_position(known.turns),
        items=by_position(known.items),
    )
