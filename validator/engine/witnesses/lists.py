"""The lists of for_each steps in a witness: as long as a path says."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from stepward.validator.analysis.facts import ProgramFacts
from stepward.validator.analysis.product import ON_TO_ITEM, TRIES_AGAIN
from stepward.validator.engine.values.states import within
from stepward.validator.engine.witnesses.choices import Spot, below
from stepward.validator.engine.witnesses.reached import completed
from stepward.validator.findings import Move
from stepward.vm.expressions.fields import ITEMS
from stepward.vm.expressions.template import lone_reference
from stepward.vm.language.names import Source
from stepward.vm.language.steps import BranchStep
from stepward.vm.language.types import TypeSpec

MAX_TOO_LONG: Final = 1_000
"""The most items that a step takes of which a longer list is made."""


def lists_of(
    facts: ProgramFacts,
    path: Sequence[Move],
    known: Mapping[int, Any],
    given: Callable[[Source], Any],
    first: Callable[[TypeSpec | None], Any],
) -> Iterator[tuple[Spot, Any]]:
    """Yield the lists of for_each steps: with as many items as a path takes, or too many where a step fails.

    `known` are items, by the position at which they start; `given` returns the value of a source, and `first` the
    simplest value of a type. Raises Valueless if a type has none.
    """
    for owner, spot, taken in _passes(facts, path):
        source, fields = spot
        most = facts.meaning.most_items(owner)
        is_too_long = most is not None and most <= MAX_TOO_LONG and _fails_at_start(path, facts.flow.steps[owner].id)
        size = most + 1 if is_too_long and most is not None else len(taken)
        if size == 0:
            continue
        spec, held = below(facts.meaning.typing.effective(source), fields), within(given(source), fields)
        items = held if isinstance(held, tuple) else ()
        more = first(spec.items if spec is not None else None) if len(items) < size else None
        items = (items + (items[-1:] or (more,)) * size)[:size]
        starts = [*taken, *[-1] * (size - len(taken))]
        # A path knows only those fields of an item that are asked for; its type requires others, too.
        yield spot, completed(tuple(map(known.get, starts[:size], items)), spec)


def behind_lists(values: Mapping[Spot, Any], lists: Mapping[Spot, Any]) -> dict[Spot, Any]:
    """Return values with lists in the order in which they replace parts of a value.

    Fields of items come last: a list whose items have no declared type is made of plain ones, and would lose them.
    """
    of_items = {spot: value for spot, value in values.items() if ITEMS in spot[1]}
    return {spot: value for spot, value in values.items() if spot not in of_items} | {**lists} | of_items


def _passes(facts: ProgramFacts, path: Sequence[Move]) -> list[tuple[int, Spot, list[int]]]:
    """Return the for_each steps of a path with their lists, and the positions at which the items of a list start.

    A list of which items are taken more than once is there with the attempt that takes most of them. The list of an
    inner step follows that of the outer one: each item of the outer list has its own.
    """
    steps = facts.flow.steps
    bodies = [body for body in facts.flow.layout.bodies.values() if not isinstance(steps[body.owner], BranchStep)]
    starts = {steps[body.owner].id: body.owner for body in bodies}
    between = {steps[body.next].id: body.owner for body in bodies}
    failed = {steps[body.failed].id: body.owner for body in bodies if body.failed is not None}
    now: dict[int, list[int]] = {}
    most: dict[tuple[int, Spot], list[int]] = {}
    for position, move in enumerate(path):
        if move.step in starts:
            owner, now[starts[move.step]] = starts[move.step], []
        elif move.step in failed and move.how == TRIES_AGAIN:
            owner, now[failed[move.step]] = failed[move.step], []
        elif move.step in between and move.how == ON_TO_ITEM:
            owner = between[move.step]
            now[owner] = [*now.get(owner, []), position]
        else:
            continue
        spot = _list_at(facts, owner, now)
        if spot is not None:
            most[owner, spot] = max(most.get((owner, spot), []), now[owner], key=len)
    return [(owner, spot, taken) for (owner, spot), taken in most.items()]


def _list_at(facts: ProgramFacts, owner: int, now: Mapping[int, Sequence[int]]) -> Spot | None:
    """Return the list of a for_each step if it is one value from outside; `now` are the items of the steps around."""
    names = lone_reference(facts.bodies.each(owner).items)
    meant = None if names is None else facts.meaning.names.meaning(names)
    if meant is None or len(meant.sources) != 1:
        return None
    (source,) = meant.sources
    if source.kind != "item" or source.step is None:
        return (source, meant.fields) if source.kind in ("input", "output") else None
    outer = facts.bodies.of_stages[source.step].owner
    around = _list_at(facts, outer, now) if outer in facts.flow.layout.owners_of(owner) else None
    if around is None or not now.get(outer):
        return None
    return around[0], (*around[1], f"[{len(now[outer]) - 1}]", *meant.fields)


def _fails_at_start(path: Iterable[Move], each: str) -> bool:
    """Return whether a for_each step fails on a path before its first item."""
    return any(move.step == each and move.how.startswith("fails") for move in path)


def listed(facts: ProgramFacts, owner: int) -> Iterator[Spot]:
    """Yield the list of a for_each step, if it is one value from outside."""
    names = lone_reference(facts.bodies.each(owner).items)
    meant = None if names is None else facts.meaning.names.meaning(names)
    if meant is not None and len(meant.sources) == 1 and meant.sources[0].kind in ("input", "output"):
        yield meant.sources[0], meant.fields
