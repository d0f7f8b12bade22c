"""The lists of for_each steps in a witness: as long as a path says."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from stepward.validator.analysis.facts import ProgramFacts
from stepward.validator.analysis.product import ON_TO_ITEM, TRIES_AGAIN
from stepward.validator.engine.values.states import within
from stepward.validator.engine.witnesses.choices import Spot, below
from stepward.validator.findings import Move
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
    for stage, body in facts.bodies.of_stages.items():
        if stage != body.next or isinstance(facts.flow.steps[body.owner], BranchStep):
            continue
        each, between = (facts.flow.steps[one].id for one in (body.owner, stage))
        taken, most = _items_taken(path, each, between), facts.meaning.most_items(body.owner)
        is_too_long = most is not None and most <= MAX_TOO_LONG and _fails_at_start(path, each)
        size = most + 1 if is_too_long and most is not None else len(taken)
        for source, fields in listed(facts, body.owner) if size else ():
            spec, held = below(facts.meaning.typing.effective(source), fields), within(given(source), fields)
            items = held if isinstance(held, tuple) else ()
            more = first(spec.items if spec is not None else None) if len(items) < size else None
            items = (items + (items[-1:] or (more,)) * size)[:size]
            starts = [*taken, *[-1] * (size - len(taken))]
            yield (source, fields), tuple(map(known.get, starts[:size], items))


def _items_taken(path: Iterable[Move], each: str, between: str) -> list[int]:
    """Return the positions on a path at which items of a for_each step start, in the attempt that has most of them.

    `between` is the stage between its items.
    """
    most: list[int] = []
    now: list[int] = []
    for position, move in enumerate(path):
        if move.step == each or (move.step == f"{each} failed" and move.how == TRIES_AGAIN):
            now = []
        elif move.step == between and move.how == ON_TO_ITEM:
            now = [*now, position]
            most = max(most, now, key=len)
    return most


def _fails_at_start(path: Iterable[Move], each: str) -> bool:
    """Return whether a for_each step fails on a path before its first item."""
    return any(move.step == each and move.how.startswith("fails") for move in path)


def listed(facts: ProgramFacts, owner: int) -> Iterator[Spot]:
    """Yield the list of a for_each step, if it is one value from outside."""
    names = lone_reference(facts.bodies.each(owner).items)
    meant = None if names is None else facts.meaning.names.meaning(names)
    if meant is not None and len(meant.sources) == 1 and meant.sources[0].kind in ("input", "output"):
        yield meant.sources[0], meant.fields
