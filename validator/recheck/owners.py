"""States in which a value fits the fields and items in it.

A field says something of its owner: only an object has fields, and only a list of three items has a third one. The
owner says something of its other fields. So where a state leaves a reference open, its owners are chosen first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from stepward.validator.recheck.blocks import GIVEN, OPEN, UNDEFINED, meet
from stepward.validator.recheck.followed import Followed
from stepward.validator.recheck.items import item_of, may_have, surely_has
from stepward.validator.recheck.refusals import TooLarge
from stepward.vm.expressions.fields import index_of

if TYPE_CHECKING:
    from stepward.validator.recheck.steps import Steps

MAX_SPLITS: Final = 100_000
"""The most states that one state with open references stands for at a step."""


def resolved_states(steps: Steps, step: int, state: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Yield the state with every choice of blocks for the open references that a step reads, and their owners."""
    yield from resolved(steps, step, state, steps.read_slots(step))


def resolved(steps: Steps, step: int, state: tuple[int, ...], slots: Iterable[int]) -> list[tuple[int, ...]]:
    """Return the state with every choice of blocks for some references that it leaves open, and their owners."""
    followed = steps.followed
    states = [state]
    for slot in [slot for slot in followed.with_owners(slots) if state[slot] in (OPEN, GIVEN)]:
        numbers = steps.choices(slot, step, state)
        wider = [(*one[:slot], number, *one[slot + 1 :]) for one in states for number in numbers]
        related = (slot, *followed.inside(slot))
        states = [one for one in wider if all(is_possible(steps, followed, dict(enumerate(one)), at) for at in related)]
        if len(states) > MAX_SPLITS:
            raise TooLarge("a state leaves too much open to be looked at")
    return states


def is_possible(steps: Steps, followed: Followed, state: Mapping[int, int], slot: int) -> bool:
    """Return whether the block of a slot is consistent with the block of its owner, and with its variable."""
    if state[slot] in (OPEN, GIVEN):
        return True
    name = followed.names[slot]
    block = followed.blocks[slot][state[slot]]
    root = steps.origins.root(name)
    owner = followed.slot.get(name[:-1]) if len(name) > len(root) else None
    if owner is not None and state[owner] in (OPEN, GIVEN):
        return True
    owner_block = None if owner is None else followed.blocks[owner][state[owner]]
    if owner_block is not None and not may_have(owner_block, name[-1]):
        return block == UNDEFINED
    if block != UNDEFINED:
        item = None if owner_block is None else item_of(owner_block, name[-1])
        return item is None or meet(block, item)
    if owner_block is not None and index_of(name[-1]) is not None:
        return not surely_has(owner_block, name[-1])
    if name == root:
        return not steps.origins.is_always_there(root)
    if owner is None:
        return steps.origins.of(name).may_be_absent or not steps.origins.is_always_there(root)
    return steps.origins.may_be_absent_from_object(name)
