"""The references that a certificate follows, with their blocks, and states that give each of them one block."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from stepward.validator.recheck.blocks import UNDEFINED, Block, common, meet
from stepward.validator.recheck.names import Names
from stepward.validator.recheck.origins import prefixes

State = tuple[int, ...] | None
"""For each followed reference the number of its block, OPEN or GIVEN; None where nothing is known."""

Changes = tuple[tuple[int, int], ...]
"""New blocks of followed references, as pairs of slot and block number."""

UNCHANGED: Final[tuple[Changes]] = ((),)
"""The one way to leave a part of which nothing is followed."""

Test = Callable[[Block], bool]

DescribeField = Callable[[Names, bool], tuple[Test, bool]]
"""Takes the fields below a value, and whether their owner is known to be an object. Returns a test whether the value
may be in a block, and whether it may be undefined."""


class Followed:
    """The references that a certificate follows, with the partition of each."""

    def __init__(self, names: Sequence[Names], blocks: Sequence[tuple[Block, ...]]) -> None:
        self.names = tuple(names)
        self.blocks = tuple(blocks)
        self.slot = {name: number for number, name in enumerate(self.names)}
        self.undefined = [cut.index(UNDEFINED) for cut in self.blocks]
        self._under: dict[Names, list[int]] = {}
        for slot in sorted(range(len(self.names)), key=lambda slot: (len(self.names[slot]), slot)):
            for root in prefixes(self.names[slot]):
                self._under.setdefault(root, []).append(slot)
        self._meeting: dict[tuple[int, Block], tuple[int, ...]] = {}
        self._split: dict[int, tuple[dict[tuple[str, Any], int], list[int]]] = {}

    def under(self, root: Names) -> Sequence[int]:
        """Return the slots of the followed references below a root, owners first."""
        return self._under.get(root, ())

    def follows_any(self, roots: Iterable[Names]) -> bool:
        """Return whether a reference below one of some roots is followed."""
        return any(root in self._under for root in roots)

    def with_owners(self, slots: Iterable[int]) -> list[int]:
        """Return the slots of references and of their owners, owners first."""
        slots_found = {self.slot[name] for one in slots for name in prefixes(self.names[one]) if name in self.slot}
        return sorted(slots_found, key=lambda slot: (len(self.names[slot]), slot))

    def inside(self, slot: int) -> list[int]:
        """Return the slots of the fields and items of a reference."""
        name = self.names[slot]
        return [one for one in self.under(name) if len(self.names[one]) == len(name) + 1]

    def meeting(self, slot: int, block: Block) -> tuple[int, ...]:
        """Return the numbers of the blocks of a reference that may share a value with a block."""
        key = (slot, block)
        if key not in self._meeting:
            singles, others = self._sorted(slot)
            if block.single:
                same = singles.get((block.kind, block.value))
                numbers = [one for one in others if meet(self.blocks[slot][one], block)]
                self._meeting[key] = tuple(numbers if same is None else sorted([*numbers, same]))
            else:
                self._meeting[key] = tuple(number for number, one in enumerate(self.blocks[slot]) if meet(one, block))
        return self._meeting[key]

    def cut(self, names: Names, blocks: tuple[Block, ...]) -> tuple[Block, ...]:
        """Return the blocks of a reference with some values, cut to those; the values if it is not followed."""
        if names not in self.slot:
            return blocks
        partition = self.blocks[self.slot[names]]
        return tuple(common(block, one) for block in partition for one in blocks if meet(block, one))

    def _sorted(self, slot: int) -> tuple[dict[tuple[str, Any], int], list[int]]:
        """Return the single-valued blocks of a slot by value, and the other blocks. A long enum has many of the
        former."""
        if slot not in self._split:
            blocks = self.blocks[slot]
            singles = {(block.kind, block.value): number for number, block in enumerate(blocks) if block.single}
            self._split[slot] = singles, [number for number, block in enumerate(blocks) if not block.single]
        return self._split[slot]
