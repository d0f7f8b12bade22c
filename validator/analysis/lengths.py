"""How many items the lists of for_each steps have, as far as the program and the types of its values say it."""

from __future__ import annotations

from typing import Final, NamedTuple

from stepward.validator.analysis.given_types import GivenTypes
from stepward.vm.expressions.template import lone_reference
from stepward.vm.language.meaning import Meaning
from stepward.vm.language.steps import ForEachStep
from stepward.vm.language.types import TypeSpec

MAX_COUNTED_ITEMS: Final = 3
"""The most items of a list that searches count; of a longer one they only know whether an item has come."""


class Length(NamedTuple):
    """What searches know of the items of a step that does not fail before them.

    There are at least `least`. They are counted up to `counted`, and if `is_whole`, there are no more.
    """

    least: int
    counted: int
    is_whole: bool


def lengths(meaning: Meaning, types: GivenTypes) -> dict[int, Length]:
    """Return what is known of the items of each for_each step, by its position."""
    found: dict[int, Length] = {}
    for number in meaning.flow.layout.bodies:
        step = meaning.flow.steps[number]
        if isinstance(step, ForEachStep) and not step.is_once:
            most = _most(step)
            is_few = most is not None and most <= MAX_COUNTED_ITEMS
            counted = most if is_few and most is not None else 1
            found[number] = Length(min(_least(step, meaning, types, counted), counted), counted, is_few)
    return found


def _most(step: ForEachStep) -> int | None:
    written = len(step.items) if isinstance(step.items, tuple) else None
    known = [one for one in (step.max_items, written) if one is not None]
    return min(known, default=None)


def _least(step: ForEachStep, meaning: Meaning, types: GivenTypes, counted: int) -> int:
    if isinstance(step.items, tuple):
        return len(step.items)
    names = lone_reference(step.items)
    meant = None if names is None else meaning.names.meaning(names)
    sizes = range(counted, 0, -1)
    return next((one for one in sizes if types.are_of(meant, TypeSpec(type=("array",), minItems=one))), 0)
