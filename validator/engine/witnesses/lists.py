"""The lists of for_each steps in a witness: as long as a path says, with the items that it knows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from stepward.validator.analysis.facts import ProgramFacts
from stepward.validator.analysis.product import ON_TO_ITEM, TRIES_AGAIN
from stepward.validator.engine.values.states import within
from stepward.validator.engine.witnesses.admitted_values import completed, over
from stepward.validator.engine.witnesses.choices import below, replaced
from stepward.validator.engine.witnesses.origins import Origin, origin_at
from stepward.validator.findings import Move
from stepward.vm.expressions.template import lone_reference
from stepward.vm.language.names import Source
from stepward.vm.language.steps import BranchStep
from stepward.vm.language.types import TypeSpec, fits

MAX_TOO_LONG: Final = 1_000
"""The most items that a step takes of which a longer list is made."""

Place = tuple[int, Source]
"""Where a witness says a value: the position of an answer on the path, START for inputs, and what it is of."""


@dataclass
class _Pass:
    """One pass through a list: its for_each step, and the positions on the path at which the step and its items
    start."""

    owner: int
    start: int
    item_starts: list[int] = field(default_factory=list)
    is_over: bool = False


def lists_of(
    facts: ProgramFacts,
    path: Sequence[Move],
    known: Mapping[int, Any],
    value_at: Callable[[int, Source], Any],
    first: Callable[[TypeSpec | None], Any],
) -> dict[Place, Any]:
    """Return the values that contain the lists of for_each steps, with as many items as a path takes, or too many if
    the step fails.

    `known` are items, by the position at which they start; `value_at` returns the value at a place, and `first` the
    simplest value of a type. Raises Valueless if a type has none.
    """
    lists: dict[Place, Any] = {}
    fixed: dict[Origin, int] = {}
    for pass_ in _passes(facts, path):
        names = lone_reference(facts.bodies.each(pass_.owner).items)
        origin = None if names is None else origin_at(facts, path, pass_.start, names)
        size = _size(facts, path, pass_)
        if origin is None or size == 0:
            continue
        location, spec = (origin.position, origin.source), facts.meaning.typing.effective(origin.source)
        whole, of_items = lists[location] if location in lists else value_at(*location), below(spec, origin.fields)
        old_list = within(whole, origin.fields)
        items = old_list if isinstance(old_list, tuple) else ()
        least = fixed.get(origin, 0) if pass_.is_over else max(len(items), fixed.get(origin, 0))
        size = max(size, least)
        filler = first(of_items.items if of_items is not None else None) if len(items) < size else None
        items = (items + (items[-1:] or (filler,)) * size)[:size]
        starts = [*pass_.item_starts, *[-1] * (size - len(pass_.item_starts))]
        # A path knows only those fields of an item that are asked for; its type requires others, too.
        items = tuple(over(item, known[at]) if at in known else item for at, item in zip(starts, items, strict=True))
        changed = replaced(whole, origin.fields, completed(items, of_items))
        if fits(changed, spec):
            lists[location], fixed[origin] = changed, size
    return lists


def _size(facts: ProgramFacts, path: Sequence[Move], pass_: _Pass) -> int:
    """Return how many items a list has to have: as many as are taken of it, or one too many."""
    most = facts.meaning.most_items(pass_.owner)
    if most is not None and most <= MAX_TOO_LONG and _fails_at_start(path, facts.flow.steps[pass_.owner].id):
        return most + 1
    return len(pass_.item_starts)


def _passes(facts: ProgramFacts, path: Sequence[Move]) -> list[_Pass]:
    """Return the ways through lists on a path, in the order in which they begin: an outer one comes before its inner
    ones."""
    steps = facts.flow.steps
    bodies = [body for body in facts.flow.layout.bodies.values() if not isinstance(steps[body.owner], BranchStep)]
    starts = {steps[body.owner].id: body.owner for body in bodies}
    nexts = {steps[body.next].id: body.owner for body in bodies}
    stages = nexts | {steps[body.failed].id: body.owner for body in bodies if body.failed is not None}
    open_passes: dict[int, _Pass] = {}
    passes: list[_Pass] = []
    for position, move in enumerate(path):
        owner = starts.get(move.step, stages.get(move.step))
        if owner is None:
            continue
        if move.step in starts or move.how == TRIES_AGAIN:
            open_passes[owner] = _Pass(owner, position)
            passes.append(open_passes[owner])
        elif (
            owner in open_passes and move.how == ON_TO_ITEM
        ):  # behind a failed item it is the next stage that takes one
            open_passes[owner].item_starts += [position] if move.step in nexts else []
        elif owner in open_passes:
            open_passes[owner].is_over = True
    return passes


def _fails_at_start(path: Iterable[Move], each: str) -> bool:
    """Return whether a for_each step fails on a path before its first item."""
    return any(move.step == each and move.how.startswith("fails") for move in path)
