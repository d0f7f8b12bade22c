"""The values that variables had when items began: a search keeps them behind the blocks and answers of a state.

A variable that items carry on gets back the value from before an item that is skipped, and, in another attempt of its
step, the value from before all items. Tables do not keep them, and allow any of its values there.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Final, NamedTuple

from stepward.validator.recheck.blocks import OPEN
from stepward.validator.recheck.followed import Changes, Followed
from stepward.validator.recheck.names import Names
from stepward.validator.recheck.reading import Reading
from stepward.vm.language.steps import ForEachStep

BEFORE_ITEM: Final = -3
"""The number of the value that a carried variable had before the item."""

BEFORE_ALL: Final = -4
"""The number of the value that it had before all items."""


class _SavedSlot(NamedTuple):
    """Where a state holds the saved value of a slot; `number` says which one."""

    owner: int
    number: int
    slot: int
    position: int


class SavedValues:
    """The saved values of a search. `size` is their number, and `read` has the slots that each stage saves."""

    def __init__(self, reading: Reading, followed: Followed, first: int) -> None:
        self.size = 0
        self.read: defaultdict[int, int] = defaultdict(int)
        self.live: defaultdict[int, int] = defaultdict(int)
        """The saved values that a state at a step has to hold, a bit for each."""
        self._at: dict[tuple[int, int], list[_SavedSlot]] = defaultdict(list)
        self._back: dict[tuple[int, int, int], int] = {}
        self._layout = reading.layout
        for owner, step in enumerate(reading.steps):
            if not isinstance(step, ForEachStep) or not step.carry:
                continue
            body = reading.layout.bodies[owner]
            for number, is_saved in (
                (BEFORE_ITEM, step.on_item_error == "skip"),
                (BEFORE_ALL, step.on_error == "retry"),
            ):
                begins = (body.next, body.first) if number == BEFORE_ITEM else (owner, body.next)
                for slot in self._slots(followed, step) if is_saved else ():
                    saved = _SavedSlot(owner, number, slot, first + self.size)
                    self.size += 1
                    self._at[begins].append(saved)
                    self._back[owner, number, slot] = saved.position
                    self.read[body.next] |= 1 << slot
                    for inside in (*reading.layout.inside(owner), body.next, body.failed):
                        if inside is not None:
                            self.live[inside] |= 1 << saved.position

    @staticmethod
    def _slots(followed: Followed, step: ForEachStep) -> list[int]:
        roots: list[Names] = [(name,) for name in step.carry]
        return [slot for root in roots for slot in followed.under(root)]

    def moved(self, state: tuple[int, ...], changes: Changes, step: int, target: int) -> dict[int, int]:
        """Return the blocks of a state behind a move from a step to another one."""
        blocks = dict(enumerate(state))
        for slot, block in changes:
            blocks[slot] = (
                block if block not in (BEFORE_ITEM, BEFORE_ALL) else self._given_back(state, step, slot, block)
            )
        for saved in self._at.get((step, target), ()):
            blocks[saved.position] = blocks[saved.slot]
        return blocks

    def _given_back(self, state: tuple[int, ...], step: int, slot: int, number: int) -> int:
        owner = self._layout.owner(step) if number == BEFORE_ITEM else self._layout.body_of(step).owner
        assert owner is not None, "only the end of an item gives values back"
        saved = self._back.get((owner, number, slot))
        return OPEN if saved is None else state[saved]
