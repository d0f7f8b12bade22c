"""How many items the lists of for_each steps have, as far as the program and the types of its values say it."""

from __future__ import annotations

from bisect import bisect_left
from typing import Final, NamedTuple

from stepward.validator.analysis.asked_lengths import AskedLengths
from stepward.validator.analysis.given_types import GivenTypes
from stepward.vm.expressions.template import lone_reference
from stepward.vm.language.meaning import Meaning
from stepward.vm.language.names import Resolution
from stepward.vm.language.steps import ForEachStep
from stepward.vm.language.types import TypeSpec

MAX_COUNTED_ITEMS: Final = 3
"""The most items of a list that searches count; of a longer one they only know whether an item has come."""

MAX_LEAST: Final = 1 << 20
"""More items than that are not counted: a machine takes no more steps in a run."""


class Length(NamedTuple):
    """What searches know of the items of a step that does not fail before them.

    There are at least `least`. They are counted up to `counted`, and if `is_whole`, there are no more.
    """

    least: int
    counted: int
    is_whole: bool


def lengths(meaning: Meaning, types: GivenTypes) -> dict[int, Length]:
    """Return what is known of the items of each for_each step, by its position."""
    known: dict[int, Length] = {}
    asked = AskedLengths(meaning)
    for number in meaning.flow.layout.bodies:
        step = meaning.flow.steps[number]
        if isinstance(step, ForEachStep) and not step.is_once:
            most = _most(step)
            is_few = most is not None and most <= MAX_COUNTED_ITEMS
            counted = most if is_few and most is not None else 1
            least = _least(number, step, asked, types, counted)
            known[number] = Length(min(least, counted), counted, is_few)
    return known


def _most(step: ForEachStep) -> int | None:
    written = len(step.items) if isinstance(step.items, tuple) else None
    known = [one for one in (step.max_items, written) if one is not None]
    return min(known, default=None)


def _least(number: int, step: ForEachStep, asked: AskedLengths, types: GivenTypes, counted: int) -> int:
    if isinstance(step.items, tuple):
        return len(step.items)
    resolution, names = _meant(step, asked.meaning), lone_reference(step.items)
    by_type = next((one for one in range(counted, 0, -1) if types.are_of(resolution, _of_length(one))), 0)
    if resolution is None or names is None:
        return by_type
    return max(by_type, asked.least(number, names, resolution, counted))


def least_items(number: int, meaning: Meaning, types: GivenTypes, visited: frozenset[int] = frozenset()) -> int:
    """Return how many items a for_each step certainly has if it does not fail before them; 0 for other bodies."""
    step = meaning.flow.steps[number]
    if not isinstance(step, ForEachStep) or step.is_once or number in visited:
        return 0
    if isinstance(step.items, tuple):
        return len(step.items)
    resolution = _meant(step, meaning)
    if resolution is not None and not resolution.fields:
        outputs = {one.step for one in resolution.sources if one.kind == "output"}
        lists = [one for one in meaning.flow.layout.bodies if one in outputs]
        if len(lists) == len(resolution.sources):  # the output of each has an entry for each item
            return min(least_items(one, meaning, types, visited | {number}) for one in lists)
    if not types.are_of(resolution, _of_length(1)):
        return 0
    return bisect_left(range(MAX_LEAST), True, key=lambda size: not types.are_of(resolution, _of_length(size))) - 1


def _meant(step: ForEachStep, meaning: Meaning) -> Resolution | None:
    names = lone_reference(step.items)
    return None if names is None else meaning.names.meaning(names)


def _of_length(least: int) -> TypeSpec:
    return TypeSpec(type=("array",), minItems=least)
